// layer_norm: the kernels of prototypes/layer_norm.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int ELEMENTS_PER_THREAD = 8;
inline constexpr int COLUMN_THREADS = 4;
inline constexpr int COLUMN_BLOCK = 32;
inline constexpr int WARPS_PER_BLOCK = 8;
inline constexpr uint32_t ALL_LANES = 0xFFFFFFFF;

template <class C>
struct AddCompensatedResult {
  C first;
  C second;
};

// `total + term`, and its rounding error: `trifold::CompensatedSum` (Kahan 1965).
//
// The error of `total - lost` does not grow with the number of terms. Infinities and nan are as in a plain sum.
//
// Args:
//     total, lost: of one type; both begin as 0.
//     term: of that type.
template <class C>
__device__ __forceinline__ AddCompensatedResult<C> add_compensated(C total, C lost, C term) {
  const C corrected = term - lost;
  const C following = total + corrected;
  const C error = following - total - corrected;
  return {following, error - error == 0 ? error : lost - lost};
}

// The sum over each team of a block; all threads of the block call it.
//
// Args:
//     value, of_warp: as for `block_sum`; for teams within a warp, `of_warp` is not used.
//     team: the number of neighbouring threads: a power of two up to 32, or all of the block.
template <class C>
__device__ __forceinline__ C team_sum(C value, C* of_warp, int team) {
  int lanes = team > 32 ? 16 : team / 2;
  while (lanes > 0) {
    value += __shfl_xor_sync(ALL_LANES, value, lanes);
    lanes /= 2;
  }
  if (team > 32) {
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < team / 32; ++warp) value += of_warp[warp];
      of_warp[0] = value;
    }
    __syncthreads();
    value = of_warp[0];
    __syncthreads();
  }
  return value;
}

// The sum over a block's threads; all threads call it.
//
// Ends with a barrier, so that it can be called again at once.
//
// Args:
//     value: int32, int64, float32 or float64.
//     of_warp: a shared array of that type with an element per warp. The block is one-dimensional and consists of
//         whole warps.
template <class C>
__device__ __forceinline__ C block_sum(C value, C* of_warp) {
  return team_sum(value, of_warp, static_cast<int>(blockDim.x));
}

// One block per row, in three passes over it: the mean, the variance, the result.
template <class T>
__global__ void __launch_bounds__(256)
    layer_norm_kernel(const T* __restrict__ x, int64_t x_stride, const T* __restrict__ weight, int64_t weight_length,
                      const T* __restrict__ bias, int64_t bias_length, T* __restrict__ y, int64_t y_stride,
                      trifold::compute_t<T>* mean, trifold::compute_t<T>* rstd, int64_t rows, int64_t columns,
                      double eps) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    C total = C(0);
    C lost = C(0);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const auto add_compensated_result = add_compensated(total, lost, C(x[row * x_stride + i]));
      total = add_compensated_result.first;
      lost = add_compensated_result.second;
    }
    const C m = block_sum(total - lost, of_warp) / C(columns);
    C squares = C(0);
    lost = C(0);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const C difference = C(x[row * x_stride + i]) - m;
      const auto add_compensated_result2 = add_compensated(squares, lost, difference * difference);
      squares = add_compensated_result2.first;
      lost = add_compensated_result2.second;
    }
    const C r = C(1) / sqrt(block_sum(squares - lost, of_warp) / C(columns) + C(eps));
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      C value = (C(x[row * x_stride + i]) - m) * r;
      if (weight_length > 0) value *= C(weight[i]);
      if (bias_length > 0) value += C(bias[i]);
      y[row * y_stride + i] = T(value);
    }
    if (threadIdx.x == 0) {
      mean[row] = m;
      rstd[row] = r;
    }
  }
}

// layer_norm_kernel with a row in a team's registers: it is read once.
template <class T>
__global__ void __launch_bounds__(256)
    layer_norm_rows_kernel(const T* __restrict__ x, int64_t x_stride, const T* __restrict__ weight,
                           int64_t weight_length, const T* __restrict__ bias, int64_t bias_length, T* __restrict__ y,
                           int64_t y_stride, trifold::compute_t<T>* mean, trifold::compute_t<T>* rstd, int64_t rows,
                           int64_t columns, double eps, int64_t team) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  C part[ELEMENTS_PER_THREAD];
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / team;
  const int64_t own = row < rows ? columns : 0;
  C total = C(0);
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const int i = static_cast<int>(threadIdx.x % team + k * team);
    part[k] = i < own ? C(x[row * x_stride + i]) : C(0);
    total += part[k];
  }
  const C m = team_sum(total, of_warp, static_cast<int>(team)) / C(columns);
  C squares = C(0);
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    if (threadIdx.x % team + k * team < own) {
      part[k] -= m;
      squares += part[k] * part[k];
    }
  }
  const C r = C(1) / sqrt(team_sum(squares, of_warp, static_cast<int>(team)) / C(columns) + C(eps));
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const int i = static_cast<int>(threadIdx.x % team + k * team);
    if (i < own) {
      C value = part[k] * r;
      if (weight_length > 0) value *= C(weight[i]);
      if (bias_length > 0) value += C(bias[i]);
      y[row * y_stride + i] = T(value);
    }
  }
  if (row < rows && threadIdx.x % team == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

// One block per row, in two passes over it: the sums of g and of g * x_hat, then the result.
template <class T>
__global__ void __launch_bounds__(256)
    layer_norm_backward_kernel(const T* __restrict__ grad, int64_t grad_stride, const T* __restrict__ x,
                               int64_t x_stride, const T* __restrict__ weight, int64_t weight_length,
                               const trifold::compute_t<T>* __restrict__ mean,
                               const trifold::compute_t<T>* __restrict__ rstd, T* __restrict__ grad_x,
                               int64_t grad_x_stride, int64_t rows, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const C m = mean[row];
    const C r = rstd[row];
    C sum_g = C(0);
    C lost_g = C(0);
    C sum_gx = C(0);
    C lost_gx = C(0);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const C g = C(grad[row * grad_stride + i]) * (weight_length > 0 ? C(weight[i]) : C(1));
      const auto add_compensated_result = add_compensated(sum_g, lost_g, g);
      sum_g = add_compensated_result.first;
      lost_g = add_compensated_result.second;
      const auto add_compensated_result2 = add_compensated(sum_gx, lost_gx, g * ((C(x[row * x_stride + i]) - m) * r));
      sum_gx = add_compensated_result2.first;
      lost_gx = add_compensated_result2.second;
    }
    const C mean_g = block_sum(sum_g - lost_g, of_warp) / C(columns);
    const C mean_gx = block_sum(sum_gx - lost_gx, of_warp) / C(columns);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const C g = C(grad[row * grad_stride + i]) * (weight_length > 0 ? C(weight[i]) : C(1));
      grad_x[row * grad_x_stride + i] = T(r * (g - mean_g - (C(x[row * x_stride + i]) - m) * r * mean_gx));
    }
  }
}

// The sum over the threads of this thread's column; all threads of the block call it.
//
// Ends with a barrier, so that it can be called again at once.
//
// Args:
//     value: float32 or float64.
//     of_thread: a shared array of that type, `(COLUMN_THREADS, COLUMN_BLOCK)`.
template <class C>
__device__ __forceinline__ C column_sum(C value, C* of_thread, int64_t of_thread_stride) {
  of_thread[threadIdx.y * of_thread_stride + threadIdx.x] = value;
  __syncthreads();
  value = of_thread[threadIdx.x];
  for (int thread = 1; thread < COLUMN_THREADS; ++thread) value += of_thread[thread * of_thread_stride + threadIdx.x];
  __syncthreads();
  return value;
}

// The first step of the gradients of weight and bias: the sums over part of the rows.
template <class T>
__global__ void __launch_bounds__(128)
    layer_norm_weight_gradient_kernel(const T* __restrict__ grad, int64_t grad_stride, const T* __restrict__ x,
                                      int64_t x_stride, const trifold::compute_t<T>* __restrict__ mean,
                                      const trifold::compute_t<T>* __restrict__ rstd,
                                      trifold::compute_t<T>* __restrict__ parts, int64_t parts_stride0,
                                      int64_t parts_stride1, int64_t rows, int64_t rows_a_part, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ C of_thread[COLUMN_THREADS][COLUMN_BLOCK];
  const int part = blockIdx.y;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * COLUMN_BLOCK + threadIdx.x;
  C of_weight = C(0);
  C lost_of_weight = C(0);
  C of_bias = C(0);
  C lost_of_bias = C(0);
  if (column < columns) {
    const int64_t begin = part * rows_a_part;
    const int64_t end = begin + rows_a_part < rows ? begin + rows_a_part : rows;
    for (int64_t row = begin + threadIdx.y; row < end; row += COLUMN_THREADS) {
      const C g = C(grad[row * grad_stride + column]);
      const C x_hat = (C(x[row * x_stride + column]) - mean[row]) * rstd[row];
      const auto add_compensated_result = add_compensated(of_weight, lost_of_weight, g * x_hat);
      of_weight = add_compensated_result.first;
      lost_of_weight = add_compensated_result.second;
      const auto add_compensated_result2 = add_compensated(of_bias, lost_of_bias, g);
      of_bias = add_compensated_result2.first;
      lost_of_bias = add_compensated_result2.second;
    }
  }
  of_weight = column_sum(of_weight - lost_of_weight, &of_thread[0][0], 32);
  of_bias = column_sum(of_bias - lost_of_bias, &of_thread[0][0], 32);
  if (threadIdx.y == 0 && column < columns) {
    parts[part * parts_stride1 + column] = of_weight;
    parts[parts_stride0 + part * parts_stride1 + column] = of_bias;
  }
}

template <class T>
__global__ void __launch_bounds__(128)
    sum_parts_kernel(const trifold::compute_t<T>* __restrict__ parts, int64_t parts_stride0, int64_t parts_stride1,
                     T* __restrict__ first, T* __restrict__ second, int64_t count, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ C of_thread[COLUMN_THREADS][COLUMN_BLOCK];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * COLUMN_BLOCK + threadIdx.x;
  C total = C(0);
  C lost = C(0);
  if (column < columns) {
    for (int64_t part = threadIdx.y; part < count; part += COLUMN_THREADS) {
      const auto add_compensated_result =
          add_compensated(total, lost, parts[blockIdx.y * parts_stride0 + part * parts_stride1 + column]);
      total = add_compensated_result.first;
      lost = add_compensated_result.second;
    }
  }
  total = column_sum(total - lost, &of_thread[0][0], 32);
  if (threadIdx.y == 0 && column < columns) {
    if (blockIdx.y == 0) {
      first[column] = T(total);
    } else {
      second[column] = T(total);
    }
  }
}
