// Of a row in a team's pieces: the mean and the sum of squares of the differences from it, in one exchange between the
// warps of a team; or the sum of squares.
#pragma once

#include "row_parts.cuh"

#include <algorithm>
#include <bit>
#include <utility>

namespace trifold {

// 1 / √x, as close as the type T can tell: on a GPU within 2 units in the last place of a float for half types, else
// with a Newton step behind that. Without branches, as those of a division and a root.
template <class T>
__device__ __forceinline__ float close_rsqrt(float x) {
#ifdef TRIFOLD_GPU_ARCH
  const float root = rsqrtf(x);
  if constexpr (sizeof(T) == 2) return root;
  const float better = fmaf(0.5f * root, fmaf(-x * root, root, 1.0f), root);
  return better == better ? better : root;  // of 0 and of an infinity the step makes nan
#else
  return 1 / sqrt(x);
#endif
}

// How many numbers a sum is of, to divide it by: a quotient without branches. The residual of the first one mends what
// the reciprocal is off, so that a sum of n equal numbers has that number as its mean.
struct Count {
  float count, reciprocal;

  __device__ __forceinline__ explicit Count(int n) : count(n > 0 ? static_cast<float>(n) : 1.0f) {
#ifdef TRIFOLD_GPU_ARCH
    reciprocal = __fdividef(1.0f, count);
#else
    reciprocal = 1 / count;
#endif
  }
  friend __device__ __forceinline__ float operator/(float sum, const Count& by) {
    const float first = sum * by.reciprocal;
    const float better = fmaf(fmaf(-first, by.count, sum), by.reciprocal, first);
    return better == better ? better : first;  // an infinity stays one
  }
};

// What layer_norm makes of a number, (x - mean)·rstd·weight + bias. Of half types x̂ is x·rstd - mean·rstd, one
// instruction: what that cancels of a float's digits is far below theirs.
template <class T>
struct Normalised {
  float mean, rstd;

  Normalised() = default;
  __device__ __forceinline__ Normalised(float mean, float rstd)
      : mean(sizeof(T) == 2 ? -mean * rstd : mean), rstd(rstd) {}
  __device__ __forceinline__ float operator()(float x, float weight, float bias) const {
    const float x_hat = sizeof(T) == 2 ? fmaf(x, rstd, mean) : (x - mean) * rstd;
    return fmaf(x_hat, weight, bias);
  }
};

// Of a row: the mean, and Σ (x - mean)².
struct Moments {
  float mean, squares;
};

// Of a warp's numbers.
struct alignas(16) WarpMoments {
  float mean, squares, count;
};
__device__ __forceinline__ const WarpMoments& of_row(const WarpMoments& post, int) {
  return post;
}
template <int R>
__device__ __forceinline__ const WarpMoments& of_row(const Pack<WarpMoments, R>& post, int j) {
  return post.value[j];
}

// The thread's edge of a row, where there is one (Cut::inner).
template <class T, Cut cut>
struct EdgeApart {
  T edge;
  bool there;

  template <int V>
  __device__ __forceinline__ EdgeApart(const RowPart<T, cut, V>& x, const RowCut<T, cut>& at)
      : edge(x.edge), there(cut == Cut::inner && at.edge >= 0) {}
  template <class F>
  __device__ __forceinline__ void each(F f) const {
    if (there) f(float(edge));
  }
};

// Of each of some rows that are cut alike.
template <class T, Cut cut, int V, int R>
__device__ __forceinline__ auto edges_of(const RowPart<T, cut, V> (&x)[R], const RowCut<T, cut>& at) {
  return [&]<int... j>(std::integer_sequence<int, j...>) {
    return Pack<EdgeApart<T, cut>, R>{{EdgeApart<T, cut>(x[j], at)...}};
  }(std::make_integer_sequence<int, R>{});
}

// Four sums of a thread's elements: one would wait for itself at each of them.
struct FourSums {
  float of[4]{};

  __device__ __forceinline__ float all() const { return (of[0] + of[1]) + (of[2] + of[3]); }
};

// Σ term(x) of the calling thread's elements, where term(0) = 0: those beyond the row are 0.
//
// `any`: whether the thread has one. Without the branch ptxas would keep the floats that it makes of half types here
// for what is done with them next.
template <class T, Cut cut, int V, class Apart, class Term>
__device__ __forceinline__ float thread_sum(const RowPart<T, cut, V>& x, bool any, const Apart& apart, Term term) {
  FourSums sums;
  if (any) x.each([&](float v, int, int i) { sums.of[i % 4] += term(v); });
  apart.each([&](float v) { sums.of[0] += term(v); });
  return sums.all();
}

// Σ (x - mean)² of the calling thread's elements of the row. Pieces that stick out of it are taken element by element,
// where there are `edges`.
template <class T, Cut cut, int V, class Apart>
__device__ __forceinline__ float thread_squares(const RowPart<T, cut, V>& x, const RowCut<T, cut>& at, float mean,
                                                bool edges, const Apart& apart) {
  FourSums sums;
  const auto add = [&](float difference, int i) { sums.of[i % 4] += difference * difference; };
  if (cut == Cut::ragged && edges) {
    x.each([&](float v, int k, int i) { add(at.has(k, i) ? v - mean : 0.0f, i); });
  } else if (at.touches(0)) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float own = at.within(k) ? mean : 0.0f;
#pragma unroll
      for (int i = 0; i < Packed<T>::size; ++i) add(x.piece[k][i] - own, i);
    }
  }
  apart.each([&](float v) { add(v - mean, 0); });
  return sums.all();
}

// Of each of R rows that are cut alike, `count` numbers, 0 where they are not of the row, of a warp or of so many of
// its lanes: as exact as with the row's mean.
template <int lanes, int R, class T, Cut cut, int V, class Apart>
__device__ __forceinline__ Pack<Moments, R> lane_moments(RowPart<T, cut, V>* x, const RowCut<T, cut>& at,
                                                         const Count& count, bool edges, const Apart* apart) {
  Pack<Moments, R> own;
  Pack<float, R> sums;
#pragma unroll
  for (int j = 0; j < R; ++j) sums.value[j] = thread_sum(x[j], at.touches(0), apart[j], [](float v) { return v; });
  sums = warp_reduce<lanes>(sums, Sums{});
#pragma unroll
  for (int j = 0; j < R; ++j) {
    own.value[j].mean = sums.value[j] / count;
    x[j].stay();
  }
#pragma unroll
  for (int j = 0; j < R; ++j) sums.value[j] = thread_squares(x[j], at, own.value[j].mean, edges, apart[j]);
  sums = warp_reduce<lanes>(sums, Sums{});
#pragma unroll
  for (int j = 0; j < R; ++j) {
    own.value[j].squares = sums.value[j];
    x[j].stay();
  }
  return own;
}

// Of the sums of n numbers' differences from `shift`, and of their squares. Where that is one of the numbers, or a mean
// of some, Σ (x - mean)² is off by n + 1 unit round-offs at most, whichever one it is.
__device__ __forceinline__ Moments shifted_moments(float shift, float sum, float squares, const Count& count) {
  const float mean = sum / count;
  return {shift + mean, squares == INFINITY ? squares : fmaf(-sum, mean, squares)};
}

// These sums, of the numbers of a thread.
struct ShiftedSums {
  float shift;
  FourSums sums, squares;

  __device__ __forceinline__ void add(float difference, int i) {
    sums.of[i % 4] += difference;
    squares.of[i % 4] = fmaf(difference, difference, squares.of[i % 4]);
  }
  __device__ __forceinline__ Moments moments(const Count& count) const {
    return shifted_moments(shift, sums.all(), squares.all(), count);
  }
};

// Of a warp, whose threads' are `own`, of `count` numbers each.
__device__ __forceinline__ Moments warp_moments(const Moments& own, int count, const Count& of_warp) {
  const float shift = __shfl_sync(0xffffffffu, own.mean, 0), moved = own.mean - shift;
  const float sum = static_cast<float>(count) * moved;
  return shifted_moments(shift, warp_sum(sum), warp_sum(fmaf(sum, moved, own.squares)), of_warp);
}

// Σ x² of the calling thread's numbers.
template <class T, Cut cut, int V, class Apart>
__device__ __forceinline__ float sum_of_squares(RowPart<T, cut, V>& x, const RowCut<T, cut>& at, const Apart& apart) {
  const float squares = thread_sum(x, at.touches(0), apart, [](float v) { return v * v; });
  x.stay();
  return squares;
}

// Of R rows whose warps, at most `most`, have these moments: each is moved to its row's mean (Chan, Golub, LeVeque:
// "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979).
template <int most, int R, class Post>
__device__ __forceinline__ Pack<Moments, R> combine(const Posts<Post>& posts, const Count& columns) {
  constexpr int width = std::min(warp_threads, static_cast<int>(std::bit_ceil(static_cast<unsigned>(most))));
  const int lane = static_cast<int>(threadIdx.x) % width;
  Pack<Moments, R> all;
  Pack<float, R> sums{};
#pragma unroll 1
  for (int i = lane; i < posts.count; i += width)
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const WarpMoments& own = of_row(posts.of_warp[i], j);
      sums.value[j] += own.mean * own.count;
    }
  sums = warp_reduce<width>(sums, Sums{});
#pragma unroll
  for (int j = 0; j < R; ++j) all.value[j].mean = sums.value[j] / columns;
  sums = {};
#pragma unroll 1
  for (int i = lane; i < posts.count; i += width)
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const WarpMoments own = of_row(posts.of_warp[i], j);
      const float moved = own.mean - all.value[j].mean;
      sums.value[j] += own.squares + own.count * (moved * moved);
    }
  sums = warp_reduce<width>(sums, Sums{});
#pragma unroll
  for (int j = 0; j < R; ++j) all.value[j].squares = sums.value[j];
  return all;
}
template <int most>
__device__ __forceinline__ Moments combine(const Posts<WarpMoments>& posts, const Count& columns) {
  return combine<most, 1>(posts, columns).value[0];
}

// The same as close as the type T can tell: for half types both sums at once.
template <class T, int most>
__device__ __forceinline__ Moments close_combine(const Posts<WarpMoments>& posts, const Count& columns) {
  if constexpr (sizeof(T) > 2) return combine<most>(posts, columns);
  constexpr int width = std::min(warp_threads, static_cast<int>(std::bit_ceil(static_cast<unsigned>(most))));
  const float shift = posts.of_warp[0].mean;
  float sum = 0, squares = 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) % width; i < posts.count; i += width) {
    const WarpMoments other = posts.of_warp[i];
    const float moved = other.mean - shift;
    sum += other.count * moved;
    squares += fmaf(other.count * moved, moved, other.squares);
  }
  return shifted_moments(shift, warp_reduce<width>(sum, Sum{}), warp_reduce<width>(squares, Sum{}), columns);
}

// Of the rows of a team of Choice (row_teams.cuh).
template <class Choice, class T, Cut cut, int V, int R>
__device__ __forceinline__ Pack<Moments, R> row_moments(RowPart<T, cut, V> (&x)[R], const RowCut<T, cut>& at,
                                                        const Count& columns) {
  const bool edges = cut == Cut::ragged && at.template at_edge<V>();
  const auto edge = edges_of(x, at);
  if constexpr (has_warps(Choice::team)) {
    const int count = at.template of_warp<V>();
    const Pack<Moments, R> own = lane_moments<warp_threads, R>(x, at, Count(count), edges, edge.value);
    Pack<WarpMoments, R> post;
#pragma unroll
    for (int j = 0; j < R; ++j) post.value[j] = {own.value[j].mean, own.value[j].squares, static_cast<float>(count)};
    constexpr int most = Choice::threads / warp_threads * (Choice::team == Team::block ? 1 : most_blocks_a_cluster);
    return combine<most, R>(team_posts<Choice::team, Choice::mates, most>(post), columns);
  } else {
    return lane_moments<team_lanes(Choice::team), R>(x, at, columns, edges, edge.value);
  }
}

}  // namespace trifold
