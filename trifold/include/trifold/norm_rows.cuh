// What the forward kernels of the norms share that hold a row in the registers of a team (row_teams.cuh).
#pragma once

#include <trifold/moments.cuh>

namespace trifold {

// When the numbers of each column are read: together with the row, so that nobody waits for them; or once the row's
// sums are known, into registers that are free again; or those of the first pieces early, the others late.
enum class Parameters { early, late, ahead };

// `rows` of them are held by a team at once. Of numbers that are read late, those of `at_once` pieces are in registers
// at the same time.
template <Team team, int pieces, int threads, int blocks, Parameters when, bool edges = false, int rows_ = 1,
          int at_once_ = 4>
struct NormTeam : TeamChoice<team, pieces, threads, blocks, edges> {
  static constexpr int rows = rows_;
  static constexpr bool early = when == Parameters::early;
  static constexpr int chunk = early ? pieces : std::min(pieces, at_once_);
  static constexpr int held = when == Parameters::late ? 0 : chunk;
  static_assert(pieces % chunk == 0);
};
template <Team team, int pieces, int threads, int blocks, Parameters when>
using NormTeamWithEdges = NormTeam<team, pieces, threads, blocks, when, true>;

// The R rows of a team: those of a group begin alike behind a 16-byte boundary, `apart`, a power of two, from each
// other. Where the matrix has no such row any more, a team takes its last one again: it writes the same there.
template <int R>
struct RowsOfTeam {
  int64_t row[R];

  __device__ __forceinline__ RowsOfTeam(int64_t team, int64_t rows, int apart) {
    row[0] = team;
    if constexpr (R > 1) row[0] += (team & -static_cast<int64_t>(apart)) * (R - 1);
#pragma unroll
    for (int j = 1; j < R; ++j) row[j] = row[j - 1] + apart < rows ? row[j - 1] + apart : row[j - 1];
  }

  // Where they begin, of rows that begin `stride` apart.
  template <class T>
  __device__ __forceinline__ Pack<T*, R> in(T* first, int64_t stride) const {
    Pack<T*, R> begin;
#pragma unroll
    for (int j = 0; j < R; ++j) begin.value[j] = first + row[j] * stride;
    return begin;
  }
};

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

// Writes rows. The elements of row j become make.value[j](element, number...),
// with those numbers of their columns, SharedByRows.
//
// Stores keep the loads of numbers that are behind them there.
template <class Choice, class T, Cut cut, int V, int R, class Make, class... Numbers>
__device__ __forceinline__ void write_rows(RowPart<T, cut, V> (&x)[R], const Pack<T*, R>& out, const RowCut<T, cut>& at,
                                           const Pack<Make, R>& make, const Numbers&... numbers) {
  const auto make_piece = [&](int k, const auto&... own) {
#pragma unroll
    for (int j = 0; j < R; ++j) x[j].piece[k] = made<T>(x[j].piece[k], make.value[j], own...);
  };
#pragma unroll
  for (int first = 0; first < V; first += Choice::chunk) {
#pragma unroll
    for (int k = first; k < first + Choice::chunk; ++k) make_piece(k, numbers.piece(k, at)...);
#pragma unroll
    for (int j = 0; j < R; ++j)
#pragma unroll
      for (int k = first; k < first + Choice::chunk; ++k)
        if (at.within(k)) write(out.value[j] + at.column(k), x[j].piece[k]);
  }
  if constexpr (cut == Cut::inner) {
    const auto make_edge = [&](auto... own) {
#pragma unroll
      for (int j = 0; j < R; ++j) out.value[j][at.edge] = T(make.value[j](float(x[j].edge), own...));
    };
    if (at.edge >= 0) make_edge(numbers.number(at.edge)...);
  }
#pragma unroll
  for (int j = 0; j < R; ++j) x[j].store_ends(out.value[j], at);
}

}  // namespace trifold
