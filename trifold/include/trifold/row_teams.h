// Launching kernels whose teams hold rows in registers (row_teams.cuh).
#pragma once

#include <trifold/choices.h>
#include <trifold/rows.h>
#include <trifold/row_teams.cuh>

#include <bit>
#include <numeric>

namespace trifold {

// Ways to hold rows in registers or to stream them, shorter rows' first.
template <class... Choices>
struct Teams {};
template <class... Choices>
struct Streams {};

// A kernel of teams has other code for another kind of team, and for rows with edges.
struct TeamModes {
  template <class Choice>
  using of = Mode<Choice::team, Choice::edges>;
};

// So many threads that each has `pieces` of `all`, in whole warps.
inline int64_t threads_for(int64_t all, int64_t pieces) {
  return ceil_div(ceil_div(all, pieces), warp_threads) * warp_threads;
}
// So few blocks, a power of two, that each has `most` of `all`.
inline int64_t blocks_for(int64_t all, int64_t most) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(all, most))));
}

// Of a choice's kernel, how many blocks of how many threads are the cluster that holds a row of so many pieces.
struct ClusterShape {
  int64_t blocks, threads;

  template <class Choice>
  static ClusterShape of(int64_t pieces) {
    const int64_t blocks = blocks_for(pieces, int64_t{Choice::pieces} * Choice::threads);
    return {blocks, threads_for(pieces, Choice::pieces * blocks)};
  }
  // Whether there are such clusters: GPUs that start kernels early have some.
  bool exists(Stream stream) const { return stream.starts_early && blocks <= most_blocks_a_cluster; }
  dim3 block() const { return dim3(static_cast<unsigned>(threads)); }
};

// How far apart rows of `columns` elements are at least that follow one another and begin alike, as seen from
// boundaries so many elements apart: where these are powers of two, so is that.
inline int64_t rows_apart(int64_t columns, int64_t boundary) {
  return boundary / std::gcd(boundary, columns);
}
template <class T>
int64_t rows_apart(int64_t columns) {  // as seen from 16-byte boundaries
  return rows_apart(columns, Vector<T>::size);
}

// The most teams, of `most`, that take such rows in turns so that those of a team begin alike.
inline int64_t teams_alike(int64_t most, int64_t columns, int64_t boundary) {
  return most - most % rows_apart(columns, boundary);
}
// How many teams take so many rows, `held` at once, which are so far `apart`.
inline int64_t teams_of(int64_t rows, int64_t held, int64_t apart) {
  return rows / (held * apart) * apart + std::min(rows % (held * apart), apart);
}

// Launches the kernel of a choice for so many teams, if they hold rows of so many pieces.
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

// try_one.template operator()<own, Choice>() of one choice after the other, until one is true; `own` is how a choice's
// kernel takes rows that are cut so.
template <Cut cut, class... Choices, class Try>
bool any_of(Teams<Choices...>, Try try_one) {
  return (try_one.template operator()<cut == Cut::ragged && Choices::edges ? Cut::inner : cut, Choices>() || ...);
}

// Launches the first kernel whose teams hold rows of so many columns that are cut so:
// use.template operator()<cut, Choice>(start), where start.template operator()<Kernel>(args...) launches. False: there
// is none, and nothing was launched.
template <class T, Cut cut, class Choices, class Use>
bool launch_cut_teams(Choices choices, Stream stream, int64_t rows, int64_t columns, Use use) {
  return any_of<cut>(choices, [&]<Cut own, class Choice>() {
    const int64_t apart = rows_apart<T>(columns);
    // Where a cluster's teams lacked rows, teams of one row each are faster.
    if (Choice::rows > 1 && rows < Choice::rows * Choice::mates * apart) return false;
    return launch_teams<own, Choice>(stream, teams_of(rows, Choice::rows, apart), pieces_of<T>(columns, own), use);
  });
}

template <class T, class Choices, class Use>
bool launch_row_teams(Choices choices, Stream stream, int64_t rows, int64_t columns, Cut cut, Use use) {
  return with_cut(cut, [&]<Cut own>() { return launch_cut_teams<T, own>(choices, stream, rows, columns, use); });
}

}  // namespace trifold
