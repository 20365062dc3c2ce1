// softmax: the kernels of prototypes/softmax.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int WARPS_PER_BLOCK = 8;
inline constexpr uint32_t ALL_LANES = 0xFFFFFFFF;

// The larger one of two numbers; nan if either is: `trifold::Max`.
template <class C>
__device__ __forceinline__ double larger(double a, C b) {
  return a > b || a != a ? a : b;
}

// The larger one of two numbers; nan if either is: `trifold::Max`.
__device__ __forceinline__ double larger(double a, double b) {
  return a > b || a != a ? a : b;
}

// The largest of a warp's 32 lanes, nan if one is; all lanes call it. Types as `warp_sum`.
__device__ __forceinline__ double warp_max(double value) {
  for (const int lanes : {16, 8, 4, 2, 1}) value = larger(value, __shfl_xor_sync(ALL_LANES, value, lanes));
  return value;
}

// The largest of a block's threads, nan if one is; otherwise as `block_sum`.
__device__ __forceinline__ double block_max(double value, double* of_warp) {
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < blockDim.x / 32; ++warp) value = larger(value, of_warp[warp]);
    of_warp[0] = value;
  }
  __syncthreads();
  value = of_warp[0];
  __syncthreads();
  return value;
}

// The sum over a warp's 32 lanes, all of which call it; int32, int64, float32 or float64.
__device__ __forceinline__ double warp_sum(double value) {
  for (const int lanes : {16, 8, 4, 2, 1}) value += __shfl_xor_sync(ALL_LANES, value, lanes);
  return value;
}

// The sum over a block's threads, all of which call it.
//
// It ends with a barrier, so that it can be called again at once.
//
// Args:
//     value: int32, int64, float32 or float64.
//     of_warp: a shared array of that type with an element for each warp. The block has one dimension, and whole
//         warps.
__device__ __forceinline__ double block_sum(double value, double* of_warp) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < blockDim.x / 32; ++warp) value += of_warp[warp];
    of_warp[0] = value;
  }
  __syncthreads();
  value = of_warp[0];
  __syncthreads();
  return value;
}

template <class T>
__global__ void softmax_kernel(const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ double of_warp[WARPS_PER_BLOCK];
  const int row = blockIdx.x;
  double largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) largest = larger(largest, C(x[row * x_stride + i]));
  largest = block_max(largest, of_warp);
  double total = 0.0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) total += exp(C(x[row * x_stride + i]) - largest);
  total = block_sum(total, of_warp);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    y[row * y_stride + i] = T(C(exp(C(x[row * x_stride + i]) - largest) / total));
}

template <class T>
__global__ void softmax_backward_kernel(const T* grad_y, int64_t grad_y_stride, const T* y, int64_t y_stride, T* grad_x,
                                        int64_t grad_x_stride, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ double of_warp[WARPS_PER_BLOCK];
  const int row = blockIdx.x;
  double total = 0.0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    total += C(grad_y[row * grad_y_stride + i]) * C(y[row * y_stride + i]);
  total = block_sum(total, of_warp);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    grad_x[row * grad_x_stride + i] = T(C(C(y[row * y_stride + i]) * (C(grad_y[row * grad_y_stride + i]) - total)));
}
