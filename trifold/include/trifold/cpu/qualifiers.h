// CUDA's qualifiers and built-in variables. Device and constant variables are variables of the library; a shared array
// is a thread_local variable, and all `extern __shared__` arrays are launch.cuh's extern_shared
// (trifold/build/shared_arrays.py).
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/standard.h>

#define __global__
#define __device__
#define __host__
#ifdef __SANITIZE_THREAD__
// In a section whose name marks it (engine/cpu/module.cpp). Each has its own section, since g++ does not allow
// constants and other variables in one.
#define TRIFOLD_IN_SECTION(number) __attribute__((section(".trifold_constant." #number)))
#define TRIFOLD_NUMBERED(in_section, number) in_section(number)
#define __constant__ TRIFOLD_NUMBERED(TRIFOLD_IN_SECTION, __COUNTER__)
#else
#define __constant__
#endif
#define __managed__
// ptxas places shared variables next to each other, so that arrays of whole vectors, or of rows for wmma, are aligned
// to a vector, whatever their type's alignment. Programs rely on it.
#define __shared__ __attribute__((aligned(32))) thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
#ifdef __OPTIMIZE__
#define __forceinline__ inline __attribute__((always_inline))
#else
#define __forceinline__ inline  // for gdb and gcov: an inlined function's lines are attributed to its caller
#endif
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __nv_pure__ __attribute__((pure))
// Empty, and so valid both in `__noinline__ void f()` and in the C++ library's `__attribute__((__noinline__))`.
#define __noinline__

// The position of the running thread in its launch.
inline thread_local uint3 threadIdx{};
inline thread_local uint3 blockIdx{};
inline thread_local dim3 blockDim{};
inline thread_local dim3 gridDim{};
inline constexpr int warpSize = 32;

namespace trifold::cpu {

// Whether a kernel calls, for functions with a body for each side (trifold/build/device_code.py). g++ refuses a
// constant that depends on it, at the constant's line; since this is a template, not earlier.
template <int = 0>
constexpr bool in_device_code() {
  return in_kernel();
}

// The threads of `__launch_bounds__(threads, blocks, …)`, as rewritten by trifold/build/launch_bounds.py.
template <class... More>
constexpr unsigned launch_bounds(unsigned threads, More...) {
  return threads;
}

// The extents of `__cluster_dims__(x, y, z)`; omitted ones are 1.
struct ClusterDims {
  unsigned x, y = 1, z = 1;
};

// Ends the launch if a block has more threads.
inline void require_launch_bounds(unsigned threads) {
  if (blockDim.x * blockDim.y * blockDim.z > threads) [[unlikely]]
    exceed_launch_bounds(threads);
}

}  // namespace trifold::cpu
