// scatter_add: the kernels of prototypes/scatter_add.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int ROWS_A_THREAD = 4;
inline constexpr int NUMBERS_A_THREAD = 4;

template <class C>
__global__ void __launch_bounds__(256) scatter_add_zero_kernel(C* __restrict__ sums, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) sums[i] = 0;
}

template <class T>
__global__ void scatter_add_kernel(const T* __restrict__ source, int64_t source_stride0, int64_t source_stride1,
                                   const int64_t* __restrict__ index, trifold::compute_t<T>* sums, int64_t sums_stride,
                                   int64_t rows, int64_t columns, int64_t size) {
  using C = trifold::compute_t<T>;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int apart = blockDim.y;
  const int step = gridDim.y * apart * ROWS_A_THREAD;
  if (column >= columns) return;
  for (int64_t first = blockIdx.y * apart * ROWS_A_THREAD + threadIdx.y; first < rows; first += step) {
    for (int k = 0; k < ROWS_A_THREAD; ++k) {
      const int64_t row = first + k * apart;
      if (row < rows) {
        const int64_t place = index[row];
        if (place >= 0 && place < size)
          atomicAdd(&sums[place * sums_stride + column], C(source[row * source_stride0 + column * source_stride1]));
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256) scatter_add_round_kernel(const trifold::compute_t<T>* sums, T* out, int64_t n) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * NUMBERS_A_THREAD;
  for (int64_t i = first; i < min(first + NUMBERS_A_THREAD, n); ++i) out[i] = T(sums[i]);
}

template <class T>
__global__ void scatter_add_backward_kernel(const T* __restrict__ grad, int64_t grad_stride0, int64_t grad_stride1,
                                            const int64_t* __restrict__ index, T* __restrict__ grad_source,
                                            int64_t grad_source_stride, int64_t rows, int64_t columns, int64_t size) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int apart = blockDim.y;
  const int step = gridDim.y * apart * ROWS_A_THREAD;
  if (column >= columns) return;
  for (int64_t first = blockIdx.y * apart * ROWS_A_THREAD + threadIdx.y; first < rows; first += step) {
    for (int k = 0; k < ROWS_A_THREAD; ++k) {
      const int64_t row = first + k * apart;
      if (row < rows) {
        const int64_t place = index[row];
        grad_source[row * grad_source_stride + column] =
            place >= 0 && place < size ? grad[place * grad_stride0 + column * grad_stride1] : T(0.0f);
      }
    }
  }
}
