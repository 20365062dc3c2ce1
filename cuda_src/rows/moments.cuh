// The moments of a row that a team holds in registers: its mean, and the sum of squared differences from it, in one
// exchange between the warps of a team; or the sum of its squares.
//
//     const Pack<Moments, R> all = row_moments<Choice>(part, at, Count(columns));   // of R rows, in all threads
#pragma once

#include "row_parts.cuh"

#include <algorithm>
#include <bit>
#include <utility>

namespace trifold {

// 1 / √x, as accurate as type T needs: on a GPU within 2 units in the last place of a float for half types; for float a
// Newton step follows. Without the branches of a division and a square root.
template <class T>
__device__ __forceinline__ float close_rsqrt(float x) {
#ifdef TRIFOLD_GPU_ARCH
  const float root = rsqrtf(x);
  if constexpr (sizeof(T) == 2) return root;
  const float better = fmaf(0.5f * root, fmaf(-x * root, root, 1.0f), root);
  return better == better ? better : root;  // for 0 and infinity the step makes nan
#else
  return 1 / sqrt(x);
#endif
}

// The number of terms of a sum, as a divisor without branches. The residual of the first quotient corrects the error of
// the reciprocal, so that the mean of n equal numbers is that number.
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

// layer_norm's result for a number: (x - mean)·rstd·weight + bias. For half types x̂ is x·rstd - mean·rstd, one
// instruction: the digits of a float that cancel are far below those of a half type.
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

// rms_norm's result for a number.
struct ScaledBy {
  float rstd;

  __device__ __forceinline__ float operator()(float x, float weight) const { return x * rstd * weight; }
};

// The mean of a row, and Σ (x - mean)².
struct Moments {
  float mean, squares;
};

// The same of the `count` numbers of a warp.
struct alignas(16) WarpMoments {
  float mean, squares, count;
};

template <Cut cut>
inline constexpr bool has_edges = cut == Cut::inner || cut == Cut::streamed;

// A sum over a thread's elements, kept as four sums: with a single one, each addition would wait for the one before.
struct FourSums {
  float of[4]{};

  __device__ __forceinline__ float all() const { return (of[0] + of[1]) + (of[2] + of[3]); }
};

// Σ term(x) of the calling thread's elements, where term(0) = 0: those beyond the row are 0.
template <class T, Cut cut, int V, class Term>
__device__ __forceinline__ float thread_sum(const RowPart<T, cut, V>& x, const RowCut<T, cut>& at, Term term) {
  FourSums sums;
  // Without this branch ptxas would keep half types' conversions to float in registers for later uses.
  if (at.touches(0)) x.each([&](float v, int, int i) { sums.of[i % 4] += term(v); });
  if (has_edges<cut> && at.edge >= 0) sums.of[0] += term(float(x.edge));
  return sums.all();
}

// Σ (x - mean)² over the calling thread's elements of the row. Pieces that extend beyond it, which the thread has if
// `edges`, are added element by element.
template <class T, Cut cut, int V>
__device__ __forceinline__ float thread_squares(const RowPart<T, cut, V>& x, const RowCut<T, cut>& at, float mean,
                                                bool edges) {
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
  if (has_edges<cut> && at.edge >= 0) add(float(x.edge) - mean, 0);
  return sums.all();
}

// The moments of the `count` numbers of each of R rows held by this many lanes, in two passes: as accurate as with the
// row's mean. Numbers beyond a row are 0.
template <int lanes, class T, Cut cut, int V, int R>
__device__ __forceinline__ Pack<Moments, R> lane_moments(RowPart<T, cut, V> (&x)[R], const RowCut<T, cut>& at,
                                                         const Count& count) {
  const bool edges = cut == Cut::ragged && at.template at_edge<V>();
  Pack<Moments, R> own;
  Pack<float, R> sums;
#pragma unroll
  for (int j = 0; j < R; ++j) sums.value[j] = thread_sum(x[j], at, [](float v) { return v; });
  sums = warp_reduce<lanes>(sums, Sums{});
#pragma unroll
  for (int j = 0; j < R; ++j) {
    own.value[j].mean = sums.value[j] / count;
    x[j].stay();
  }
#pragma unroll
  for (int j = 0; j < R; ++j) sums.value[j] = thread_squares(x[j], at, own.value[j].mean, edges);
  sums = warp_reduce<lanes>(sums, Sums{});
#pragma unroll
  for (int j = 0; j < R; ++j) {
    own.value[j].squares = sums.value[j];
    x[j].stay();
  }
  return own;
}

// The same for the numbers that the warp holds.
template <class T, Cut cut, int V, int R>
__device__ __forceinline__ Pack<WarpMoments, R> warp_moments(RowPart<T, cut, V> (&x)[R], const RowCut<T, cut>& at) {
  const int count = at.template of_warp<V>();
  const Pack<Moments, R> own = lane_moments<warp_threads>(x, at, Count(count));
  Pack<WarpMoments, R> post;
#pragma unroll
  for (int j = 0; j < R; ++j) post.value[j] = {own.value[j].mean, own.value[j].squares, static_cast<float>(count)};
  return post;
}

// Σ x² over the calling thread's numbers.
template <class T, Cut cut, int V>
__device__ __forceinline__ float sum_of_squares(RowPart<T, cut, V>& x, const RowCut<T, cut>& at) {
  const float squares = thread_sum(x, at, [](float v) { return v * v; });
  x.stay();
  return squares;
}

// Moments from the sums of n numbers' differences from `shift`, and of the squares of these. If `shift` is one of the
// numbers, or a mean of some, the error of Σ (x - mean)² is at most n + 1 unit round-offs.
__device__ __forceinline__ Moments shifted_moments(float shift, float sum, float squares, const Count& count) {
  const float mean = sum / count;
  return {shift + mean, squares == INFINITY ? squares : fmaf(-sum, mean, squares)};
}

// The sums of a thread's differences from one number, and of their squares.
struct ShiftedSums {
  FourSums sums, squares;

  __device__ __forceinline__ void add(float difference, int i) {
    sums.of[i % 4] += difference;
    squares.of[i % 4] = fmaf(difference, difference, squares.of[i % 4]);
  }
};

// The moments of R rows from those of their warps, at most `most`, each shifted to its row's mean (Chan, Golub,
// LeVeque: "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979).
template <int most, int R>
__device__ __forceinline__ Pack<Moments, R> combine(const Posts<Pack<WarpMoments, R>>& posts, const Count& columns) {
  constexpr int width = std::min(warp_threads, static_cast<int>(std::bit_ceil(static_cast<unsigned>(most))));
  const int lane = static_cast<int>(threadIdx.x) % width;
  Pack<Moments, R> all;
  Pack<float, R> sums{};
#pragma unroll 1
  for (int i = lane; i < posts.count; i += width)
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const WarpMoments& own = posts.of_warp[i].value[j];
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
      const WarpMoments own = posts.of_warp[i].value[j];
      const float moved = own.mean - all.value[j].mean;
      sums.value[j] += own.squares + own.count * (moved * moved);
    }
  sums = warp_reduce<width>(sums, Sums{});
#pragma unroll
  for (int j = 0; j < R; ++j) all.value[j].squares = sums.value[j];
  return all;
}

// The same for one row, as accurate as type T needs: for half types both sums in one pass.
template <class T, int most>
__device__ __forceinline__ Moments close_combine(const Posts<Pack<WarpMoments, 1>>& posts, const Count& columns) {
  if constexpr (sizeof(T) > 2) return combine<most, 1>(posts, columns).value[0];
  constexpr int width = std::min(warp_threads, static_cast<int>(std::bit_ceil(static_cast<unsigned>(most))));
  const float shift = posts.of_warp[0].value[0].mean;
  float sum = 0, squares = 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) % width; i < posts.count; i += width) {
    const WarpMoments other = posts.of_warp[i].value[0];
    const float moved = other.mean - shift;
    sum += other.count * moved;
    squares += fmaf(other.count * moved, moved, other.squares);
  }
  return shifted_moments(shift, warp_reduce<width>(sum, Sum{}), warp_reduce<width>(squares, Sum{}), columns);
}

// The moments of the rows of a team of Choice (row_teams.cuh).
template <class Choice, class T, Cut cut, int V, int R>
__device__ __forceinline__ Pack<Moments, R> row_moments(RowPart<T, cut, V> (&x)[R], const RowCut<T, cut>& at,
                                                        const Count& columns) {
  if constexpr (has_warps(Choice::team)) {
    constexpr int most = Choice::threads / warp_threads * (Choice::team == Team::block ? 1 : most_blocks_a_cluster);
    return combine<most, R>(team_posts<Choice::team, Choice::mates, most>(warp_moments(x, at)), columns);
  } else {
    return lane_moments<team_lanes(Choice::team)>(x, at, columns);
  }
}

}  // namespace trifold
