// What the forward kernels of the norms share that hold a row in the registers of a team (row_teams.cuh).
#pragma once

#include <trifold/moments.cuh>

namespace trifold {

// When the numbers of each column are read: together with the row, so that nobody waits for them; or once the row's
// sums are known, into registers that are free again.
enum class Parameters { early, late };

template <Team team, int pieces, int threads, int blocks, Parameters when, bool edges = false>
struct NormTeam : TeamChoice<team, pieces, threads, blocks, edges> {
  static constexpr bool early = when == Parameters::early;
};
template <Team team, int pieces, int threads, int blocks, Parameters when>
using NormTeamWithEdges = NormTeam<team, pieces, threads, blocks, when, true>;

// make(element, number...) of the elements of a piece and their columns' numbers.
template <class T, class Make, class... Numbers>
__device__ __forceinline__ Packed<T> made(const Packed<T>& x, Make make, const Numbers&... numbers) {
  return pack<T>([&](int i) { return make(x[i], numbers[i]...); });
}

// The same place, where the pieces of a block's warp follow one another: a thread's lie 512 bytes apart, which is known
// to the compiler.
template <class Choice>
__device__ __forceinline__ TeamPlace in_warps(TeamPlace place) {
  if constexpr (has_warps(Choice::team)) {
    const int lane = place.thread % warp_threads;
    place.thread = (place.thread - lane) * Choice::pieces + lane;
    place.threads = warp_threads;
  }
  return place;
}

// Writes a row. Its elements become make(element, number...), with those numbers of their columns, SharedByRows.
//
// Of numbers that are read late, those of four pieces are in registers at once: stores keep the loads that are behind
// them there.
template <class Choice, class T, Cut cut, int V, class Make, class... Numbers>
__device__ __forceinline__ void write_row(RowPart<T, cut, V>& x, T* out, const RowCut<T, cut>& at, Make make,
                                          const Numbers&... numbers) {
  constexpr int chunk = Choice::early ? V : std::min(V, 4);
  static_assert(V % chunk == 0);
#pragma unroll
  for (int first = 0; first < V; first += chunk) {
#pragma unroll
    for (int k = first; k < first + chunk; ++k) x.piece[k] = made<T>(x.piece[k], make, numbers.piece(k, at)...);
#pragma unroll
    for (int k = first; k < first + chunk; ++k)
      if (at.within(k)) write(out + at.column(k), x.piece[k]);
  }
  if constexpr (cut == Cut::inner)
    if (at.edge >= 0) out[at.edge] = T(make(float(x.edge), numbers.number(at.edge)...));
  x.store_ends(out, at);
}

}  // namespace trifold
