// softmax: the kernels of prototypes/softmax.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int ELEMENTS_PER_THREAD = 8;
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

// One block per row, in three passes over it: the maximum, the sum, the quotients.
template <class T>
__global__ void __launch_bounds__(256) softmax_kernel(const T* __restrict__ x, int64_t x_stride, T* __restrict__ y,
                                                      int64_t y_stride, int64_t rows, int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    C largest = C(-INFINITY);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x))
      largest = larger(largest, C(x[row * x_stride + i]));
    largest = block_max(largest, of_warp);
    C total = C(0);
    C lost = C(0);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const auto add_compensated_result = add_compensated(total, lost, exp(C(x[row * x_stride + i]) - largest));
      total = add_compensated_result.first;
      lost = add_compensated_result.second;
    }
    total = block_sum(total - lost, of_warp);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x))
      y[row * y_stride + i] = T(exp(C(x[row * x_stride + i]) - largest) / total);
  }
}

// softmax_kernel with a row in a team's registers: it is read once, and each exp is computed once.
template <class T>
__global__ void __launch_bounds__(256)
    softmax_rows_kernel(const T* __restrict__ x, int64_t x_stride, T* __restrict__ y, int64_t y_stride, int64_t rows,
                        int64_t columns, int64_t team) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  C part[ELEMENTS_PER_THREAD];
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / team;
  const int64_t own = row < rows ? columns : 0;
  C largest = C(-INFINITY);
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const int i = static_cast<int>(threadIdx.x % team + k * team);
    part[k] = i < own ? C(x[row * x_stride + i]) : C(-INFINITY);
    largest = larger(largest, part[k]);
  }
  largest = team_max(largest, of_warp, static_cast<int>(team));
  C total = C(0);
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    part[k] = exp(part[k] - largest);  // 0 past the end of the row
    total += part[k];
  }
  total = team_sum(total, of_warp, static_cast<int>(team));
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const int i = static_cast<int>(threadIdx.x % team + k * team);
    if (i < own) y[row * y_stride + i] = T(part[k] / total);
  }
}

// One block per row, in two passes: the sum of grad_y * y, and the products.
template <class T>
__global__ void __launch_bounds__(256)
    softmax_backward_kernel(const T* __restrict__ grad_y, int64_t grad_y_stride, const T* __restrict__ y,
                            int64_t y_stride, T* __restrict__ grad_x, int64_t grad_x_stride, int64_t rows,
                            int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    C total = C(0);
    C lost = C(0);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const auto add_compensated_result =
          add_compensated(total, lost, C(grad_y[row * grad_y_stride + i]) * C(y[row * y_stride + i]));
      total = add_compensated_result.first;
      lost = add_compensated_result.second;
    }
    total = block_sum(total - lost, of_warp);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x))
      grad_x[row * grad_x_stride + i] = T(C(y[row * y_stride + i]) * (C(grad_y[row * grad_y_stride + i]) - total));
  }
}

// softmax_backward_kernel with a row in a team's registers.
template <class T>
__global__ void __launch_bounds__(256)
    softmax_backward_rows_kernel(const T* __restrict__ grad_y, int64_t grad_y_stride, const T* __restrict__ y,
                                 int64_t y_stride, T* __restrict__ grad_x, int64_t grad_x_stride, int64_t rows,
                                 int64_t columns, int64_t team) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  C grad[ELEMENTS_PER_THREAD];
  C result[ELEMENTS_PER_THREAD];
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / team;
  const int64_t own = row < rows ? columns : 0;
  C total = C(0);
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const int i = static_cast<int>(threadIdx.x % team + k * team);
    grad[k] = i < own ? C(grad_y[row * grad_y_stride + i]) : C(0);
    result[k] = i < own ? C(y[row * y_stride + i]) : C(0);
    total += grad[k] * result[k];
  }
  total = team_sum(total, of_warp, static_cast<int>(team));
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const int i = static_cast<int>(threadIdx.x % team + k * team);
    if (i < own) grad_x[row * grad_x_stride + i] = T(result[k] * (grad[k] - total));
  }
}
