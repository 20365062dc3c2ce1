// sigmoid: the kernels of prototypes/sigmoid.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr float ONE = 1.0f;

template <class T>
__global__ void __launch_bounds__(256) sigmoid_kernel(const T* __restrict__ x, T* __restrict__ y, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) {
    const C v = C(x[i]);
    const C e = exp(v < 0 ? v : -v);  // at most 1: no branch overflows
    y[i] = T((v < 0 ? e : ONE) / (ONE + e));
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    sigmoid_backward_kernel(const T* __restrict__ grad_y, const T* __restrict__ y, T* __restrict__ grad_x, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) grad_x[i] = T(C(grad_y[i]) * ((ONE - C(y[i])) * C(y[i])));
}
