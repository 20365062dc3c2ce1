// argmax: the kernels of prototypes/argmax.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int WARPS_PER_BLOCK = 8;

// Slice blockIdx.y of a row that is cut into gridDim.y slices; the last one also has the remainder.
__device__ __forceinline__ int64_t slice_length(int64_t columns, int64_t share) {
  return blockIdx.y + 1 == gridDim.y ? columns - blockIdx.y * share : share;
}

template <class C>
__device__ __forceinline__ bool is_larger(C a, C b) {
  return b == b && !(a <= b);  // also true if a is nan
}

template <class C>
__device__ __forceinline__ bool comes_before(C value_a, int64_t column_a, C value_b, int64_t column_b) {
  return is_larger(value_a, value_b) || (!is_larger(value_b, value_a) && column_a < column_b);
}

template <class C>
struct BestOfTeamResult {
  C value;
  int64_t column;
};

template <class C>
__device__ __forceinline__ BestOfTeamResult<C> best_of_team(C value, int64_t column, C* value_of_warp,
                                                            int64_t* column_of_warp, int team) {
  int distance = min(team, 32) / 2;
  while (distance > 0) {
    const C other_value = __shfl_xor_sync(0xFFFFFFFF, value, distance);
    const int64_t other_column = __shfl_xor_sync(0xFFFFFFFF, column, distance);
    if (comes_before(other_value, other_column, value, column)) {
      value = other_value;
      column = other_column;
    }
    distance /= 2;
  }
  if (team > 32) {
    if (threadIdx.x % 32 == 0) {
      value_of_warp[threadIdx.x / 32] = value;
      column_of_warp[threadIdx.x / 32] = column;
    }
    __syncthreads();
    for (int warp = 0; warp < blockDim.x / 32; ++warp) {
      if (comes_before(value_of_warp[warp], column_of_warp[warp], value, column)) {
        value = value_of_warp[warp];
        column = column_of_warp[warp];
      }
    }
  }
  return {value, column};
}

template <class T>
__global__ void __launch_bounds__(256)
    argmax_kernel(const T* __restrict__ x, int64_t x_stride, const int64_t* __restrict__ columns_of,
                  int64_t columns_of_stride, int64_t columns_of_size, T* __restrict__ values,
                  int64_t* __restrict__ indices, int64_t rows, int64_t columns, int64_t share, int64_t team) {
  using C = trifold::compute_t<T>;
  __shared__ C value_of_warp[WARPS_PER_BLOCK];
  __shared__ int64_t column_of_warp[WARPS_PER_BLOCK];
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / team;
  const int lane = static_cast<int>(threadIdx.x % team);
  const int64_t begin = blockIdx.y * share;
  C value = C(-INFINITY);  // if no number is larger than -inf, the result is the first column
  int64_t column = 0;
  if (row < rows) {
    const int64_t i_end = slice_length(columns, share);
    for (int64_t i = lane; i < i_end; i += team) {
      if (is_larger(C(x[row * x_stride + begin + i]), value)) {
        value = C(x[row * x_stride + begin + i]);
        column = i;
      }
    }
  }
  const auto best_of_team_result = best_of_team(value, column, value_of_warp, column_of_warp, static_cast<int>(team));
  value = best_of_team_result.value;
  column = best_of_team_result.column;
  if (row < rows && lane == 0) {
    const int64_t at = row * gridDim.y + blockIdx.y;
    values[at] = T(value);
    indices[at] = columns_of_size > 0 ? columns_of[row * columns_of_stride + begin + column] : begin + column;
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    argmax_backward_kernel(const T* __restrict__ grad_values, const int64_t* __restrict__ indices,
                           T* __restrict__ grad_x, int64_t grad_x_stride, int64_t rows, int64_t columns, int64_t share,
                           int64_t team) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / team;
  const int lane = static_cast<int>(threadIdx.x % team);
  const int64_t begin = blockIdx.y * share;
  if (row >= rows) return;
  const int64_t own = indices[row] - begin;
  const int64_t i_end = slice_length(columns, share);
  for (int64_t i = lane; i < i_end; i += team)
    grad_x[row * grad_x_stride + begin + i] = i == own ? grad_values[row] : T(0.0f);
}
