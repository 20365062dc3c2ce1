// The CUDA dialect of a port: the one header that a kernel file needs to be compiled by nvcc and by g++.
//
// Under nvcc this is the CUDA runtime and its half types. Under g++ it is the part of the dialect that a
// barrier-free kernel uses, and `trifold::launch` (launch.cuh) runs a grid as a plain loop over blocks and
// threads. A barrier there throws: it needs threads that wait, which a plain loop does not have.
#pragma once

#include <cstdint>

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#else

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// Where the running thread stands in its launch; `trifold::launch` sets them.
inline thread_local uint3 threadIdx{};
inline thread_local uint3 blockIdx{};
inline thread_local dim3 blockDim{};
inline thread_local dim3 gridDim{};
inline constexpr int warpSize = 32;

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) +
                           ": __syncthreads() is not supported yet in a port that runs on the CPU; "
                           "use CUDA tensors for this op");
}

inline void __syncwarp(unsigned = 0xffffffffu, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) +
                           ": __syncwarp() is not supported yet in a port that runs on the CPU; "
                           "use CUDA tensors for this op");
}

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

#endif

namespace trifold {

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
