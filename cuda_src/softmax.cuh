// softmax: y = exp(x - max x) / Σ exp(x - max x) along each of `rows` rows of `columns` numbers.
//
// Rows of x begin `x_stride` elements apart; those of y follow one another. Forward must read x and write y once:
// 2·sizeof(T) bytes an element; backward, d x = y·(d y - Σ d y·y), 3·sizeof(T).
//
// The maximum is subtracted so that no exp overflows: the largest is exp(0) = 1. What that makes of infinities is what
// torch makes of them: a row with nan or +inf, and one of -inf alone, is nan throughout.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/reduce.cuh>

inline constexpr int softmax_block = trifold::threads_per_block;

// A block a row, in three passes over it: the maximum, the sum, the quotients.
template <class T>
__global__ void softmax_kernel(const T* x, int64_t x_stride, T* y, int64_t rows, int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * x_stride;
    T* out = y + row * columns;
    C largest = -C(INFINITY);
    for (int64_t i = threadIdx.x; i < columns; i += softmax_block) largest = trifold::Max{}(largest, C(in[i]));
    largest = trifold::block_max<softmax_block>(largest);
    C sum = 0;
    for (int64_t i = threadIdx.x; i < columns; i += softmax_block) sum += exp(C(in[i]) - largest);
    sum = trifold::block_sum<softmax_block>(sum);
    for (int64_t i = threadIdx.x; i < columns; i += softmax_block) out[i] = T(exp(C(in[i]) - largest) / sum);
  }
}

// A block a row, in two passes: Σ d y·y, and the products.
template <class T>
__global__ void softmax_backward_kernel(const T* grad_y, int64_t grad_stride, const T* y, int64_t y_stride, T* grad_x,
                                        int64_t rows, int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* grad = grad_y + row * grad_stride;
    const T* result = y + row * y_stride;
    T* out = grad_x + row * columns;
    C sum = 0;
    for (int64_t i = threadIdx.x; i < columns; i += softmax_block) sum += C(grad[i]) * C(result[i]);
    sum = trifold::block_sum<softmax_block>(sum);
    for (int64_t i = threadIdx.x; i < columns; i += softmax_block) out[i] = T(C(result[i]) * (C(grad[i]) - sum));
  }
}
