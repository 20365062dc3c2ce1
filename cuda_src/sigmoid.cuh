// sigmoid: y = 1 / (1 + exp(-x)), elementwise over n numbers.
//
// Forward moves 2·sizeof(T) bytes an element, backward 3·sizeof(T). Both are bound by memory, if exp and the quotient
// are cheap enough (sigmoid.cuh): with IEEE's division, bfloat16 reaches 89% of the copy rate on an H200.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/sigmoid.cuh>
#include <trifold/vector.cuh>

template <class C>
__device__ __forceinline__ C sigmoid_gradient(C grad_y, C y) {
  return grad_y * ((C(1) - y) * y);
}

template <class T>
__global__ void sigmoid_kernel(const T* x, T* y, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = trifold::thread_index();
  if (i < n) y[i] = T(trifold::sigmoid<T>(C(x[i])));
}

template <class T>
__global__ void sigmoid_vector_kernel(const T* x, T* y, trifold::Share share) {
  trifold::map_vectors([](auto x) { return trifold::sigmoid<T>(x); }, y, share, x);
}

template <class T>
__global__ void sigmoid_backward_kernel(const T* grad_y, const T* y, T* grad_x, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = trifold::thread_index();
  if (i < n) grad_x[i] = T(sigmoid_gradient(C(grad_y[i]), C(y[i])));
}

template <class T>
__global__ void sigmoid_backward_vector_kernel(const T* grad_y, const T* y, T* grad_x, trifold::Share share) {
  trifold::map_vectors([](auto grad_y, auto y) { return sigmoid_gradient(grad_y, y); }, grad_x, share, grad_y, y);
}
