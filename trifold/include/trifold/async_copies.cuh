// Asynchronous copies from global to shared memory (sm_80 on; PTX ISA, cp.async).
#pragma once

#include <trifold/cuda.cuh>

#ifdef TRIFOLD_CPU
#include <trifold/cpu/ptx.h>
#endif

namespace trifold {

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Copies `bytes` bytes to an address in shared memory, and fills up to 16 with zeros.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Copies one element of 4 or 8 bytes to shared memory.
template <class T>
__device__ __forceinline__ void copy_element_async(T* to, const T* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(sizeof(T))
               : "memory");
}

// Commits a group of copies.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until all but the last `count` groups of this thread have completed.
template <int count>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory");
}
// Waits until all copies of this thread have completed.
__device__ __forceinline__ void wait_for_all_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

#if !defined(TRIFOLD_GPU_ARCH) || TRIFOLD_GPU_ARCH >= 900

// Prefetches `bytes`, a multiple of 16, from a 16-byte boundary in global memory to L2. A kernel may do this before it
// waits for earlier ones: their writes also go to L2, so that it never holds stale data.
__device__ __forceinline__ void prefetch_to_l2(const void* from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// The thread's next bulk copy reads whole 16-byte vectors, the first and last of which may extend beyond the tensor.
// That part is never used, which is harmless on a GPU; the call declares it to the checks on the CPU.
__device__ __forceinline__ void reads_whole_vectors() {
#ifdef TRIFOLD_CPU
  cpu::allow_neighbours();
#endif
}

#endif

}  // namespace trifold
