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
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = T(C(x[i]) * C(y[i]));
}

template <class T>
__global__ void mul_vector_kernel(const T* x, const T* y, T* out, int64_t n) {
  trifold::map_vectors([](auto x, auto y) { return x * y; }, out, n, x, y);
}

template <class T>
__global__ void mul_backward_kernel(const T* grad, const T* x, const T* y, T* grad_x, T* grad_y, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) {
    grad_x[i] = T(C(grad[i]) * C(y[i]));
    grad_y[i] = T(C(grad[i]) * C(x[i]));
  }
}

// The second map finds grad in the L1 cache, where the first one left it.
template <class T>
__global__ void mul_backward_vector_kernel(const T* grad, const T* x, const T* y, T* grad_x, T* grad_y, int64_t n) {
  auto product = [](auto a, auto b) { return a * b; };
  trifold::map_vectors(product, grad_x, n, grad, y);
  trifold::map_vectors(product, grad_y, n, grad, x);
}
