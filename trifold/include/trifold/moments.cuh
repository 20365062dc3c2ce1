// The mean of a row and the sum of squares of the differences from it, in one exchange between the warps of a team.
#pragma once

#include <trifold/row_parts.cuh>

namespace trifold {

// 1 / √x, as close as the type T can tell: for half types on a GPU within 2 units in the last place of a float.
template <class T>
__device__ __forceinline__ float close_rsqrt(float x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) return rsqrtf(x);
#endif
  return 1 / sqrt(x);
}

// (x - mean)·rstd. For half types as x·rstd - mean·rstd, one instruction: what that cancels of a float's digits is far
// below theirs.
template <class T>
struct Normalised {
  float mean, rstd;

  __device__ __forceinline__ Normalised(float mean, float rstd)
      : mean(sizeof(T) == 2 ? -mean * rstd : mean), rstd(rstd) {}
  __device__ __forceinline__ float operator()(float x) const {
    return sizeof(T) == 2 ? fmaf(x, rstd, mean) : (x - mean) * rstd;
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

// Of numbers that are 0 where they are not of the row, the warp's: as exact as with the row's mean. (Or of the part of
// a warp that has a row.)
template <Team team, class T, Cut cut, int V>
__device__ __forceinline__ WarpMoments warp_moments(RowPart<T, cut, V>& x, const RowCut<T, cut>& at) {
  constexpr bool alone = team == Team::part || team == Team::warp;
  WarpMoments own{0, 0, static_cast<float>(alone ? at.columns : at.template of_warp<V>())};
  x.each([&](float v, int, int) { own.mean += v; });
  own.mean = warp_reduce<team_lanes(team)>(own.mean, Sum{}) / (own.count > 0 ? own.count : 1.0f);
  x.stay();
  const auto add = [&](float difference) { own.squares += difference * difference; };
  if (cut == Cut::whole && at.columns == V * at.step)
    x.each([&](float v, int, int) { add(v - own.mean); });
  else
    x.each([&](float v, int k, int i) { add(at.has(k, i) ? v - own.mean : 0.0f); });
  x.stay();
  own.squares = warp_reduce<team_lanes(team)>(own.squares, Sum{});
  return own;
}

// Of a row of `columns` numbers, whose warps' moments are these: each is moved to the row's mean (Chan, Golub, LeVeque:
// "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979).
__device__ __forceinline__ Moments combine(const Posts<WarpMoments>& posts, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  Moments all{0, 0};
#pragma unroll 1
  for (int i = lane; i < posts.count; i += warp_threads) all.mean += posts.of_warp[i].mean * posts.of_warp[i].count;
  all.mean = warp_sum(all.mean) / static_cast<float>(columns);
#pragma unroll 1
  for (int i = lane; i < posts.count; i += warp_threads) {
    const WarpMoments other = posts.of_warp[i];
    const float moved = other.mean - all.mean;
    all.squares += other.squares + other.count * (moved * moved);
  }
  all.squares = warp_sum(all.squares);
  return all;
}

// Of a team's row.
template <Team team, class T, Cut cut, int V>
__device__ __forceinline__ Moments row_moments(RowPart<T, cut, V>& x, const RowCut<T, cut>& at) {
  const WarpMoments own = warp_moments<team>(x, at);
  if constexpr (team == Team::part || team == Team::warp)
    return {own.mean, own.squares};
  else
    return combine(team_posts<team>(own), at.columns);
}

}  // namespace trifold
