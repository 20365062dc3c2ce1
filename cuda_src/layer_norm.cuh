// layer_norm: y = x̂·weight + bias with x̂ = (x - mean)·rstd and rstd = 1 / sqrt(mean (x - mean)² + eps), along each of
// `rows` rows of `columns` numbers. weight and bias have one number for each column; null: 1 and 0.
//
// Backward, with g = grad·weight: grad_x = rstd·(g - mean g - x̂·mean(g·x̂)) along each row; grad_weight = Σ grad·x̂ and
// grad_bias = Σ grad over the rows.
//
// Rows of x and grad begin x_stride and grad_stride elements apart; those of results follow one another. Forward must
// read x and write y once: 2·sizeof(T) bytes an element; backward 3·sizeof(T). mean and rstd, which forward leaves for
// backward, are of the compute type. The variance is taken of differences from the mean: E[x²] - E[x]² would cancel.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/moments.cuh>
#include <trifold/norms.cuh>
#include <trifold/row_parts.cuh>
#include <trifold/row_pipeline.cuh>
#include <trifold/sums.cuh>

inline constexpr int layer_norm_block = trifold::threads_per_block;

// A block a row, in three passes over it: the mean, the variance, the result.
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

// x̂·weight + bias of a thread's part of a row.
template <class T, trifold::Cut cut, int V, bool held>
__device__ __forceinline__ void normalise_row(trifold::RowPart<T, cut, V>& x, const trifold::RowCut<T, cut>& at,
                                              float mean, float rstd,
                                              const trifold::SharedByRows<T, cut, V, held>& weights,
                                              const trifold::SharedByRows<T, cut, V, held>& biases) {
  const trifold::Normalised<T> x_hat(mean, rstd);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const trifold::Packed<T> w = weights.piece(k, at), b = biases.piece(k, at);
    x.piece[k] = trifold::pack<T>([&](int i) { return x_hat(x.piece[k][i]) * w[i] + b[i]; });
  }
}

// The same with a row in a team's registers (row_teams.cuh).
template <class T, trifold::Cut cut, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    layer_norm_rows_kernel(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y, float* mean, float* rstd,
                           int64_t rows, int columns, float eps) {
  constexpr int V = Choice::pieces;
  const trifold::TeamPlace place = trifold::begin_in_team<Choice::team, trifold::WarpMoments>();
  if (place.template done<Choice::team>(rows)) return;
  T* const out = y + place.row * columns;
  const trifold::RowCut<T, cut> at(place, out, place.template columns<Choice::team>(rows, columns));
  trifold::RowPart<T, cut, V> part;
  part.load(x, place.row, rows, x_stride, at, T(0.0f));
  const trifold::SharedByRows<T, cut, V, V <= 2> weights(weight, at, T(1.0f)), biases(bias, at, T(0.0f));
  const trifold::Moments all = trifold::row_moments<Choice::team>(part, at);
  const float r = trifold::close_rsqrt<T>(all.squares / static_cast<float>(columns) + eps);
  normalise_row(part, at, all.mean, r, weights, biases);
  part.store(out, at);
  if (place.thread == 0 && place.row < rows) {
    mean[place.row] = all.mean;
    rstd[place.row] = r;
  }
}

#ifdef __CUDACC__

// The same with rows that stream through shared memory (row_pipeline.cuh).
template <class T, trifold::Cut cut, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    layer_norm_stream_kernel(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y, float* mean,
                             float* rstd, int64_t rows, int columns, float eps) {
#ifdef TRIFOLD_CLUSTERS
  constexpr int V = Choice::pieces;
  constexpr bool held = cut == trifold::Cut::whole;
  trifold::RowPipeline<T, cut, Choice, trifold::WarpMoments, trifold::Reads::twice> stream(x, x_stride, y, rows,
                                                                                           columns, T(0.0f));
  const trifold::SharedByRows<T, cut, V, held> weights(weight, stream.head_at(), T(1.0f));
  const trifold::SharedByRows<T, cut, V, held> biases(bias, stream.head_at(), T(0.0f));
  for (; stream.more(); stream.next()) {
    if (stream.has_head()) {
      const trifold::RowCut<T, cut> at = stream.head_at();
      trifold::RowPart<T, cut, V> part = stream.head(at);
      stream.give(trifold::warp_moments<trifold::Team::block>(part, at));
    }
    if (stream.has_tail()) {
      const trifold::Moments all = trifold::combine(stream.take(), columns);
      const float r = trifold::close_rsqrt<T>(all.squares / static_cast<float>(columns) + eps);
      trifold::RowPart<T, cut, V> part = stream.tail();
      normalise_row(part, stream.tail_at(), all.mean, r, weights, biases);
      part.store(stream.tail_row(), stream.tail_at());
      if (stream.first_thread()) {
        mean[stream.row(1)] = all.mean;
        rstd[stream.row(1)] = r;
      }
    }
  }
#endif
}

#endif

// A block a row, in two passes over it: Σ g and Σ g·x̂, the result.
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

// The first step of grad_weight and grad_bias (norms.cuh): Σ grad·x̂ and Σ grad over a part of the rows.
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
