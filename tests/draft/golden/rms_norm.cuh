// rms_norm: the kernels of prototypes/rms_norm.py.
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

// One block per row, in two passes over it: the sum of squares, then the result.
template <class T>
__global__ void __launch_bounds__(256)
    rms_norm_kernel(const T* __restrict__ x, int64_t x_stride, const T* __restrict__ weight, int64_t weight_length,
                    T* __restrict__ y, int64_t y_stride, trifold::compute_t<T>* __restrict__ rstd, int64_t rows,
                    int64_t columns, double eps) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    C squares = C(0);
    C lost = C(0);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const auto add_compensated_result =
          add_compensated(squares, lost, C(x[row * x_stride + i]) * C(x[row * x_stride + i]));
      squares = add_compensated_result.first;
      lost = add_compensated_result.second;
    }
    const C r = C(1) / sqrt(block_sum(squares - lost, of_warp) / C(columns) + C(eps));
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const C x_hat = C(x[row * x_stride + i]) * r;
      y[row * y_stride + i] = T(weight_length > 0 ? x_hat * C(weight[i]) : x_hat);
    }
    if (threadIdx.x == 0) rstd[row] = r;
  }
}

// rms_norm_kernel with a row in a team's registers: it is read once.
template <class T>
__global__ void __launch_bounds__(256)
    rms_norm_rows_kernel(const T* __restrict__ x, int64_t x_stride, const T* __restrict__ weight, int64_t weight_length,
                         T* __restrict__ y, int64_t y_stride, trifold::compute_t<T>* __restrict__ rstd, int64_t rows,
                         int64_t columns, double eps, int64_t team) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  C part[ELEMENTS_PER_THREAD];
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / team;
  const int64_t own = row < rows ? columns : 0;
  C squares = C(0);
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const int i = static_cast<int>(threadIdx.x % team + k * team);
    part[k] = i < own ? C(x[row * x_stride + i]) : C(0);
    squares += part[k] * part[k];
  }
  const C r = C(1) / sqrt(team_sum(squares, of_warp, static_cast<int>(team)) / C(columns) + C(eps));
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const int i = static_cast<int>(threadIdx.x % team + k * team);
    if (i < own) {
      const C x_hat = part[k] * r;
      y[row * y_stride + i] = T(weight_length > 0 ? x_hat * C(weight[i]) : x_hat);
    }
  }
  if (row < rows && threadIdx.x % team == 0) rstd[row] = r;
}

// One block per row, in two passes over it: the sum of g * x_hat, then the result.
template <class T>
__global__ void __launch_bounds__(256)
    rms_norm_backward_kernel(const T* __restrict__ grad, int64_t grad_stride, const T* __restrict__ x, int64_t x_stride,
                             const T* __restrict__ weight, int64_t weight_length,
                             const trifold::compute_t<T>* __restrict__ rstd, T* __restrict__ grad_x,
                             int64_t grad_x_stride, int64_t rows, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const C r = rstd[row];
    C total = C(0);
    C lost = C(0);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const C g = C(grad[row * grad_stride + i]) * (weight_length > 0 ? C(weight[i]) : C(1));
      const auto add_compensated_result = add_compensated(total, lost, g * (C(x[row * x_stride + i]) * r));
      total = add_compensated_result.first;
      lost = add_compensated_result.second;
    }
    const C mean_gx = block_sum(total - lost, of_warp) / C(columns);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const C g = C(grad[row * grad_stride + i]) * (weight_length > 0 ? C(weight[i]) : C(1));
      grad_x[row * grad_x_stride + i] = T(r * (g - C(x[row * x_stride + i]) * r * mean_gx));
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

// The first step of the gradient of weight: the sums over part of the rows.
template <class T>
__global__ void __launch_bounds__(128)
    rms_norm_weight_gradient_kernel(const T* __restrict__ grad, int64_t grad_stride, const T* __restrict__ x,
                                    int64_t x_stride, const trifold::compute_t<T>* __restrict__ rstd,
                                    trifold::compute_t<T>* __restrict__ parts, int64_t parts_stride0,
                                    int64_t parts_stride1, int64_t rows, int64_t rows_a_part, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ C of_thread[COLUMN_THREADS][COLUMN_BLOCK];
  const int part = blockIdx.y;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * COLUMN_BLOCK + threadIdx.x;
  C total = C(0);
  C lost = C(0);
  if (column < columns) {
    const int64_t begin = part * rows_a_part;
    const int64_t end = begin + rows_a_part < rows ? begin + rows_a_part : rows;
    for (int64_t row = begin + threadIdx.y; row < end; row += COLUMN_THREADS) {
      const auto add_compensated_result = add_compensated(
          total, lost, C(grad[row * grad_stride + column]) * (C(x[row * x_stride + column]) * rstd[row]));
      total = add_compensated_result.first;
      lost = add_compensated_result.second;
    }
  }
  total = column_sum(total - lost, &of_thread[0][0], 32);
  if (threadIdx.y == 0 && column < columns) parts[part * parts_stride1 + column] = total;
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
