// layer_norm: y = x̂·weight + bias with x̂ = (x - mean)·rstd and rstd = 1 / sqrt(mean (x - mean)² + eps), along each of
// `rows` rows of `columns` numbers. weight and bias have one number per column; null: 1 and 0.
//
// Backward, with g = grad·weight: grad_x = rstd·(g - mean g - x̂·mean(g·x̂)) along each row; grad_weight = Σ grad·x̂ and
// grad_bias = Σ grad over the rows.
//
// Rows of x and grad begin x_stride and grad_stride elements apart; those of results are contiguous. Forward must read
// x and write y once: 2·sizeof(T) bytes an element; backward 3·sizeof(T). mean and rstd, which forward saves for
// backward, are of the compute type. The variance is computed from differences from the mean: E[x²] - E[x]² would
// cancel.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/sums.cuh>

#include "rows/column_copies.cuh"
#include "rows/norm_rows.cuh"
#include "rows/norms.cuh"
#include "rows/row_groups.cuh"
#include "rows/tensor_rows.cuh"

inline constexpr int layer_norm_block = trifold::threads_per_block;

// One block per row, in three passes over it: the mean, the variance, the result.
template <class T>
__global__ void layer_norm_kernel(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y,
                                  trifold::compute_t<T>* mean, trifold::compute_t<T>* rstd, int64_t rows,
                                  int64_t columns, trifold::compute_t<T> eps) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * x_stride;
    T* out = y + row * columns;
    const C sum = trifold::block_sum_of<layer_norm_block, C>(columns, [&](int64_t i) { return C(in[i]); });
    const C m = sum / C(columns);
    const C squares = trifold::block_sum_of<layer_norm_block, C>(columns, [&](int64_t i) {
      const C difference = C(in[i]) - m;
      return difference * difference;
    });
    const C r = C(1) / sqrt(squares / C(columns) + eps);
    for (int64_t i = threadIdx.x; i < columns; i += layer_norm_block) {
      C value = (C(in[i]) - m) * r;
      if (weight != nullptr) value *= C(weight[i]);
      if (bias != nullptr) value += C(bias[i]);
      out[i] = T(value);
    }
    if (threadIdx.x == 0) {
      mean[row] = m;
      rstd[row] = r;
    }
  }
}

// layer_norm_kernel with a team's rows in registers (row_teams.cuh). Rows of y that are `apart` from each other have
// the same offset from a 16-byte boundary.
template <class T, trifold::Cut cut, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    layer_norm_rows_kernel(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y, float* mean, float* rstd,
                           int64_t rows, int columns, float eps, int apart) {
  constexpr int V = Choice::pieces, R = Choice::rows;
  const trifold::TeamPlace place = trifold::in_warps<Choice>(
      trifold::begin_in_team<Choice::team, trifold::Pack<trifold::WarpMoments, R>, Choice::mates>());
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
  const auto biases = trifold::column_numbers<Choice, 1>(bias, T(0.0f), at, columns);
  const trifold::Count count(columns);
  const trifold::Pack<trifold::Moments, R> all = trifold::row_moments<Choice>(part, at, count);
  trifold::Pack<float, R> r;
  trifold::Pack<trifold::Normalised<T>, R> make;
#pragma unroll
  for (int j = 0; j < R; ++j) {
    r.value[j] = trifold::close_rsqrt<T>(all.value[j].squares / count + eps);
    make.value[j] = {all.value[j].mean, r.value[j]};
  }
  trifold::write_rows<Choice>(part, out, at, make, weights, biases);
  if (place.thread == 0 && !own.none)
#pragma unroll
    for (int j = 0; j < R; ++j) {
      mean[own.row[j]] = all.value[j].mean;  // trifold: allow race of writes, all the same
      rstd[own.row[j]] = r.value[j];         // trifold: allow race of writes, all the same
    }
}

// The same for half types whose rows do not begin at 16-byte boundaries (tensor_rows.cuh).
template <class T, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    layer_norm_tensor_kernel(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y, float* mean,
                             float* rstd, int64_t rows, int columns, float eps, int apart) {
#ifdef TRIFOLD_CLUSTERS
  using Rows = trifold::TensorRows<T, Choice>;
  trifold::begin_in_team<Choice::team, typename Rows::Post, Choice::mates>();
  trifold::let_later_kernels_begin();
  const int64_t team = trifold::ClusterPlace::get<Choice::mates>().template team<Choice::mates>();
  if (team >= rows) return;
  const Rows own(team, x, x_stride, y, rows, columns, apart);
  trifold::wait_for_mates<Choice::mates>();
  const trifold::CopiedNumbers<T, trifold::Cut::inner, Choice, 0> weights(weight, T(1.0f), own.at(), columns);
  const trifold::CopiedNumbers<T, trifold::Cut::inner, Choice, 1> biases(bias, T(0.0f), own.at(), columns);
  const T edge_weight = own.at_edge(weight, T(1.0f)), edge_bias = own.at_edge(bias, T(0.0f));
  const trifold::RowStatistics of_row = own.statistics(trifold::Count(columns), eps);
  own.write_rows(trifold::Normalised<T>(of_row.mean, of_row.rstd), weights, biases, edge_weight, edge_bias);
  own.each_row([&](int64_t row) {
    mean[row] = of_row.mean;  // trifold: allow race of writes, all the same
    rstd[row] = of_row.rstd;  // trifold: allow race of writes, all the same
  });
#endif
}

// The same for several short rows at once (row_groups.cuh).
template <class T, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    layer_norm_groups_kernel(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y, float* mean,
                             float* rstd, int64_t rows, int columns, float eps, int) {
  trifold::wait_for_earlier_kernels();
  trifold::let_later_kernels_begin();
  trifold::RowGroup<T, Choice> group(x, x_stride, rows, columns);
  const auto weights = group.of_columns(weight, T(1.0f)), biases = group.of_columns(bias, T(0.0f));
  const trifold::Count count(columns);
  const trifold::Moments own = group.moments(count);
  const float r = trifold::close_rsqrt<T>(own.squares / count + eps);
  group.each_row([&](int64_t row) {
    mean[row] = own.mean;
    rstd[row] = r;
  });
  const trifold::Normalised<T> make(own.mean, r);
  group.write_rows(y, [&](int row) { return group.of_row(make, row); }, weights, biases);
}

// One block per row, in two passes over it: Σ g and Σ g·x̂, then the result.
template <class T>
__global__ void layer_norm_backward_kernel(const T* grad, int64_t grad_stride, const T* x, int64_t x_stride,
                                           const T* weight, const trifold::compute_t<T>* mean,
                                           const trifold::compute_t<T>* rstd, T* grad_x, int64_t rows,
                                           int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* of_y = grad + row * grad_stride;
    const T* in = x + row * x_stride;
    T* out = grad_x + row * columns;
    const C m = mean[row], r = rstd[row];
    auto g = [&](int64_t i) { return weight == nullptr ? C(of_y[i]) : C(of_y[i]) * C(weight[i]); };
    auto x_hat = [&](int64_t i) { return (C(in[i]) - m) * r; };
    const auto sums = trifold::block_sums<layer_norm_block, C, 2>(
        columns, [&](int64_t i) { return trifold::Pack{g(i), g(i) * x_hat(i)}; });
    const C mean_g = sums.value[0] / C(columns), mean_gx = sums.value[1] / C(columns);
    for (int64_t i = threadIdx.x; i < columns; i += layer_norm_block)
      out[i] = T(r * (g(i) - mean_g - x_hat(i) * mean_gx));
  }
}

// The first step of grad_weight and grad_bias (norms.cuh): Σ grad·x̂ and Σ grad over part of the rows.
template <class T>
__global__ void layer_norm_weight_gradient_kernel(const T* grad, int64_t grad_stride, const T* x, int64_t x_stride,
                                                  const trifold::compute_t<T>* mean, const trifold::compute_t<T>* rstd,
                                                  trifold::compute_t<T>* parts, int64_t rows, int64_t rows_a_part,
                                                  int64_t columns) {
  using C = trifold::compute_t<T>;
  trifold::sum_part<C, 2>(parts, rows, rows_a_part, columns, [&](int64_t row, int64_t column) {
    const C g(grad[row * grad_stride + column]);
    return trifold::Pack{g * ((C(x[row * x_stride + column]) - mean[row]) * rstd[row]), g};
  });
}
