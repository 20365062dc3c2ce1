// cross_entropy: the kernels of prototypes/cross_entropy.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int WARPS_PER_BLOCK = 8;
inline constexpr uint32_t ALL_LANES = 0xFFFFFFFF;

// The sum over a warp's 32 lanes, all of which call it; int32, int64, float32 or float64.
__device__ __forceinline__ int64_t warp_sum(int64_t value) {
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
__device__ __forceinline__ int64_t block_sum(int64_t value, int64_t* of_warp) {
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

__global__ void cross_entropy_count_kernel(const int64_t* targets, int64_t ignored, int64_t* count, int64_t rows) {
  __shared__ int64_t of_warp[WARPS_PER_BLOCK];
  int64_t counted = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    if (targets[row] != ignored) ++counted;
  }
  counted = block_sum(counted, of_warp);
  if (threadIdx.x == 0) count[0] = counted;
}

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
__global__ void cross_entropy_kernel(const T* logits, int64_t logits_stride, const int64_t* targets, int64_t ignored,
                                     T* losses, T* residual, int64_t residual_stride, int64_t residual_length0,
                                     int64_t columns, double smoothing, const int64_t* count, int64_t count_length) {
  using C = trifold::compute_t<T>;
  __shared__ double of_warp[WARPS_PER_BLOCK];
  const int row = blockIdx.x;
  const int64_t target = targets[row];
  if (target == ignored) {
    if (threadIdx.x == 0) losses[row] = T(C(0));
    if (residual_length0 > 0) {
      for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) residual[row * residual_stride + i] = T(C(0));
    }
    return;
  }
  double largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    largest = larger(largest, C(logits[row * logits_stride + i]));
  largest = block_max(largest, of_warp);
  double total = 0.0;
  double plain = 0.0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const double shifted = C(logits[row * logits_stride + i]) - largest;
    total += exp(shifted);
    if (smoothing > 0) {  // else -inf · 0 would be nan
      plain += shifted;
    }
  }
  total = block_sum(total, of_warp);
  plain = block_sum(plain, of_warp);
  const bool known = target >= 0 && target < columns;
  if (threadIdx.x == 0) {
    const double at_target = known ? C(logits[row * logits_stride + target]) - largest : NAN;
    const double loss = log(total) - (1 - smoothing) * at_target;
    losses[row] = T(C(smoothing > 0 ? loss - smoothing * (plain / columns) : loss));
  }
  if (residual_length0 > 0) {
    const double everywhere = known ? smoothing / columns : NAN;
    const double share = count_length > 0 ? 1.0 / count[0] : 1.0;
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
      const double q = i == target ? everywhere + (1 - smoothing) : everywhere;
      residual[row * residual_stride + i] =
          T(C((exp(C(logits[row * logits_stride + i]) - largest) / total - q) * share));
    }
  }
}

template <class T>
__global__ void cross_entropy_kernel2(const T* logits, int64_t logits_stride, const int64_t* targets, int64_t ignored,
                                      trifold::compute_t<T>* losses, T* residual, int64_t residual_stride,
                                      int64_t residual_length0, int64_t columns, double smoothing, const int64_t* count,
                                      int64_t count_length) {
  using C = trifold::compute_t<T>;
  __shared__ double of_warp[WARPS_PER_BLOCK];
  const int row = blockIdx.x;
  const int64_t target = targets[row];
  if (target == ignored) {
    if (threadIdx.x == 0) losses[row] = 0;
    if (residual_length0 > 0) {
      for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) residual[row * residual_stride + i] = T(C(0));
    }
    return;
  }
  double largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    largest = larger(largest, C(logits[row * logits_stride + i]));
  largest = block_max(largest, of_warp);
  double total = 0.0;
  double plain = 0.0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const double shifted = C(logits[row * logits_stride + i]) - largest;
    total += exp(shifted);
    if (smoothing > 0) {  // else -inf · 0 would be nan
      plain += shifted;
    }
  }
  total = block_sum(total, of_warp);
  plain = block_sum(plain, of_warp);
  const bool known = target >= 0 && target < columns;
  if (threadIdx.x == 0) {
    const double at_target = known ? C(logits[row * logits_stride + target]) - largest : NAN;
    const double loss = log(total) - (1 - smoothing) * at_target;
    losses[row] = smoothing > 0 ? loss - smoothing * (plain / columns) : loss;
  }
  if (residual_length0 > 0) {
    const double everywhere = known ? smoothing / columns : NAN;
    const double share = count_length > 0 ? 1.0 / count[0] : 1.0;
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
      const double q = i == target ? everywhere + (1 - smoothing) : everywhere;
      residual[row * residual_stride + i] =
          T(C((exp(C(logits[row * logits_stride + i]) - largest) / total - q) * share));
    }
  }
}

template <class T>
__global__ void cross_entropy_total_kernel(const T* losses, const int64_t* targets, int64_t ignored, T* loss,
                                           int64_t* count, int64_t count_length, int64_t rows) {
  using C = trifold::compute_t<T>;
  __shared__ double of_warp[WARPS_PER_BLOCK];
  __shared__ int64_t counted_of_warp[WARPS_PER_BLOCK];
  double total = 0.0;
  int64_t counted = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    total += C(losses[row]);
    if (targets[row] != ignored) ++counted;
  }
  total = block_sum(total, of_warp);
  counted = block_sum(counted, counted_of_warp);
  if (threadIdx.x == 0) {
    if (count_length == 0) {
      loss[0] = T(C(total));
    } else {
      loss[0] = T(C(counted > 0 ? total / counted : NAN));
      count[0] = counted;
    }
  }
}

template <class T>
__global__ void cross_entropy_total_kernel2(const trifold::compute_t<T>* losses, const int64_t* targets,
                                            int64_t ignored, T* loss, int64_t* count, int64_t count_length,
                                            int64_t rows) {
  using C = trifold::compute_t<T>;
  __shared__ double of_warp[WARPS_PER_BLOCK];
  __shared__ int64_t counted_of_warp[WARPS_PER_BLOCK];
  double total = 0.0;
  int64_t counted = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    total += losses[row];
    if (targets[row] != ignored) ++counted;
  }
  total = block_sum(total, of_warp);
  counted = block_sum(counted, counted_of_warp);
  if (threadIdx.x == 0) {
    if (count_length == 0) {
      loss[0] = T(C(total));
    } else {
      loss[0] = T(C(counted > 0 ? total / counted : NAN));
      count[0] = counted;
    }
  }
}

template <class T>
__global__ void cross_entropy_backward_kernel(const T* grad_loss, int64_t grad_loss_length, const T* residual,
                                              int64_t residual_stride, const int64_t* targets, int64_t ignored,
                                              const int64_t* count, int64_t count_length, T* grad_logits,
                                              int64_t grad_logits_stride, int64_t columns) {
  using C = trifold::compute_t<T>;
  const int row = blockIdx.x;
  const bool skipped = targets[row] == ignored;
  double factor = C(grad_loss[grad_loss_length > 1 ? row : 0]);
  if (count_length > 0) factor = factor / count[0];
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    grad_logits[row * grad_logits_stride + i] = T(C(skipped ? 0 : factor * C(residual[row * residual_stride + i])));
}
