// round_ste: y = 1 where x > 1/2, else 0 (also for nan), elementwise over n numbers.
//
// Moves 2·sizeof(T) bytes an element: bound by memory. The comparison is exact in every type.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/vector.cuh>

template <class C>
__device__ __forceinline__ C round_half_down(C x) {
  return x > C(0.5) ? C(1) : C(0);
}

// A grid-stride loop: any grid covers any n.
template <class T>
__global__ void round_ste_kernel(const T* x, T* y, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = T(round_half_down(C(x[i])));
}

template <class T>
__global__ void round_ste_vector_kernel(const T* x, T* y, trifold::Share share) {
  trifold::map_vectors([](auto x) { return round_half_down(x); }, y, share, x);
}
