// add: the kernels of prototypes/add.py.
#pragma once

#include <trifold/cuda.cuh>

template <class T>
__global__ void __launch_bounds__(256)
    add_kernel(const T* __restrict__ x, const T* __restrict__ y, T* __restrict__ out, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = T(C(x[i]) + C(y[i]));
}
