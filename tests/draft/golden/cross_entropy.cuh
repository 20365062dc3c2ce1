// cross_entropy: the kernels of prototypes/cross_entropy.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int ELEMENTS_PER_THREAD = 8;
inline constexpr int WARPS_PER_BLOCK = 8;
inline constexpr uint32_t ALL_LANES = 0xFFFFFFFF;

// The sum over each team of a block; all threads of the block call it.
//
// Args:
//     value, of_warp: as for `block_sum`; for teams within a warp, `of_warp` is not used.
//     team: the number of neighbouring threads: a power of two up to 32, or all of the block.
__device__ __forceinline__ int64_t team_sum(int64_t value, int64_t* of_warp, int team) {
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
__device__ __forceinline__ int64_t block_sum(int64_t value, int64_t* of_warp) {
  return team_sum(value, of_warp, static_cast<int>(blockDim.x));
}

__global__ void __launch_bounds__(256) cross_entropy_count_kernel(const int64_t* __restrict__ targets, int64_t ignored,
                                                                  int64_t* __restrict__ count, int64_t rows) {
  __shared__ int64_t of_warp[WARPS_PER_BLOCK];
  int64_t counted = 0;
  for (int64_t row = threadIdx.x; row < rows; row += static_cast<int>(blockDim.x)) {
    if (targets[row] != ignored) ++counted;
  }
  counted = block_sum(counted, of_warp);
  if (threadIdx.x == 0) count[0] = counted;
}

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

// One block per row: the maximum, the sum, then the loss, and the gradient if `residual` has rows.
template <class T, class Losses>
__global__ void __launch_bounds__(256)
    cross_entropy_kernel(const T* __restrict__ logits, int64_t logits_stride, const int64_t* __restrict__ targets,
                         int64_t ignored, Losses* __restrict__ losses, T* __restrict__ residual,
                         int64_t residual_stride, int64_t residual_length0, const int64_t* __restrict__ count,
                         int64_t count_length, int64_t rows, int64_t columns, double label_smoothing) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  const C smoothing = C(label_smoothing);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t target = targets[row];
    if (target == ignored) {
      if (threadIdx.x == 0) losses[row] = Losses(0.0f);
      if (residual_length0 > 0) {
        for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x))
          residual[row * residual_stride + i] = T(0.0f);
      }
      continue;
    }
    C largest = C(-INFINITY);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x))
      largest = larger(largest, C(logits[row * logits_stride + i]));
    largest = block_max(largest, of_warp);
    C total = C(0);  // of exp(x - m)
    C total_lost = C(0);
    C plain = C(0);  // of x - m
    C plain_lost = C(0);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
      const C shifted = C(logits[row * logits_stride + i]) - largest;
      const auto add_compensated_result = add_compensated(total, total_lost, exp(shifted));
      total = add_compensated_result.first;
      total_lost = add_compensated_result.second;
      if (smoothing > 0) {  // avoids -inf · 0 = nan
        const auto add_compensated_result2 = add_compensated(plain, plain_lost, shifted);
        plain = add_compensated_result2.first;
        plain_lost = add_compensated_result2.second;
      }
    }
    total = block_sum(total - total_lost, of_warp);
    plain = block_sum(plain - plain_lost, of_warp);
    const bool known = target >= 0 && target < columns;
    if (threadIdx.x == 0) {
      const C at_target = known ? C(logits[row * logits_stride + target]) - largest : C(NAN);
      const C loss = log(total) - (C(1) - smoothing) * at_target;
      losses[row] = Losses(smoothing > 0 ? loss - smoothing * (plain / C(columns)) : loss);
    }
    if (residual_length0 > 0) {
      const C everywhere = known ? smoothing / C(columns) : C(NAN);
      const C share = count_length > 0 ? C(1) / C(count[0]) : C(1);
      for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x)) {
        const C q = i == target ? everywhere + (C(1) - smoothing) : everywhere;
        residual[row * residual_stride + i] =
            T((exp(C(logits[row * logits_stride + i]) - largest) / total - q) * share);
      }
    }
  }
}

// cross_entropy_kernel with a row in a team's registers: it is read once, and each exp is computed once.
template <class T, class Losses>
__global__ void __launch_bounds__(256)
    cross_entropy_rows_kernel(const T* __restrict__ logits, int64_t logits_stride, const int64_t* __restrict__ targets,
                              int64_t ignored, Losses* __restrict__ losses, T* __restrict__ residual,
                              int64_t residual_stride, int64_t residual_length0, const int64_t* __restrict__ count,
                              int64_t count_length, int64_t rows, int64_t columns, double smoothing, int64_t team) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  C part[ELEMENTS_PER_THREAD];
  const C smooth = C(smoothing);
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / team;
  const int64_t target = row < rows ? targets[row] : ignored;
  const int64_t own = target != ignored ? columns : 0;
  C largest = C(-INFINITY);
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const int i = static_cast<int>(threadIdx.x % team + k * team);
    part[k] = i < own ? C(logits[row * logits_stride + i]) : C(-INFINITY);
    largest = larger(largest, part[k]);
  }
  largest = team_max(largest, of_warp, static_cast<int>(team));
  C total = C(0);
  C plain = C(0);
  for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    const C shifted = part[k] - largest;
    if (smooth > 0 && threadIdx.x % team + k * team < own) plain += shifted;
    part[k] = exp(shifted);
    total += part[k];
  }
  total = team_sum(total, of_warp, static_cast<int>(team));
  plain = team_sum(plain, of_warp, static_cast<int>(team));
  const bool known = target >= 0 && target < columns;
  if (row < rows && threadIdx.x % team == 0) {
    const C at_target = known ? C(logits[row * logits_stride + target]) - largest : C(NAN);
    C loss = log(total) - (C(1) - smooth) * at_target;
    if (smooth > 0) loss -= smooth * (plain / C(columns));
    losses[row] = Losses(target != ignored ? loss : C(0));
  }
  if (row < rows && residual_length0 > 0) {
    const C everywhere = known ? smooth / C(columns) : C(NAN);
    const C share = count_length > 0 ? C(1) / C(count[0]) : C(1);
    for (int k = 0; k < ELEMENTS_PER_THREAD; ++k) {
      const int i = static_cast<int>(threadIdx.x % team + k * team);
      if (i < columns) {
        const C q = i == target ? everywhere + (C(1) - smooth) : everywhere;
        residual[row * residual_stride + i] = T(target != ignored ? (part[k] / total - q) * share : C(0));
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    cross_entropy_total_kernel(const trifold::compute_t<T>* __restrict__ losses, const int64_t* __restrict__ targets,
                               int64_t ignored, T* __restrict__ loss, int64_t* __restrict__ count, int64_t count_length,
                               int64_t rows) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  __shared__ int64_t counted_of_warp[WARPS_PER_BLOCK];
  C total = C(0);
  int64_t counted = 0;
  for (int64_t row = threadIdx.x; row < rows; row += static_cast<int>(blockDim.x)) {
    total += losses[row];
    if (targets[row] != ignored) ++counted;
  }
  total = block_sum(total, of_warp);
  counted = block_sum(counted, counted_of_warp);
  if (threadIdx.x == 0) {
    if (count_length == 0) {
      loss[0] = T(total);
    } else {
      loss[0] = T(counted > 0 ? total / C(counted) : C(NAN));
      count[0] = counted;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    cross_entropy_backward_kernel(const T* grad_loss, int64_t grad_loss_length, const T* residual,
                                  int64_t residual_stride, const int64_t* targets, int64_t ignored,
                                  const int64_t* count, int64_t count_length, T* grad_logits,
                                  int64_t grad_logits_stride, int64_t rows, int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const bool skipped = targets[row] == ignored;
    C factor = C(grad_loss[grad_loss_length > 1 ? row : 0]);
    if (count_length > 0) factor = factor / C(count[0]);
    for (int64_t i = threadIdx.x; i < columns; i += static_cast<int>(blockDim.x))
      grad_logits[row * grad_logits_stride + i] = T(skipped ? C(0) : factor * C(residual[row * residual_stride + i]));
  }
}
