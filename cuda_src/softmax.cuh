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
#include <trifold/row_teams.cuh>
#include <trifold/scaled_exp.cuh>

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

// Σ exp(x - max) of some numbers, and max: of all numbers, where those of its parts are combined.
struct ExpSum {
  float max, sum;
};

struct CombineExpSums {
  __device__ __forceinline__ ExpSum operator()(ExpSum a, ExpSum b) const {
    const float max = trifold::Max{}(a.max, b.max), base = max == -INFINITY ? 0.0f : max;
    return {max, a.sum * exp(a.max - base) + b.sum * exp(b.max - base)};
  }
};

// softmax_kernel with a row in a team's registers (row_teams.cuh).
template <class T, int E, int V, trifold::Team team>
__global__ void __launch_bounds__(1024)
    softmax_rows_kernel(const T* x, int64_t x_stride, T* y, int64_t rows, int columns) {
  using trifold::Max, trifold::Sum, trifold::Team;
  const trifold::TeamPlace at = trifold::begin_in_team<team>();
  if (at.row >= rows) return;
  trifold::RowPart<T, E, V> part;
  part.load(x + at.row * x_stride, columns, at, T(-INFINITY));
  float largest = -INFINITY, sum = 0;
  part.each([&](T v, int, int) { largest = Max{}(largest, float(v)); });
  if constexpr (team == Team::cluster) {
    // A barrier of a cluster takes long: one, and exp twice.
    const float base = largest == -INFINITY ? 0.0f : largest;
    part.each([&](T v, int, int) { sum += trifold::scaled_exp<T>(float(v) - base); });
    const ExpSum all = trifold::team_reduce<team, 0>(ExpSum{largest, sum}, ExpSum{-INFINITY, 0}, CombineExpSums{});
    const float quotient = 1 / all.sum;
    part.each([&](T& v, int, int) { v = T(trifold::scaled_exp<T>(float(v) - all.max) * quotient); });
  } else {
    largest = trifold::team_reduce<team, 0>(largest, -INFINITY, Max{});
    trifold::RowPart<float, E, V> e;
    part.each([&](T v, int k, int i) { sum += e.piece[k].value[i] = trifold::scaled_exp<T>(float(v) - largest); });
    const float quotient = 1 / trifold::team_reduce<team, 1>(sum, 0.0f, Sum{});
    part.each([&](T& v, int k, int i) { v = T(e.piece[k].value[i] * quotient); });
  }
  part.store(y + at.row * columns, columns, at);
}

// softmax_backward_kernel with a row in a team's registers.
template <class T, int E, int V, trifold::Team team>
__global__ void __launch_bounds__(1024)
    softmax_backward_rows_kernel(const T* grad_y, int64_t grad_stride, const T* y, int64_t y_stride, T* grad_x,
                                 int64_t rows, int columns) {
  const trifold::TeamPlace at = trifold::begin_in_team<team>();
  if (at.row >= rows) return;
  trifold::RowPart<T, E, V> grad, result;
  grad.load(grad_y + at.row * grad_stride, columns, at, T(0.0f));
  result.load(y + at.row * y_stride, columns, at, T(0.0f));
  float sum = 0;
  grad.each([&](T g, int k, int i) { sum += float(g) * float(result.piece[k].value[i]); });
  sum = trifold::team_reduce<team, 0>(sum, 0.0f, trifold::Sum{});
  grad.each([&](T& g, int k, int i) { g = T(float(result.piece[k].value[i]) * (float(g) - sum)); });
  grad.store(grad_x + at.row * columns, columns, at);
}
