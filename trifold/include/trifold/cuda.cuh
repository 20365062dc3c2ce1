// The CUDA dialect of a port: the one header that a kernel file needs to be compiled by nvcc and by g++.
//
// Under nvcc this is the CUDA runtime and its half types. Under g++ it is the dialect, and `trifold::launch`
// (launch.cuh) runs a grid on the CPU: as a plain loop over blocks and threads, until a thread waits for others.
#pragma once

#include <cstdint>

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#else

#include <trifold/host.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
#ifdef __OPTIMIZE__
#define __forceinline__ inline __attribute__((always_inline))
#else
#define __forceinline__ inline  // for gdb and gcov: an inlined function's lines are lost in its caller's
#endif
#define __launch_bounds__(...)
#define __grid_constant__

// Where the running thread stands in its launch.
inline thread_local uint3 threadIdx{};
inline thread_local uint3 blockIdx{};
inline thread_local dim3 blockDim{};
inline thread_local dim3 gridDim{};
inline constexpr int warpSize = 32;

// IEEE binary16 as CUDA's __half: storage and conversions; arithmetic is done in float.
struct __half {
  std::uint16_t bits;
  __half() = default;
  explicit __half(float value) : bits(std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) {}
  operator float() const { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
};

// bfloat16 as CUDA's __nv_bfloat16: the upper half of a float, rounded to nearest even.
struct __nv_bfloat16 {
  std::uint16_t bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? std::uint16_t{0x7fff} : static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(a) * b) >> 32);
}

#include <trifold/cooperation.h>

#endif

namespace trifold {

// The block's dynamic shared memory, of which the launch says how many bytes it has, as elements of one type.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
#else
  return static_cast<T*>(host::dynamic_shared());
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

// Waits until all earlier kernels in the stream have ended, and sees what they wrote. A kernel that
// `trifold::launch_early` starts begins with this: until then, memory may hold what an earlier kernel is about to
// overwrite or to read. (CUDA Programming Guide, programmatic dependent launch.)
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// Threads in a block of a kernel that takes one element a thread. With fewer, an H200 starts blocks too slowly to keep
// its memory busy.
inline constexpr int threads_per_block = 256;

// The number of this thread in a one-dimensional grid of blocks of `block` threads. A constant, since a kernel that
// asks for blockDim.x starts its loads 30 ns later: 3% of a small launch, on an H200.
template <int block = threads_per_block>
__device__ __forceinline__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * block + threadIdx.x;
}

}  // namespace trifold
