// sigmoid: y = 1 / (1 + exp(-x)), elementwise over n numbers.
//
// Forward moves 2·sizeof(T) bytes an element, backward 3·sizeof(T). Both are bound by memory if exp and the quotient
// are cheap enough: with IEEE's division, bfloat16 reaches 89% of the copy rate on an H200. exp is only computed of
// -|x|, so that neither branch overflows: it is between 0 and 1.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/sigmoid.cuh>
#include <trifold/vector.cuh>

// n / d for 1 ≤ d ≤ 2 in float: a reciprocal, one Newton step, and one step of the quotient. Its error over all floats
// is the same as that of the division in sigmoid_of (4 unit round-offs with exp's), without the branch for ranges that
// cannot occur.
template <class C>
__device__ __forceinline__ C quotient(C n, C d) {
#ifdef TRIFOLD_GPU_ARCH
  if constexpr (sizeof(C) == sizeof(float)) {
    float r = __fdividef(1.0f, d);
    r = fmaf(fmaf(-d, r, 1.0f), r, r);
    const float q = n * r;
    return fmaf(fmaf(-d, q, n), r, q);
  }
#endif
  return n / d;
}

template <class T>
__device__ __forceinline__ trifold::compute_t<T> sigmoid_of(trifold::compute_t<T> x) {
  using C = trifold::compute_t<T>;
#ifdef TRIFOLD_GPU_ARCH
  if constexpr (sizeof(T) == 2) return trifold::fast_sigmoid(x);
#endif
  const C e = exp(x < C(0) ? x : -x);
  return quotient(x < C(0) ? e : C(1), C(1) + e);
}

template <class C>
__device__ __forceinline__ C sigmoid_gradient(C grad_y, C y) {
  return grad_y * ((C(1) - y) * y);
}

template <class T>
__global__ void sigmoid_kernel(const T* x, T* y, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = trifold::thread_index();
  if (i < n) y[i] = T(sigmoid_of<T>(C(x[i])));
}

template <class T>
__global__ void sigmoid_vector_kernel(const T* x, T* y, trifold::Share share) {
  trifold::map_vectors([](auto x) { return sigmoid_of<T>(x); }, y, share, x);
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
