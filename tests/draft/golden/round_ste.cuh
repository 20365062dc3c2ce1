// round_ste: the kernels of prototypes/round_ste.py.
#pragma once

#include <trifold/cuda.cuh>

template <class T>
__global__ void __launch_bounds__(256) round_ste_kernel(const T* __restrict__ x, T* __restrict__ y, int64_t n) {
  using C = trifold::compute_t<T>;
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  while (i < n) {
    y[i] = T(C(C(x[i]) > 0.5 ? 1 : 0));
    i += step;
  }
}
