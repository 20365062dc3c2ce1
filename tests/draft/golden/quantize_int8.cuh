// quantize_int8: the kernels of prototypes/quantize_int8.py.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/python_numbers.cuh>

inline constexpr int WARPS_PER_BLOCK = 8;
inline constexpr uint32_t ALL_LANES = 0xFFFFFFFF;

// The larger one of two numbers; nan if either is: `trifold::Max`.
template <class C>
__device__ __forceinline__ C larger(C a, C b) {
  return a > b || a != a ? a : b;
}

// The maximum over each team of a block, nan if one is; otherwise as `team_sum`.
template <class C>
__device__ __forceinline__ C team_max(C value, C* of_warp, int team) {
  int lanes = team > 32 ? 16 : team / 2;
  while (lanes > 0) {
    value = larger(value, __shfl_xor_sync(ALL_LANES, value, lanes));
    lanes /= 2;
  }
  if (team > 32) {
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < team / 32; ++warp) value = larger(value, of_warp[warp]);
      of_warp[0] = value;
    }
    __syncthreads();
    value = of_warp[0];
    __syncthreads();
  }
  return value;
}

// The maximum over a block's threads, nan if one is; otherwise as `block_sum`.
template <class C>
__device__ __forceinline__ C block_max(C value, C* of_warp) {
  return team_max(value, of_warp, static_cast<int>(blockDim.x));
}

template <class C>
__device__ __forceinline__ float scale_of(C largest) {
  const float scale = static_cast<float>(largest / 127.0);
  return scale != 0 ? scale : 1.0f;
}

template <class C>
__device__ __forceinline__ int64_t quantized(C x, float scale) {
  if (!(static_cast<double>(fabs(scale)) < INFINITY)) return 0;
  return static_cast<int64_t>(rint(fmin(fmax(static_cast<double>(x / scale), -127.0), 127.0)));
}

template <class T>
__global__ void __launch_bounds__(256)
    quantize_int8_kernel(const T* __restrict__ x, int64_t x_stride, int8_t* __restrict__ q, int64_t q_stride,
                         float* __restrict__ scales, int64_t rows, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    C largest = C(0);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x))
      largest = larger(largest, fabs(C(x[row * x_stride + i])));
    largest = block_max(largest, of_warp);
    const float scale = scale_of(largest);
    if (threadIdx.x == 0) scales[row] = scale;
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x))
      q[row * q_stride + i] = static_cast<int8_t>(quantized(C(x[row * x_stride + i]), scale));
  }
}

template <class T>
__global__ void __launch_bounds__(256) quantize_int8_max_kernel(const T* __restrict__ x, int64_t x_stride,
                                                                trifold::compute_t<T>* __restrict__ largest_of_part,
                                                                int64_t columns, int64_t parts, int64_t stretch) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  const int row = static_cast<int>(trifold::floor_div(blockIdx.x, parts));
  const int64_t first = trifold::floor_mod(blockIdx.x, parts) * stretch;
  const int64_t last = min(first + stretch, columns);
  C largest = C(0);
  for (int64_t i = first + threadIdx.x; i < last; i += static_cast<int>(blockDim.x))
    largest = larger(largest, fabs(C(x[row * x_stride + i])));
  largest = block_max(largest, of_warp);
  if (threadIdx.x == 0) largest_of_part[blockIdx.x] = largest;
}

template <class T>
__global__ void __launch_bounds__(256)
    quantize_int8_parts_kernel(const T* __restrict__ x, int64_t x_stride,
                               const trifold::compute_t<T>* __restrict__ largest_of_part, int8_t* __restrict__ q,
                               int64_t q_stride, float* __restrict__ scales, int64_t columns, int64_t parts,
                               int64_t stretch) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  const int row = static_cast<int>(trifold::floor_div(blockIdx.x, parts));
  const int64_t first = trifold::floor_mod(blockIdx.x, parts) * stretch;
  const int64_t last = min(first + stretch, columns);
  C largest = C(0);
  for (int i = threadIdx.x; i < parts; i += static_cast<int>(blockDim.x))
    largest = larger(largest, largest_of_part[row * parts + i]);
  largest = block_max(largest, of_warp);
  const float scale = scale_of(largest);
  if (threadIdx.x == 0 && first == 0) scales[row] = scale;
  for (int64_t i = first + threadIdx.x; i < last; i += static_cast<int>(blockDim.x))
    q[row * q_stride + i] = static_cast<int8_t>(quantized(C(x[row * x_stride + i]), scale));
}
