// swiglu: the kernels of prototypes/swiglu.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr float ONE = 1.0f;

template <class T>
__global__ void __launch_bounds__(256)
    swiglu_kernel(const T* __restrict__ gate, const T* __restrict__ up, T* __restrict__ out, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) {
    const C g = C(gate[i]);
    out[i] = T(g / (ONE + exp(-g)) * C(up[i]));  // exp may overflow to inf: the quotient is then 0
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    swiglu_backward_kernel(const T* __restrict__ grad, const T* __restrict__ gate, const T* __restrict__ up,
                           T* __restrict__ grad_gate, T* __restrict__ grad_up, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) {
    const C g = C(gate[i]);
    const C s = ONE / (ONE + exp(-g));
    grad_gate[i] = T(C(grad[i]) * C(up[i]) * (s * (ONE + g * (ONE - s))));
    grad_up[i] = T(C(grad[i]) * (g * s));
  }
}
