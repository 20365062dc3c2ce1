// Copies from global to shared memory that a thread need not wait for (sm_80 on; PTX ISA, cp.async).
#pragma once

#include <trifold/cuda.cuh>

#ifdef TRIFOLD_CPU
#include <trifold/host/ptx.h>
#endif

namespace trifold {

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes to an address in shared memory, of which those beyond the first `bytes` are not read, and 0.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Ends a group of copies.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until all of this thread's but the last `count` groups have arrived.
template <int count>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory");
}
// Waits until no copy of this thread is under way.
__device__ __forceinline__ void wait_for_all_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

#if !defined(TRIFOLD_GPU_ARCH) || TRIFOLD_GPU_ARCH >= 900

// Asks for `bytes`, a multiple of 16, from a 16-byte boundary in global memory, to be in L2. A kernel may ask before it
// waits for earlier ones: what they write goes to L2 as well, so that nothing there is out of date.
__device__ __forceinline__ void prefetch_to_l2(const void* from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// Lets L2 forget the line of memory that begins there: it is not written to memory, and undefined from now on.
__device__ __forceinline__ void forget_line(const void* line) {
  asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory");
}

// By each thread that has read or written shared memory which a bulk copy is to overwrite or to read, before the
// barrier that orders the two: such copies go through another proxy, which need not wait for that. (PTX ISA, "Async
// proxy")
__device__ __forceinline__ void fence_before_bulk_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The thread's next bulk copy reads whole vectors of 16 bytes, of the first and the last of which not all is the
// tensor's. What is not is never used; no GPU minds, and here the checks on the CPU learn that it is meant.
__device__ __forceinline__ void reads_whole_vectors() {
#ifdef TRIFOLD_CPU
  host::allow_neighbours();
#endif
}

// Copies `bytes`, a multiple of 16, from and to 16-byte boundaries, for the barrier in shared memory at `mailbox`,
// which counts them as they come (sm_90 on; PTX ISA, cp.async.bulk). One thread asks for all of it.
__device__ __forceinline__ void copy_bulk(unsigned to, const void* from, int bytes, unsigned mailbox) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(mailbox)
               : "memory");
}

#endif

}  // namespace trifold
