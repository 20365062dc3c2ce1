// Kernels that reduce each block's values in every way that <trifold/reduce.cuh> and <trifold/sums.cuh> have; each
// thread writes what it got.
#pragma once

#include <trifold/reduce.cuh>
#include <trifold/sums.cuh>

struct Pair {
  float sum;
  int count;
};

struct CombinePairs {
  __device__ Pair operator()(Pair a, Pair b) const { return {a.sum + b.sum, a.count + b.count}; }
};

template <int threads, class T>
__global__ void reduce_kernel(const T* x, T* warp_sums, T* warp_maxima, T* block_sums, T* block_maxima) {
  const int64_t i = trifold::thread_index<threads>();
  warp_sums[i] = trifold::warp_sum(x[i]);
  warp_maxima[i] = trifold::warp_max(x[i]);
  block_sums[i] = trifold::block_sum<threads>(x[i]);
  block_maxima[i] = trifold::block_max<threads>(x[i]);
}

template <int threads>
__global__ void reduce_pairs_kernel(const float* x, float* sums, float* counts) {
  const int64_t i = trifold::thread_index<threads>();
  const Pair all = trifold::block_reduce<threads>(Pair{x[i], 1}, CombinePairs{});
  sums[i] = all.sum;
  counts[i] = float(all.count);
}

// One block: the sums of x and of its squares.
template <int threads>
__global__ void sums_kernel(const float* x, float* sums, float* squares, int64_t n) {
  sums[threadIdx.x] = trifold::block_sum_of<threads, float>(n, [&](int64_t i) { return x[i]; });
  const auto both =
      trifold::block_sums<threads, float, 2>(n, [&](int64_t i) { return trifold::Pack{x[i], x[i] * x[i]}; });
  squares[threadIdx.x] = both.value[0] == sums[threadIdx.x] ? both.value[1] : 0.0f;
}
