// Shared by the forward kernels of the norms that hold rows in the registers of a team (row_teams.cuh).
#pragma once

#include "moments.cuh"

namespace trifold {

// When the parameters are read: together with the row, so that no thread waits for them; or once the row's sums are
// known, into registers that are free again.
enum class Parameters { early, late };

template <Team team, int pieces, int threads, int blocks, Parameters when, bool edges = false>
struct NormTeam : TeamChoice<team, pieces, threads, blocks, edges> {
  static constexpr bool early = when == Parameters::early;
  // Parameters that are read late are loaded this many pieces at a time.
  static constexpr int chunk = early ? pieces : std::min(pieces, 4);
  static_assert(pieces % chunk == 0);
};
template <Team team, int pieces, int threads, int blocks, Parameters when>
using NormTeamWithEdges = NormTeam<team, pieces, threads, blocks, when, true>;

// Several rows for each team that is part of a warp, or a warp. A thread has the same columns of all of them: it reads
// the parameters once, and fewer blocks start, of which each takes 1.2 ns on an H200.
template <Team team, int rows_, int pieces, int threads, int blocks>
struct NormRows : NormTeam<team, pieces, threads, blocks, Parameters::early> {
  static constexpr int rows = rows_;
  static_assert(!has_warps(team));
};

// Clusters of two teams with two rows each. The parameters are copied to both, once for all four rows
// (column_copies.cuh). The cluster has at most `most` blocks.
template <int pieces, int threads, int blocks, int most_, bool edges = false>
struct NormPair : TeamChoice<Team::cluster, pieces, threads, blocks, edges> {
  static constexpr bool early = false;
  static constexpr int chunk = 1, rows = 2, mates = 2, most_in_cluster = most_;

  // If a thread's pieces do not begin at boundaries one more vector is read, and if the parameters do not, one more is
  // copied. Destinations are whole lines of memory: other copies take longer.
  static constexpr int vectors_a_line = line_bytes / vector_bytes;
  static constexpr int more = edges ? vectors_a_line : 0;
  static __host__ __device__ constexpr int vectors(int block) { return pieces * block + more; }
  static constexpr int bytes(int block) { return most_copies * vectors(block) * vector_bytes; }
};
template <int pieces, int threads, int blocks, int most>
using NormPairWithEdges = NormPair<pieces, threads, blocks, most, true>;

// The first row of a team of RowsOfTeam: at least `rows`, the number of all, if the team has none.
template <int R>
__device__ __forceinline__ int64_t first_of_team(int64_t team, int apart) {
  return R > 1 ? team + (team & -int64_t{apart}) * (R - 1) : team;
}

// The R rows of team number `team`. Teams 0 … apart - 1 have rows 0 … apart · R - 1, and so on: those of a team are
// `apart`, a power of two, from each other, and have the same offset from a 16-byte boundary. A team with fewer rows
// processes one of them repeatedly, and one without any the last row of all, and they write the same values.
template <int R>
struct RowsOfTeam {
  int64_t row[R];
  bool none;

  __device__ __forceinline__ RowsOfTeam(int64_t team, int64_t rows, int apart) {
    row[0] = first_of_team<R>(team, apart);
    none = row[0] >= rows;
    if (R > 1) row[0] = std::min(row[0], rows - 1);
#pragma unroll
    for (int j = 1; j < R; ++j) row[j] = row[j - 1] + apart < rows ? row[j - 1] + apart : row[j - 1];
  }

  // The columns that the team processes: a team without a row, which shares a warp or a block with others, has none.
  template <Team team>
  __device__ __forceinline__ int columns(int columns) const {
    return !has_warps(team) && none ? 0 : columns;
  }

  // The addresses of the rows, in a matrix whose rows begin `stride` apart.
  template <class T>
  __device__ __forceinline__ Pack<T*, R> in(T* first, int64_t stride) const {
    Pack<T*, R> begin;
#pragma unroll
    for (int j = 0; j < R; ++j) begin.value[j] = first + row[j] * stride;
    return begin;
  }
};

// A piece of make(element, number...), with the parameters of each element's column.
template <class T, class Make, class... Numbers>
__device__ __forceinline__ Packed<T> made(const Packed<T>& x, Make make, const Numbers&... numbers) {
  return pack<T>([&](int i) { return make(x[i], numbers[i]...); });
}

// The same place, if the pieces of a warp are contiguous: those of a thread are then 512 bytes apart, a constant.
template <class Choice>
__device__ __forceinline__ TeamPlace in_warps(TeamPlace place) {
  if constexpr (has_warps(Choice::team)) {
    const int lane = place.thread % warp_threads;
    place.thread = (place.thread - lane) * Choice::pieces + lane;
    place.threads = warp_threads;
  }
  return place;
}

// Writes rows. The elements of row j become make.value[j](element, number...), with the parameters of their columns, of
// type SharedByRows or CopiedNumbers.
//
// The compiler does not move a load of parameters ahead of a store, which limits how many are in registers.
template <class Choice, class T, Cut cut, int V, int R, class Make, class... Numbers>
__device__ __forceinline__ void write_rows(RowPart<T, cut, V> (&x)[R], const Pack<T*, R>& out, const RowCut<T, cut>& at,
                                           const Pack<Make, R>& make, const Numbers&... numbers) {
  (numbers.wait(), ...);
  const auto make_piece = [&](int k, const auto&... own) {
#pragma unroll
    for (int j = 0; j < R; ++j) x[j].piece[k] = made<T>(x[j].piece[k], make.value[j], own...);
  };
  const auto write_all = [&](auto... of_edge) {
#pragma unroll
    for (int first = 0; first < V; first += Choice::chunk) {
#pragma unroll
      for (int k = first; k < first + Choice::chunk; ++k) make_piece(k, numbers.piece(k, at)...);
#pragma unroll
      for (int j = 0; j < R; ++j)
#pragma unroll
        for (int k = first; k < first + Choice::chunk; ++k)
          if (at.within(k))
            write(out.value[j] + at.column(k), x[j].piece[k]);  // trifold: allow race of writes, all the same
    }
    if (cut == Cut::inner && at.edge >= 0)
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const T result(make.value[j](float(x[j].edge), of_edge...));
        out.value[j][at.edge] = result;  // trifold: allow race of writes, all the same
      }
  };
  write_all((cut == Cut::inner && at.edge >= 0 ? numbers.number(at.edge) : 0.0f)...);
#pragma unroll
  for (int j = 0; j < R; ++j) x[j].store_ends(out.value[j], at);
}

}  // namespace trifold
