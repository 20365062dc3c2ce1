// Launching the forward kernels of a norm: of short rows, some at once (row_groups.cuh), of rows in registers
// (norm_rows.cuh), and of rows that stream (norm_stream.cuh).
#pragma once

#include <trifold/rows.h>
#include <trifold/norm_rows.cuh>
#include <trifold/norm_stream.cuh>
#include <trifold/row_groups.cuh>

#include <numeric>

namespace trifold {

// Ways to hold groups of short rows.
template <class... Choices>
struct Groups {};

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

// How many teams take a matrix's rows in turns, and from boundaries so many bytes apart those of a team begin alike.
struct AlikeRows {
  int64_t teams;
  int boundary;
};

// For ragged rows of `columns` elements of so many bytes, as `most` teams fit on the GPU at once: boundaries as wide as
// a line of memory, as long as that takes next to no team away; at last so many teams that they fit some times over.
inline AlikeRows share_alike(int64_t rows, int64_t columns, int64_t bytes, int64_t most) {
  constexpr int line = 128;
  if (rows <= most) return {rows, line};
  for (int boundary = line;; boundary /= 2) {
    const int64_t elements = boundary / bytes, teams = teams_alike(most, columns, elements);
    if (teams >= most - most / 16) return {teams, boundary};
    if (boundary == vector_bytes) return {std::lcm(most, elements / std::gcd(elements, columns)), boundary};
  }
}

// Launches the kernel of a choice, if clusters of its blocks hold such rows of y: use.template operator()<cut,
// Choice>(start) calls start.template operator()<Kernel>(args...), whose last argument is then the boundary.
template <Cut cut, class Choice, class T, class Use>
bool launch_norm_stream(Stream stream, int64_t rows, int64_t columns, Use use) {
#ifdef __CUDACC__
  constexpr int64_t most_behind = cut == Cut::whole ? 0 : 128 / int64_t{sizeof(T)} - 1;
  const int64_t pieces = pieces_of<T>(columns + most_behind, Cut::whole);
  const auto shape = ClusterShape::of<Choice>(pieces);
  if (!shape.exists(stream) || rows > most_blocks) return false;
  const auto blocks = static_cast<unsigned>(shape.blocks);
  const auto shared = static_cast<std::size_t>(Choice::bytes(static_cast<int>(shape.threads)));
  bool fits = false;
  use.template operator()<cut, Choice>([&]<auto Kernel>(auto... args) {
    const int64_t most = resident_clusters<Kernel>(shape.block(), shared, blocks,
                                                   static_cast<std::size_t>(Choice::bytes(Choice::threads)));
    fits = most > 0;
    if (!fits) return;
    const AlikeRows alike =
        cut == Cut::whole ? AlikeRows{std::min(rows, most), vector_bytes} : share_alike(rows, columns, sizeof(T), most);
    launch_clusters<Kernel>(stream, dim3(static_cast<unsigned>(alike.teams * shape.blocks)), shape.block(), shared,
                            blocks, args..., alike.boundary);
  });
  return fits;
#else
  return false;
#endif
}

// The first of these choices that holds rows of x and y which are cut so, if they begin equally far behind a boundary.
template <Cut cut, class T, class... Choices, class Use>
bool launch_norm_streams(Streams<Choices...>, Stream stream, const Rows& x, const T* y, Use use) {
  const auto behind = [](const T* first) { return reinterpret_cast<uintptr_t>(first) % vector_bytes; };
  if (behind(x.data<T>()) != behind(y) || (x.stride - x.columns) % Vector<T>::size != 0) return false;
  return (launch_norm_stream<cut, Choices, T>(stream, x.count, x.columns, use) || ...);
}

// As measured on an H200 (docs/performance.md): whole rows that are longer than all that teams hold; and for how many
// bytes of a row teams are asked. A longer one's parameters, which each row reads anew, would take as long as the row.
using LongStreams = Streams<StreamChoice<8, 3, 512, 1>>;
inline constexpr int64_t most_bytes_held = 256 << 10;

// Launches the first kernel that takes rows of x and y which are cut so. `Choices` has Groups and teams of Short
// and of Long whole rows, teams of ShortRagged ones and of longer, Ragged ones, and RaggedStreams. False: there is
// none.
template <class Choices, class T, class Grouped, class Registers, class Streaming>
bool launch_norm(Stream stream, const Rows& x, const T* y, Cut cut, Grouped in_groups, Registers in_registers,
                 Streaming streaming) {
  const int64_t rows = x.count, columns = x.columns;
  const bool held = columns * static_cast<int64_t>(sizeof(T)) <= most_bytes_held;
  if (cut == Cut::whole)
    return launch_groups<T>(typename Choices::Groups{}, stream, rows, columns, in_groups) ||
           launch_cut_teams<T, Cut::whole>(typename Choices::Short{}, stream, rows, columns, in_registers) ||
           (held && launch_cut_teams<T, Cut::whole>(typename Choices::Long{}, stream, rows, columns, in_registers)) ||
           launch_norm_streams<Cut::whole>(LongStreams{}, stream, x, y, streaming);
  return launch_cut_teams<T, Cut::ragged>(typename Choices::ShortRagged{}, stream, rows, columns, in_registers) ||
         (held && launch_cut_teams<T, Cut::ragged>(typename Choices::Ragged{}, stream, rows, columns, in_registers)) ||
         launch_norm_streams<Cut::ragged>(typename Choices::RaggedStreams{}, stream, x, y, streaming);
}

}  // namespace trifold
