// Kernels that use one header of the row library each.
#pragma once

#include <trifold/reduce.cuh>

#include "rows/tensor_cores.cuh"

// One warp: the sums of x and of its squares, of a half type, by tensor cores.
template <class T>
__global__ void tensor_sums_kernel(const T* x, float* sums, float* squares, int64_t n) {
  using Piece = trifold::Packed<T>;
  trifold::TensorSums<T> all;
  for (int64_t i = threadIdx.x; i < n / Piece::size; i += trifold::warp_threads)
    all.add(reinterpret_cast<const Piece*>(x)[i]);
  sums[threadIdx.x] = trifold::warp_sum(all.sum());
  squares[threadIdx.x] = trifold::warp_sum(all.squares());
}
