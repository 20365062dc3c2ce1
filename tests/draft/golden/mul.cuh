// mul: the kernels of prototypes/mul.py.
#pragma once

#include <trifold/cuda.cuh>

template <class T>
__global__ void __launch_bounds__(256)
    mul_kernel(const T* __restrict__ x, const T* __restrict__ y, T* __restrict__ out, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = T(C(x[i]) * C(y[i]));
}

template <class T>
__global__ void __launch_bounds__(256)
    mul_backward_kernel(const T* __restrict__ grad, const T* __restrict__ x, const T* __restrict__ y,
                        T* __restrict__ grad_x, T* __restrict__ grad_y, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) {
    grad_x[i] = T(C(grad[i]) * C(y[i]));
    grad_y[i] = T(C(grad[i]) * C(x[i]));
  }
}
