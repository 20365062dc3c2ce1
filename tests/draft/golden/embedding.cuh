// embedding: the kernels of prototypes/embedding.py.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/python_numbers.cuh>

inline constexpr int LOADS = 4;

__device__ __forceinline__ int64_t row_of_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

__device__ __forceinline__ bool is_row(int64_t index, int64_t vocabulary) {
  return index >= 0 && index < vocabulary;
}

template <class T>
__global__ void embedding_kernel(const int64_t* __restrict__ indices, const T* __restrict__ weight,
                                 int64_t weight_stride0, int64_t weight_stride1, T* __restrict__ out,
                                 int64_t out_stride, int64_t positions, int64_t vocabulary, int64_t columns) {
  const int64_t position = row_of_thread();
  if (position >= positions) return;
  const int64_t index = indices[position];
  const bool known = is_row(index, vocabulary);
  const int width = blockDim.x;
  const int tile = LOADS * width;
  for (int64_t first = blockIdx.y * tile + threadIdx.x; first < columns; first += gridDim.y * tile) {
    for (int k = 0; k < LOADS; ++k) {
      const int64_t column = first + k * width;
      if (column < columns)
        out[position * out_stride + column] = known ? weight[index * weight_stride0 + column * weight_stride1] : T(NAN);
    }
  }
}

template <class C>
__global__ void __launch_bounds__(256) embedding_zero_kernel(C* __restrict__ sums, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) sums[i] = 0;
}

template <class T>
__global__ void embedding_add_kernel(const T* __restrict__ grad, int64_t grad_stride,
                                     const int64_t* __restrict__ indices, trifold::compute_t<T>* sums,
                                     int64_t positions, int64_t vocabulary, int64_t columns) {
  using C = trifold::compute_t<T>;
  const int64_t position = row_of_thread();
  if (position >= positions) return;
  const int64_t index = indices[position];
  if (!is_row(index, vocabulary)) return;
  const int width = blockDim.x;
  for (int64_t column = blockIdx.y * width + threadIdx.x; column < columns;
       column += static_cast<int>(gridDim.y * width))
    atomicAdd(&sums[index * columns + column], C(grad[position * grad_stride + column]));
}

template <class T>
__global__ void __launch_bounds__(256)
    embedding_round_kernel(const trifold::compute_t<T>* sums, T* grad_weight, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) grad_weight[i] = T(sums[i]);
}

__global__ void __launch_bounds__(256)
    embedding_starts_kernel(const int64_t* __restrict__ indices, const int64_t* __restrict__ order,
                            int64_t* __restrict__ starts, int64_t positions, int64_t vocabulary) {
  const int64_t v = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (v > vocabulary) return;
  int64_t low = 0;
  int64_t high = positions;
  while (low < high) {
    const int64_t middle = trifold::floor_div(low + high, 2);
    if (indices[order[middle]] < v) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  starts[v] = low;
}

template <class T>
__device__ __forceinline__ trifold::compute_t<T> add_rows(const T* grad, int64_t grad_stride, int64_t column,
                                                          const int64_t* order, int64_t begin, int64_t end, int step) {
  using C = trifold::compute_t<T>;
  C total = C(0);
  for (int64_t i = begin; i < end; i += step) total += C(grad[order[i] * grad_stride + column]);
  return total;
}

template <class T>
__global__ void embedding_long_sum_kernel(const T* __restrict__ grad, int64_t grad_stride,
                                          const int64_t* __restrict__ order, const int64_t* __restrict__ starts,
                                          T* __restrict__ grad_weight, int64_t grad_weight_stride, int64_t vocabulary,
                                          int64_t columns) {
  using C = trifold::compute_t<T>;
  __shared__ C of_thread[trifold::threads_per_block];
  const int v = blockIdx.x;
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int width = blockDim.x;
  for (int64_t tile = blockIdx.y * width; tile < columns; tile += gridDim.y * width) {
    const int64_t column = tile + threadIdx.x;
    C total = C(0);
    if (column < columns)
      total = add_rows(grad, grad_stride, column, order, starts[v] + threadIdx.y, starts[v + 1],
                       static_cast<int>(blockDim.y));
    of_thread[thread] = total;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
      for (int other = thread + blockDim.x; other < trifold::threads_per_block; other += static_cast<int>(blockDim.x))
        total += of_thread[other];
      grad_weight[v * grad_weight_stride + column] = T(total);
    }
    __syncthreads();
  }
}

template <class T>
__global__ void embedding_sum_kernel(const T* __restrict__ grad, int64_t grad_stride, const int64_t* __restrict__ order,
                                     const int64_t* __restrict__ starts, T* __restrict__ grad_weight,
                                     int64_t grad_weight_stride, int64_t vocabulary, int64_t columns) {
  const int64_t v = row_of_thread();
  if (v >= vocabulary) return;
  const int width = blockDim.x;
  for (int64_t column = blockIdx.y * width + threadIdx.x; column < columns;
       column += static_cast<int>(gridDim.y * width))
    grad_weight[v * grad_weight_stride + column] =
        T(add_rows(grad, grad_stride, column, order, starts[v], starts[v + 1], 1));
}
