// rms_norm: y = x̂·weight with x̂ = x·rstd and rstd = 1 / sqrt(mean x² + eps), along each of `rows` rows of `columns`
// numbers. weight has one number for each column; null: 1.
//
// Backward, with g = grad·weight: grad_x = rstd·(g - x̂·mean(g·x̂)) along each row; grad_weight = Σ grad·x̂ over the
// rows.
//
// Rows of x and grad begin x_stride and grad_stride elements apart; those of results follow one another. Forward must
// read x and write y once: 2·sizeof(T) bytes an element; backward 3·sizeof(T). rstd, which forward leaves for backward,
// is of the compute type.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/norms.cuh>
#include <trifold/row_teams.cuh>
#include <trifold/sums.cuh>

inline constexpr int rms_norm_block = trifold::threads_per_block;

// A block a row, in two passes over it: the sum of squares, the result.
template <class T>
__global__ void rms_norm_kernel(const T* x, int64_t x_stride, const T* weight, T* y, trifold::compute_t<T>* rstd,
                                int64_t rows, int64_t columns, trifold::compute_t<T> eps) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * x_stride;
    T* out = y + row * columns;
    const C squares = trifold::block_sum_of<rms_norm_block, C>(columns, [&](int64_t i) { return C(in[i]) * C(in[i]); });
    const C r = C(1) / sqrt(squares / C(columns) + eps);
    for (int64_t i = threadIdx.x; i < columns; i += rms_norm_block) {
      const C x_hat = C(in[i]) * r;
      out[i] = T(weight == nullptr ? x_hat : x_hat * C(weight[i]));
    }
    if (threadIdx.x == 0) rstd[row] = r;
  }
}

// The same with a row in a team's registers (row_teams.cuh).
template <class T, int E, int V, trifold::Team team>
__global__ void __launch_bounds__(1024) rms_norm_rows_kernel(const T* x, int64_t x_stride, const T* weight, T* y,
                                                             float* rstd, int64_t rows, int columns, float eps) {
  const trifold::TeamPlace at = trifold::begin_in_team<team>();
  if (at.row >= rows) return;
  trifold::RowPart<T, E, V> part;
  part.load(x + at.row * x_stride, columns, at, T(0.0f));
  float squares = 0;
  part.each([&](T v, int, int) { squares += float(v) * float(v); });
  squares = trifold::team_reduce<team, 0>(squares, 0.0f, trifold::Sum{});
  const float r = 1 / sqrt(squares / static_cast<float>(columns) + eps);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const trifold::Piece<T, E> weights = part.shared(weight, k, columns, at, T(1.0f));
#pragma unroll
    for (int i = 0; i < E; ++i) part.piece[k].value[i] = T(float(part.piece[k].value[i]) * r * float(weights.value[i]));
  }
  part.store(y + at.row * columns, columns, at);
  if (at.thread == 0) rstd[at.row] = r;
}

// A block a row, in two passes over it: Σ g·x̂, the result.
template <class T>
__global__ void rms_norm_backward_kernel(const T* grad, int64_t grad_stride, const T* x, int64_t x_stride,
                                         const T* weight, const trifold::compute_t<T>* rstd, T* grad_x, int64_t rows,
                                         int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* of_y = grad + row * grad_stride;
    const T* in = x + row * x_stride;
    T* out = grad_x + row * columns;
    const C r = rstd[row];
    auto g = [&](int64_t i) { return weight == nullptr ? C(of_y[i]) : C(of_y[i]) * C(weight[i]); };
    auto x_hat = [&](int64_t i) { return C(in[i]) * r; };
    const C sum = trifold::block_sum_of<rms_norm_block, C>(columns, [&](int64_t i) { return g(i) * x_hat(i); });
    const C mean_gx = sum / C(columns);
    for (int64_t i = threadIdx.x; i < columns; i += rms_norm_block) out[i] = T(r * (g(i) - x_hat(i) * mean_gx));
  }
}

// The first step of grad_weight (norms.cuh): Σ grad·x̂ over a part of the rows.
template <class T>
__global__ void rms_norm_weight_gradient_kernel(const T* grad, int64_t grad_stride, const T* x, int64_t x_stride,
                                                const trifold::compute_t<T>* rstd, trifold::compute_t<T>* parts,
                                                int64_t rows, int64_t rows_a_part, int64_t columns) {
  using C = trifold::compute_t<T>;
  trifold::sum_part<C, 1>(parts, rows, rows_a_part, columns, [&](int64_t row, int64_t column) {
    return trifold::Pack{C(grad[row * grad_stride + column]) * (C(x[row * x_stride + column]) * rstd[row])};
  });
}
