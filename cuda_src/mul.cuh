// mul: out = x · y, elementwise over n numbers of one type. Backward: grad_x = grad · y, grad_y = grad · x.
//
// Forward moves 3·sizeof(T) bytes an element, backward of both 5·sizeof(T): bound by memory. Half types are computed in
// float and rounded once.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/vector.cuh>

template <class T>
__global__ void mul_kernel(const T* x, const T* y, T* out, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = trifold::thread_index();
  if (i < n) out[i] = T(C(x[i]) * C(y[i]));
}

template <class T>
__global__ void mul_vector_kernel(const T* x, const T* y, T* out, trifold::Share share) {
  trifold::map_vectors([](auto x, auto y) { return x * y; }, out, share, x, y);
}

template <class T>
__global__ void mul_backward_kernel(const T* grad, const T* x, const T* y, T* __restrict__ grad_x,
                                    T* __restrict__ grad_y, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = trifold::thread_index();
  if (i < n) {
    grad_x[i] = T(C(grad[i]) * C(y[i]));
    grad_y[i] = T(C(grad[i]) * C(x[i]));
  }
}

template <class T>
__global__ void mul_backward_vector_kernel(const T* grad, const T* x, const T* y, T* grad_x, T* grad_y,
                                           trifold::Share share) {
  trifold::map_vectors([](auto grad, auto x, auto y) { return trifold::Pack{grad * y, grad * x}; },
                       trifold::Pack{grad_x, grad_y}, share, grad, x, y);
}
