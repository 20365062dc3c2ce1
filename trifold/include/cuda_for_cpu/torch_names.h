// What device code of an extension of torch takes from torch's headers, for the CPU: included in place of each of them
// where trifold/build/torch_text.py leaves out the host code for torch.
#pragma once

// Headers that torch's include, and that kernels rely on.
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "torch_accessors.h"

namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}  // namespace c10

namespace at {
using c10::BFloat16;
using c10::Half;

// The type in which torch computes: float for half types.
template <typename T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<Half> {
  using type = float;
};
template <>
struct OpMathType<BFloat16> {
  using type = float;
};
template <typename T>
using opmath_type = typename OpMathType<T>::type;

// The type in which torch accumulates, on a GPU that of opmath_type.
template <typename T, bool is_cuda>
using acc_type = opmath_type<T>;

template <typename T>
__host__ __device__ T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
}  // namespace at

namespace torch {
using at::BFloat16;
using at::Half;
}  // namespace torch

template <typename T>
__device__ T gpuAtomicAdd(T* address, T value) {
  return atomicAdd(address, value);
}
template <typename T>
__device__ void gpuAtomicAddNoReturn(T* address, T value) {
  atomicAdd(address, value);
}

#define C10_LAUNCH_BOUNDS_0  // with arguments: trifold/build/torch_text.py
#define C10_HOST __host__
#define C10_DEVICE __device__
#define C10_HOST_DEVICE __host__ __device__
#define C10_RESTRICT __restrict__
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                                                       \
  for (index_type i = static_cast<index_type>(blockIdx.x) * blockDim.x + threadIdx.x; i < static_cast<index_type>(n); \
       i += static_cast<index_type>(blockDim.x) * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
