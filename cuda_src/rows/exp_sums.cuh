// The maximum of a row and the sum of its exponentials: the first step of softmax and cross_entropy.
//
//     Exps<T, V> exps;
//     exps.compute<team>(part, at, false);                            // within a warp
//     const RowExps row = row_exps<T, team>(exps.warp, false);     // in all threads of the team
#pragma once

#include <trifold/choices.h>

#include "row_parts.cuh"
#include "scaled_exp.cuh"

namespace trifold {

// Of a warp's numbers: the largest, and the sum of the exponentials of the differences from it; on request also the sum
// of the differences themselves, and the count of numbers.
struct alignas(16) WarpExps {
  float max, sum, differences, count;
};

// The number to subtract if `max` is the largest: 0 instead of -inf, since -inf - -inf would be nan.
__device__ __forceinline__ float finite_or_zero(float max) {
  return max == -INFINITY ? 0.0f : max;
}

// Of a row's numbers: m, the largest; Σ exp(x - m), times the power of two of scaled_exp; and Σ (x - m), or 0.
struct RowExps {
  float max, sum, differences;

  // The logarithm of Σ exp(x - m).
  template <class T>
  __device__ __forceinline__ float log_sum() const {
    constexpr float log_2 = 0.693147181f;
    return log(sum) - scaled_exp_bits<T>() * log_2;
  }

  // The factor that turns scaled_exp(x - w) into exp(x - m) / Σ exp(x - m).
  template <class T>
  __device__ __forceinline__ float factor(float w) const {
    return close_exp<T>(w - finite_or_zero(max)) * close_reciprocal<T>(sum);
  }
};

// The exponentials of the differences of a thread's numbers from the largest number of its warp (or of its part of a
// warp, if that holds a row). Only the warps' maxima and sums are exchanged, and each exp is computed once.
template <class T, int V>
struct Exps {
  float e[V][Packed<T>::size];
  float edge;  // the thread's edge, in a row that has edges
  WarpExps warp;

  // Numbers outside the row must be -inf.
  template <Team team, Cut cut>
  __device__ __forceinline__ void compute(const RowPart<T, cut, V>& x, const RowCut<T, cut>& at,
                                          bool with_differences) {
    constexpr int lanes = team_lanes(team);
    Packed<T> most = x.piece[0];
#pragma unroll
    for (int k = 1; k < V; ++k) most = larger(most, x.piece[k]);
    warp = {most[0], 0, 0, 0};
#pragma unroll
    for (int i = 1; i < Packed<T>::size; ++i) warp.max = Max{}(warp.max, most[i]);
    if constexpr (cut == Cut::inner) warp.max = Max{}(warp.max, float(x.edge));
    warp.max = warp_reduce<lanes>(warp.max, Max{});
    const float base = finite_or_zero(warp.max);
    if (with_differences) warp.differences = differences(x, at, base);
    RowPart<T, cut, V> own = x;
    own.stay();
    own.each([&](float v, int k, int i) { warp.sum += e[k][i] = scaled_exp<T>(v - base); });
    if constexpr (cut == Cut::inner) warp.sum += edge = scaled_exp<T>(float(x.edge) - base);
    warp.sum = warp_reduce<lanes>(warp.sum, Sum{});
    if (with_differences) {
      warp.differences = warp_reduce<lanes>(warp.differences, Sum{});
      warp.count = static_cast<float>(at.template of_warp<V>());
    }
  }

 private:
  // Adds two numbers at a time: the compiler would keep single differences in registers for the exponentials. Uses
  // halves, whose sum does not overflow.
  template <Cut cut>
  static __device__ __forceinline__ float differences(RowPart<T, cut, V> x, const RowCut<T, cut>& at, float base) {
    x.stay();
    const auto half = [&](int k, int i) { return 0.5f * (at.has(k, i) ? x.piece[k][i] : base); };
    float sum = 0;
#pragma unroll
    for (int k = 0; k < V; ++k)
#pragma unroll
      for (int i = 0; i < Packed<T>::size; i += 2) sum += half(k, i) + (half(k, i + 1) - base);
    if constexpr (cut == Cut::inner) sum += at.edge >= 0 ? 0.5f * float(x.edge) - 0.5f * base : 0.0f;
    return 2 * sum;
  }
};

// Whether a thread has few enough numbers that their exponentials, which are floats, fit into its registers at the
// intended occupancy. Otherwise it keeps the numbers and computes each exp twice, one instruction for half types.
template <class T, int V>
inline constexpr bool keeps_exps = V * Packed<T>::size <= 32;

// A kernel's code also depends on that (choices.h).
template <class T>
struct ExpModes {
  template <class Choice>
  using of = Mode<Choice::team, Choice::edges, keeps_exps<T, Choice::pieces>>;
};

// Combines the values of all warps of a row.
template <class T>
__device__ __forceinline__ RowExps combine(const Posts<WarpExps>& posts, bool with_differences) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  RowExps row{-INFINITY, 0, 0};
#pragma unroll 1
  for (int i = lane; i < posts.count; i += warp_threads) row.max = Max{}(row.max, posts.of_warp[i].max);
  row.max = warp_max(row.max);
  const float base = finite_or_zero(row.max);
#pragma unroll 1
  for (int i = lane; i < posts.count; i += warp_threads) {
    const WarpExps other = posts.of_warp[i];
    row.sum += other.sum * close_exp<T>(other.max - base);
    if (with_differences && other.count > 0) row.differences += other.differences + other.count * (other.max - base);
  }
  row.sum = warp_sum(row.sum);
  if (with_differences) row.differences = warp_sum(row.differences);
  return row;
}

// The result for a team's row.
template <class T, Team team>
__device__ __forceinline__ RowExps row_exps(const WarpExps& own, bool with_differences) {
  if constexpr (!has_warps(team))
    return {own.max, own.sum, own.differences};
  else
    return combine<T>(team_posts<team>(own), with_differences);
}

}  // namespace trifold
