// add: out = x + y, elementwise over n numbers of one type.
//
// Moves 3·sizeof(T) bytes an element: bound by memory. Half types are computed in float and rounded once.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/vector.cuh>

template <class T>
__global__ void add_kernel(const T* x, const T* y, T* out, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = trifold::thread_index();
  if (i < n) out[i] = T(C(x[i]) + C(y[i]));
}

template <class T>
__global__ void add_vector_kernel(const T* x, const T* y, T* out, trifold::Share share) {
  trifold::map_vectors([](auto x, auto y) { return x + y; }, out, share, x, y);
}
