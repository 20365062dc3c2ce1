// rms_norm: the kernels of prototypes/rms_norm.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int WARPS_PER_BLOCK = 8;
inline constexpr uint32_t ALL_LANES = 0xFFFFFFFF;
inline constexpr int COLUMN_THREADS = 4;
inline constexpr int COLUMN_BLOCK = 32;

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
__global__ void rms_norm_kernel(const T* x, int64_t x_stride, const T* weight, int64_t weight_length, T* y,
                                int64_t y_stride, trifold::compute_t<T>* rstd, int64_t columns, double eps) {
  using C = trifold::compute_t<T>;
  __shared__ double of_warp[WARPS_PER_BLOCK];
  const int row = blockIdx.x;
  double total = 0.0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    total += C(x[row * x_stride + i]) * C(x[row * x_stride + i]);
  const double r = 1 / sqrt(block_sum(total, of_warp) / columns + eps);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const double x_hat = C(x[row * x_stride + i]) * r;
    y[row * y_stride + i] = T(C(weight_length > 0 ? x_hat * C(weight[i]) : x_hat));
  }
  if (threadIdx.x == 0) rstd[row] = r;
}

template <class T>
__global__ void rms_norm_backward_kernel(const T* grad, int64_t grad_stride, const T* x, int64_t x_stride,
                                         const T* weight, int64_t weight_length, const trifold::compute_t<T>* rstd,
                                         T* grad_x, int64_t grad_x_stride, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ double of_warp[WARPS_PER_BLOCK];
  const int row = blockIdx.x;
  const C r = rstd[row];
  double total = 0.0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const double g = C(grad[row * grad_stride + i]) * (weight_length > 0 ? C(weight[i]) : 1.0);
    total += g * (C(x[row * x_stride + i]) * r);
  }
  const double mean_gx = block_sum(total, of_warp) / columns;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const double g = C(grad[row * grad_stride + i]) * (weight_length > 0 ? C(weight[i]) : 1.0);
    grad_x[row * grad_x_stride + i] = T(C(r * (g - C(x[row * x_stride + i]) * r * mean_gx)));
  }
}

// The sum over the threads of this thread's column; all threads of the block call it.
//
// It ends with a barrier, so that it can be called again at once.
//
// Args:
//     value: float64.
//     of_thread: a shared array of float64, `(COLUMN_THREADS, COLUMN_BLOCK)`.
__device__ __forceinline__ double column_sum(double value, double* of_thread, int64_t of_thread_stride) {
  of_thread[threadIdx.y * of_thread_stride + threadIdx.x] = value;
  __syncthreads();
  value = of_thread[0 * of_thread_stride + threadIdx.x];
  for (int thread = 1; thread < COLUMN_THREADS; ++thread) value += of_thread[thread * of_thread_stride + threadIdx.x];
  __syncthreads();
  return value;
}

template <class T>
__global__ void rms_norm_weight_gradient_kernel(const T* grad, int64_t grad_stride, const T* x, int64_t x_stride,
                                                const trifold::compute_t<T>* rstd, trifold::compute_t<T>* parts,
                                                int64_t parts_stride0, int64_t parts_stride1, int64_t rows,
                                                int64_t rows_a_part, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ double of_thread[COLUMN_THREADS][COLUMN_BLOCK];
  const int part = blockIdx.y;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * COLUMN_BLOCK + threadIdx.x;
  double total = 0.0;
  if (column < columns) {
    const int64_t end = min((part + 1) * rows_a_part, rows);
    for (int64_t row = part * rows_a_part + threadIdx.y; row < end; row += COLUMN_THREADS)
      total += C(grad[row * grad_stride + column]) * (C(x[row * x_stride + column]) * rstd[row]);
  }
  total = column_sum(total, &of_thread[0][0], 32);
  if (threadIdx.y == 0 && column < columns) parts[0 * parts_stride0 + part * parts_stride1 + column] = total;
}

template <class T>
__global__ void sum_parts_kernel(const trifold::compute_t<T>* parts, int64_t parts_stride0, int64_t parts_stride1,
                                 T* first, T* second, int64_t count, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ double of_thread[COLUMN_THREADS][COLUMN_BLOCK];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * COLUMN_BLOCK + threadIdx.x;
  double total = 0.0;
  if (column < columns) {
    for (int64_t part = threadIdx.y; part < count; part += COLUMN_THREADS)
      total += parts[blockIdx.y * parts_stride0 + part * parts_stride1 + column];
  }
  total = column_sum(total, &of_thread[0][0], 32);
  if (threadIdx.y == 0 && column < columns) {
    if (blockIdx.y == 0) {
      first[column] = T(C(total));
    } else {
      second[column] = T(C(total));
    }
  }
}
