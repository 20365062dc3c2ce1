// Kernels that read what they write: somebody must have begun.
#pragma once
#include <trifold/cuda.cuh>

template <class T>
__global__ void add_one_kernel(T* y, int64_t first, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[first + i] = T(y[first + i] + T(1));
}

template <class T>
__global__ void write_kernel(T* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = T(2);
}

__global__ void atomic_kernel(float* y) {
  atomicAdd(y, 1.0f);
}
