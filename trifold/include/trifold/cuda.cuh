// The CUDA dialect of a port: the one header that a kernel file needs to be compiled by nvcc and by g++.
//
// Under nvcc this is the CUDA runtime and its half types. Under g++ it is an implementation of CUDA's dialect
// (<trifold/cpu/…>, a header for each part), and `trifold::launch` (launch.cuh) runs a grid on the CPU: as a plain
// loop over blocks and threads, until a thread waits for others. Files that include CUDA's own headers, such as
// <cooperative_groups.h> or <cuda_fp16.h>, need no change: for g++ the build has headers of these names.
//
// Put code that only a GPU can run in #ifndef TRIFOLD_CPU (target.h), with the CPU's version in #else: __CUDA_ARCH__
// cannot distinguish the two, since under g++ the device code of kernel files has that of a GPU.
#pragma once

#include <trifold/target.h>

#include <cstdint>

#ifndef TRIFOLD_CPU

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#else

#include <trifold/cpu/addresses.h>
#include <trifold/cpu/atomics.h>
#include <trifold/cpu/barriers.h>
#include <trifold/cpu/clocks.h>
#include <trifold/cpu/clusters.h>
#include <trifold/cpu/ending.h>
#include <trifold/cpu/float16_functions.h>
#include <trifold/cpu/heap.h>
#include <trifold/cpu/loads.h>
#include <trifold/cpu/math.h>
#include <trifold/cpu/numbers.h>
#include <trifold/cpu/qualifiers.h>
#include <trifold/cpu/vectors.h>
#include <trifold/cpu/version.h>
#include <trifold/cpu/warp.h>

#include <cstdio>
#include <cstring>

#endif

namespace trifold {

// The block's dynamic shared memory, whose size the launch sets, as elements of one type.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#ifndef TRIFOLD_CPU
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
#else
  return static_cast<T*>(cpu::dynamic_shared());
#endif
}

// The same, aligned to a 128-byte line: copies between different offsets in a line take longer.
template <class T>
__device__ __forceinline__ T* dynamic_shared_lines() {
#ifndef TRIFOLD_CPU
  extern __shared__ __align__(128) unsigned char lines[];
  return reinterpret_cast<T*>(lines);
#else
  return static_cast<T*>(cpu::dynamic_shared());
#endif
}

// The type that a kernel computes in: double for double, float for everything narrower.
template <class T>
struct Compute {
  using type = float;
};
template <>
struct Compute<double> {
  using type = double;
};
template <class T>
using compute_t = typename Compute<T>::type;

// Hides from the compiler how the address was computed, so that an int offset costs one addition instead of a
// recomputation in 64 bits.
template <class T>
__device__ __forceinline__ T* known_address(T* address) {
#ifdef TRIFOLD_GPU_ARCH
  asm("" : "+l"(address));
#endif
  return address;
}

// Waits until all earlier kernels in the stream have completed and their writes are visible. A kernel launched by
// `trifold::launch_early` must call it first: before that, earlier kernels may still read or write the same memory.
// (CUDA Programming Guide, programmatic dependent launch.)
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(TRIFOLD_CPU) || TRIFOLD_GPU_ARCH >= 900
  cudaGridDependencySynchronize();
#endif
}

// Allows the next kernel in the stream to be set up once all blocks of this one have called it; its wait still lasts
// until this one has completed. On an H200 this saves up to 0.7 µs for each of consecutive kernels.
__device__ __forceinline__ void let_later_kernels_begin() {
#if defined(TRIFOLD_CPU) || TRIFOLD_GPU_ARCH >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Threads in a block of a kernel with one element per thread. With fewer, an H200 starts blocks too slowly to keep its
// memory busy.
inline constexpr int threads_per_block = 256;

// The index of this thread in a one-dimensional grid of blocks of `block` threads, a compile-time constant: a kernel
// that reads blockDim.x starts its loads 30 ns later, 3% of a small launch on an H200.
template <int block = threads_per_block>
__device__ __forceinline__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * block + threadIdx.x;
}

}  // namespace trifold
