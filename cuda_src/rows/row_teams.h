// Launching kernels whose teams hold rows in registers (row_teams.cuh).
#pragma once

#include <trifold/choices.h>
#include <trifold/rows.h>

#include "row_parts.cuh"

#include <bit>
#include <numeric>

namespace trifold {

// The first row of a tensor, and the distance between its rows.
template <class T>
struct RowsAt {
  const T* first;
  int64_t stride;
};

// How rows can be cut, given all tensors of a kernel.
template <class T>
Cut row_cut(int64_t columns, std::initializer_list<RowsAt<T>> tensors) {
  for (const auto& [first, stride] : tensors)
    if (!in_pieces(first, stride, columns)) return Cut::ragged;
  return Cut::whole;
}

// Calls use.template operator()<cut>() for a cut that is known only at run time.
template <class Use>
bool with_cut(Cut cut, Use use) {
  return cut == Cut::whole ? use.template operator()<Cut::whole>() : use.template operator()<Cut::ragged>();
}

// The most pieces into which a row is cut.
template <class T>
int64_t pieces_of(int64_t columns, Cut cut) {
  if (cut == Cut::inner) return columns / Vector<T>::size;
  return ceil_div(columns + (cut == Cut::whole ? 0 : Vector<T>::size - 1), Vector<T>::size);
}

// Choices for kernels that hold rows in registers or stream them, in order of increasing length.
template <class... Choices>
struct Teams {};
template <class... Choices>
struct Streams {};

// The code of a kernel of teams depends on the kind of team, and on whether rows have edges.
struct TeamModes {
  template <class Choice>
  using of = Mode<Choice::team, Choice::edges>;
};

// The number of threads with `pieces` each that hold `all`, in whole warps.
inline int64_t threads_for(int64_t all, int64_t pieces) {
  return ceil_div(ceil_div(all, pieces), warp_threads) * warp_threads;
}
// The least number of blocks, a power of two, that hold `all` with at most `most` each.
inline int64_t blocks_for(int64_t all, int64_t most) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(all, most))));
}

// The blocks, and threads in a block, of the cluster that holds a row of `pieces` pieces.
struct ClusterShape {
  int64_t blocks, threads;

  template <class Choice>
  static ClusterShape of(int64_t pieces) {
    const int64_t blocks = blocks_for(pieces, int64_t{Choice::pieces} * Choice::threads);
    return {blocks, threads_for(pieces, Choice::pieces * blocks)};
  }
  // Whether the GPU has such clusters: those that start kernels early have clusters.
  bool exists(Stream stream) const { return stream.starts_early && blocks <= most_blocks_a_cluster; }
  dim3 block() const { return dim3(static_cast<unsigned>(threads)); }
};

// The least distance, in rows, between rows of `columns` contiguous elements with the same offset from a boundary of
// `boundary` elements; a power of two if that is one.
inline int64_t rows_apart(int64_t columns, int64_t boundary) {
  return boundary / std::gcd(boundary, columns);
}
template <class T>
int64_t rows_apart(int64_t columns) {  // from 16-byte boundaries
  return rows_apart(columns, Vector<T>::size);
}

// The most teams, up to `most`, that can process rows round-robin so that all rows of a team have the same offset.
inline int64_t teams_alike(int64_t most, int64_t columns, int64_t boundary) {
  return most - most % rows_apart(columns, boundary);
}
// The number of teams for `rows` rows, if each holds `held` at once, at a distance of `apart` rows.
inline int64_t teams_of(int64_t rows, int64_t held, int64_t apart) {
  return rows / (held * apart) * apart + std::min(rows % (held * apart), apart);
}

// Launches the kernel of a choice for `teams` teams; returns false if a team cannot hold rows of `pieces` pieces.
template <Cut cut, class Choice, class Use>
bool launch_teams(Stream stream, int64_t teams, int64_t pieces, Use use) {
  if constexpr (Choice::team == Team::cluster && !gpu_paths) {
    return false;
  } else if constexpr (Choice::team == Team::cluster) {
    const auto shape = ClusterShape::of<Choice>(pieces);
    const int64_t blocks = shape.blocks * Choice::mates, clusters = ceil_div(teams, Choice::mates);
    if (!shape.exists(stream) || blocks > Choice::most_in_cluster || clusters > most_blocks / blocks) return false;
    if (100 * pieces < Choice::filled * Choice::pieces * shape.blocks * shape.threads) return false;
    const auto shared = static_cast<std::size_t>(Choice::bytes(static_cast<int>(shape.threads)));
    bool fits = false;
    use.template operator()<cut, Choice>([&]<auto Kernel>(auto... args) {
      fits = resident_clusters<Kernel>(shape.block(), shared, static_cast<unsigned>(blocks),
                                       static_cast<std::size_t>(Choice::bytes(Choice::threads))) > 0;
      if (fits)
        launch_clusters<Kernel>(stream, dim3(static_cast<unsigned>(clusters * blocks)), shape.block(), shared,
                                static_cast<unsigned>(blocks), args...);
    });
    return fits;
  } else {
    constexpr int lanes = team_lanes(Choice::team);
    const bool alone = Choice::team == Team::block;
    const int64_t blocks = alone ? teams : ceil_div(teams, block_of_warps / lanes);
    const int64_t threads = alone ? threads_for(pieces, Choice::pieces) : block_of_warps;
    if (pieces > int64_t{Choice::pieces} * (alone ? Choice::threads : lanes) || blocks > most_blocks) return false;
    use.template operator()<cut, Choice>([&]<auto Kernel>(auto... args) {
      launch_early<Kernel>(stream, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), 0,
                           args...);
    });
    return true;
  }
}

// Calls try_one.template operator()<own, Choice>() for one choice after the other, until one returns true; `own` is how
// the choice's kernel cuts such rows.
template <Cut cut, class... Choices, class Try>
bool any_of(Teams<Choices...>, Try try_one) {
  return (try_one.template operator()<cut == Cut::ragged && Choices::edges ? Cut::inner : cut, Choices>() || ...);
}

// Launches the first kernel whose teams can hold rows of `columns` columns with this cut: calls use.template
// operator()<cut, Choice>(start), which must call start.template operator()<Kernel>(args...). False: there is none, and
// nothing was launched.
template <class T, Cut cut, class Choices, class Use>
bool launch_cut_teams(Choices choices, Stream stream, int64_t rows, int64_t columns, Use use) {
  return any_of<cut>(choices, [&]<Cut own, class Choice>() {
    const int64_t apart = rows_apart<T>(columns);
    // If there are too few rows for a cluster's teams, teams of one row each are faster.
    if (Choice::rows > 1 && rows < Choice::rows * Choice::mates * apart) return false;
    return launch_teams<own, Choice>(stream, teams_of(rows, Choice::rows, apart), pieces_of<T>(columns, own), use);
  });
}

template <class T, class Choices, class Use>
bool launch_row_teams(Choices choices, Stream stream, int64_t rows, int64_t columns, Cut cut, Use use) {
  return with_cut(cut, [&]<Cut own>() { return launch_cut_teams<T, own>(choices, stream, rows, columns, use); });
}

}  // namespace trifold
