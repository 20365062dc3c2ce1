// rms_norm: y = x̂·weight with x̂ = x·rstd and rstd = 1 / sqrt(mean x² + eps), along each of `rows` rows of `columns`
// numbers. weight has one number per column; null: 1.
//
// Backward, with g = grad·weight: grad_x = rstd·(g - x̂·mean(g·x̂)) along each row; grad_weight = Σ grad·x̂ over the
// rows.
//
// Rows of x and grad begin x_stride and grad_stride elements apart; those of results are contiguous. Forward must read
// x and write y once: 2·sizeof(T) bytes an element; backward 3·sizeof(T). rstd, which forward saves for backward, is of
// the compute type.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/sums.cuh>

#include "rows/column_copies.cuh"
#include "rows/norm_rows.cuh"
#include "rows/norms.cuh"
#include "rows/row_groups.cuh"

inline constexpr int rms_norm_block = trifold::threads_per_block;

// One block per row, in two passes over it: the sum of squares, then the result.
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

// rms_norm_kernel with a team's rows in registers (row_teams.cuh). Rows of y that are `apart` from each other have the
// same offset from a 16-byte boundary.
template <class T, trifold::Cut cut, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    rms_norm_rows_kernel(const T* x, int64_t x_stride, const T* weight, T* y, float* rstd, int64_t rows, int columns,
                         float eps, int apart) {
  constexpr int V = Choice::pieces, R = Choice::rows;
  const trifold::TeamPlace place =
      trifold::in_warps<Choice>(trifold::begin_in_team<Choice::team, trifold::Pack<float, R>, Choice::mates>());
  trifold::let_later_kernels_begin();
  if (place.template done<Choice::team>(rows)) return;
  const trifold::RowsOfTeam<R> own(place.row, rows, apart);
  const trifold::Pack<T*, R> out = own.in(y, columns);
  const trifold::RowCut<T, cut> at(place, out.value[0], own.template columns<Choice::team>(columns));
  trifold::RowPart<T, cut, V> part[R];
#pragma unroll
  for (int j = 0; j < R; ++j) part[j].load(x, own.row[j], rows, x_stride, at, T(0.0f));
  trifold::wait_for_mates<Choice::mates>();
  const auto weights = trifold::column_numbers<Choice, 0>(weight, T(1.0f), at, columns);
  trifold::Pack<float, R> squares;
#pragma unroll
  for (int j = 0; j < R; ++j) squares.value[j] = trifold::sum_of_squares(part[j], at);
  squares = trifold::team_reduce<Choice::team, Choice::mates>(squares, trifold::Pack<float, R>{}, trifold::Sums{});
  trifold::Pack<trifold::ScaledBy, R> make;
#pragma unroll
  for (int j = 0; j < R; ++j)
    make.value[j] = {trifold::close_rsqrt<T>(squares.value[j] / trifold::Count(columns) + eps)};
  trifold::write_rows<Choice>(part, out, at, make, weights);
  if (place.thread == 0 && !own.none)
#pragma unroll
    for (int j = 0; j < R; ++j) rstd[own.row[j]] = make.value[j].rstd;  // trifold: allow race of writes, all the same
}

// The same for several short rows at once (row_groups.cuh).
template <class T, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    rms_norm_groups_kernel(const T* x, int64_t x_stride, const T* weight, T* y, float* rstd, int64_t rows, int columns,
                           float eps, int) {
  trifold::wait_for_earlier_kernels();
  trifold::let_later_kernels_begin();
  trifold::RowGroup<T, Choice> group(x, x_stride, rows, columns);
  const auto weights = group.of_columns(weight, T(1.0f));
  const float own = trifold::close_rsqrt<T>(group.sum_of_squares() / trifold::Count(columns) + eps);
  group.each_row([&](int64_t row) { rstd[row] = own; });
  group.write_rows(y, [&](int row) { return trifold::ScaledBy{group.of_row(own, row)}; }, weights);
}

// One block per row, in two passes over it: Σ g·x̂, then the result.
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

// The first step of grad_weight (norms.cuh): Σ grad·x̂ over part of the rows.
template <class T>
__global__ void rms_norm_weight_gradient_kernel(const T* grad, int64_t grad_stride, const T* x, int64_t x_stride,
                                                const trifold::compute_t<T>* rstd, trifold::compute_t<T>* parts,
                                                int64_t rows, int64_t rows_a_part, int64_t columns) {
  using C = trifold::compute_t<T>;
  trifold::sum_part<C, 1>(parts, rows, rows_a_part, columns, [&](int64_t row, int64_t column) {
    return trifold::Pack{C(grad[row * grad_stride + column]) * (C(x[row * x_stride + column]) * rstd[row])};
  });
}
