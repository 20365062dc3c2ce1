// Launching the forward kernels of a norm: of short rows, some at once (row_groups.cuh), of rows in registers
// (norm_rows.cuh), and of rows that stream (team_stream.cuh).
#pragma once

#include "norm_rows.cuh"
#include "row_groups.cuh"
#include "row_teams.h"
#include "team_stream.h"

namespace trifold {

// Ways to hold groups of short rows.
template <class... Choices>
struct Groups {};

// A kernel of groups has other code where a block has several warps, whose sums meet in shared memory.
struct GroupModes {
  template <class Choice>
  using of = Mode<(Choice::warps > 1)>;
};

// A norm's kernel of teams has other code for another kind of team, for rows with edges, for teams that share a
// cluster, for sums by tensor cores, and by when the numbers of each column are read: at once, or in chunks.
struct NormTeamModes {
  template <class Choice>
  using of = Mode<Choice::team, Choice::edges, Choice::mates, Choice::by_tensor, Choice::early,
                  Choice::chunk == Choice::pieces>;
};

// Launches the first kernel whose threads hold such whole rows, if those fill more than half of the threads' pieces:
// use.template operator()<Choice>(start) calls start.template operator()<Kernel>(args...).
template <class T, class... Choices, class Use>
bool launch_groups(Groups<Choices...>, Stream stream, int64_t rows, int64_t columns, Use use) {
  const int64_t pieces = pieces_of<T>(columns, Cut::whole);
  const auto try_one = [&]<class Choice>() {
    constexpr int64_t held = int64_t{Choice::pieces} * Choice::threads;
    const int64_t blocks = ceil_div(rows, Choice::rows);
    if (pieces > held || pieces * 2 <= held || blocks > most_blocks) return false;
    use.template operator()<Choice>([&]<auto Kernel>(auto... args) {
      launch_early<Kernel>(stream, dim3(static_cast<unsigned>(blocks)), dim3(Choice::threads), 0, args...);
    });
    return true;
  };
  return (try_one.template operator()<Choices>() || ...);
}

// The first of these choices that holds rows of x and y which are cut so, if they begin equally far behind a boundary.
template <Cut cut, class T, class... Choices, class Use>
bool launch_norm_streams(Streams<Choices...>, Stream stream, const Rows& x, const T* y, Use use) {
  const auto behind = [](const T* first) { return reinterpret_cast<uintptr_t>(first) % vector_bytes; };
  if (behind(x.data<T>()) != behind(y) || (x.stride - x.columns) % Vector<T>::size != 0) return false;
  return (launch_team_stream<cut, Choices, T>(stream, x, use) || ...);
}

// For how many bytes of a row teams are asked, as measured on an H200: a longer one's parameters, which each row reads
// anew, would take as long as the row. Less in a build with one choice of each mode, which is to stream rows that the
// CPU is soon done with.
inline constexpr int64_t most_bytes_held = (one_of_each_mode ? 66 : 256) << 10;

// Launches the first kernel that takes rows of x and y which are cut so. `Choices` has Groups and teams of Short
// and of Long whole rows and LongStreams, teams of ShortRagged ones and of longer, Ragged ones, and RaggedStreams.
// False: there is none.
template <class Choices, class T, class Grouped, class Registers, class Streaming>
bool launch_norm(Stream stream, const Rows& x, const T* y, Cut cut, Grouped in_groups, Registers in_registers,
                 Streaming streaming) {
  const int64_t rows = x.count, columns = x.columns;
  const bool held = columns * static_cast<int64_t>(sizeof(T)) <= most_bytes_held;
  const auto hold = [&]<Cut cut>(auto choices) {
    return launch_cut_teams<T, cut>(built_of<NormTeamModes>(choices), stream, rows, columns, in_registers);
  };
  const auto stream_through = [&]<Cut cut>(auto choices) {
    return launch_norm_streams<cut>(built_of<StreamModes>(choices), stream, x, y, streaming);
  };
  if (cut == Cut::whole)
    return launch_groups<T>(built_of<GroupModes>(typename Choices::Groups{}), stream, rows, columns, in_groups) ||
           hold.template operator()<Cut::whole>(typename Choices::Short{}) ||
           (held && hold.template operator()<Cut::whole>(typename Choices::Long{})) ||
           stream_through.template operator()<Cut::whole>(typename Choices::LongStreams{});
  return hold.template operator()<Cut::ragged>(typename Choices::ShortRagged{}) ||
         (held && hold.template operator()<Cut::ragged>(typename Choices::Ragged{})) ||
         stream_through.template operator()<Cut::ragged>(typename Choices::RaggedStreams{});
}

}  // namespace trifold
