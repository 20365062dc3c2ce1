// sigmoid: y = 1 / (1 + exp(-x)), elementwise over n numbers.
//
// Forward moves 2·sizeof(T) bytes an element, backward 3·sizeof(T). Both are bound by memory.
// exp is taken of -|x| only, so that no branch overflows: at most 1, at least 0.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/vector.cuh>

template <class C>
__device__ __forceinline__ C sigmoid_of(C x) {
  const C e = exp(x < C(0) ? x : -x);  // nan stays nan; ±inf gives 0
  return (x < C(0) ? e : C(1)) / (C(1) + e);
}

template <class C>
__device__ __forceinline__ C sigmoid_gradient(C grad_y, C y) {
  return grad_y * ((C(1) - y) * y);
}

template <class T>
__global__ void sigmoid_kernel(const T* x, T* y, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = T(sigmoid_of(C(x[i])));
}

template <class T>
__global__ void sigmoid_vector_kernel(const T* x, T* y, int64_t n) {
  trifold::map_vectors([](auto x) { return sigmoid_of(x); }, y, n, x);
}

template <class T>
__global__ void sigmoid_backward_kernel(const T* grad_y, const T* y, T* grad_x, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) grad_x[i] = T(sigmoid_gradient(C(grad_y[i]), C(y[i])));
}

template <class T>
__global__ void sigmoid_backward_vector_kernel(const T* grad_y, const T* y, T* grad_x, int64_t n) {
  trifold::map_vectors([](auto grad_y, auto y) { return sigmoid_gradient(grad_y, y); }, grad_x, n, grad_y, y);
}
