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
#include <trifold/norms.cuh>
#include <trifold/row_teams.cuh>
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

// Of `count` numbers: their mean, and Σ (x - mean)².
struct Moments {
  float count, mean, squares;
};

// Of two sets of numbers (Chan, Golub, LeVeque: "Updating Formulae and a Pairwise Algorithm for Computing Sample
// Variances", 1979). It gives the same for both orders of its arguments.
struct CombineMoments {
  __device__ __forceinline__ Moments operator()(const Moments& a, const Moments& b) const {
    const float count = a.count + b.count;
    if (count == 0) return a;
    const float difference = b.mean - a.mean;
    return {count, (a.count * a.mean + b.count * b.mean) / count,
            a.squares + b.squares + difference * difference * (a.count * b.count / count)};
  }
};

// The same with a row in a team's registers (row_teams.cuh). Each thread takes its own numbers' mean and squares.
template <class T, int E, int V, trifold::Team team>
__global__ void __launch_bounds__(1024)
    layer_norm_rows_kernel(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y, float* mean, float* rstd,
                           int64_t rows, int columns, float eps) {
  using Part = trifold::RowPart<T, E, V>;
  const trifold::TeamPlace at = trifold::begin_in_team<team>();
  if (at.row >= rows) return;
  Part part;
  part.load(x + at.row * x_stride, columns, at, T(0.0f));
  Moments own{0, 0, 0};
#pragma unroll
  for (int k = 0; k < V; ++k) own.count += Part::column(k, at) < columns ? E : 0;
  part.each([&](T v, int, int) { own.mean += float(v); });
  if (own.count > 0) own.mean /= own.count;
  part.each([&](T v, int k, int) {
    const float difference = Part::column(k, at) < columns ? float(v) - own.mean : 0.0f;
    own.squares += difference * difference;
  });
  const Moments all = trifold::team_reduce<team, 0>(own, Moments{0, 0, 0}, CombineMoments{});
  const float r = 1 / sqrt(all.squares / static_cast<float>(columns) + eps);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const trifold::Piece<T, E> weights = Part::shared(weight, k, columns, at, T(1.0f));
    const trifold::Piece<T, E> biases = Part::shared(bias, k, columns, at, T(0.0f));
#pragma unroll
    for (int i = 0; i < E; ++i) {
      T& v = part.piece[k].value[i];
      v = T((float(v) - all.mean) * r * float(weights.value[i]) + float(biases.value[i]));
    }
  }
  part.store(y + at.row * columns, columns, at);
  if (at.thread == 0) {
    mean[at.row] = all.mean;
    rstd[at.row] = r;
  }
}

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
