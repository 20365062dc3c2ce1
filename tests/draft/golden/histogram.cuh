// histogram: the kernels of prototypes/histogram.py.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/python_numbers.cuh>

inline constexpr int BLOCK = 512;
inline constexpr int SHARED_COUNTERS = 8192;
inline constexpr int MOST_COPIES = 32;

__global__ void __launch_bounds__(256) histogram_zero_kernel(int64_t* __restrict__ counts, int64_t bins) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < bins) counts[i] = 0;
}

template <class C>
__device__ __forceinline__ int64_t bin_of(C x, C low, C high, C factor, int64_t bins) {
  if (!(x >= low && x <= high)) return -1;
  return min(static_cast<int64_t>((x - low) * factor / (high - low)), bins - 1);
}

template <class T>
__global__ void __launch_bounds__(512)
    histogram_kernel(const T* __restrict__ x, int64_t* counts, int64_t n, int64_t bins, int64_t copies,
                     trifold::compute_t<T> low, trifold::compute_t<T> high, trifold::compute_t<T> factor) {
  using C = trifold::compute_t<T>;
  __shared__ uint32_t of_block[SHARED_COUNTERS];
  for (int64_t i = threadIdx.x; i < bins * copies; i += BLOCK) of_block[i] = 0;
  __syncthreads();
  const int64_t copy = trifold::floor_mod(threadIdx.x, copies);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * BLOCK) {
    const int64_t chosen = bin_of(C(x[i]), low, high, factor, bins);
    if (chosen >= 0) atomicAdd(&of_block[chosen * copies + copy], uint32_t{1});
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < bins; i += BLOCK) {
    const int64_t rotated = trifold::floor_div(i * copies, MOST_COPIES);
    int64_t total = 0;
    for (int64_t k = 0; k < copies; ++k) total += of_block[i * copies + trifold::floor_mod(rotated + k, copies)];
    if (total > 0) trifold::atomic_add(&counts[i], total);
  }
}

template <class T>
__global__ void __launch_bounds__(512)
    histogram_global_kernel(const T* __restrict__ x, int64_t* counts, int64_t n, int64_t bins,
                            trifold::compute_t<T> low, trifold::compute_t<T> high, trifold::compute_t<T> factor) {
  using C = trifold::compute_t<T>;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * BLOCK) {
    const int64_t chosen = bin_of(C(x[i]), low, high, factor, bins);
    if (chosen >= 0) trifold::atomic_add(&counts[chosen], int64_t{1});
  }
}
