// Launching kernels whose rows stream through shared memory (team_stream.cuh).
#pragma once

#include "row_teams.h"
#include "team_stream.cuh"

#include <numeric>
#include <optional>

namespace trifold {

// All choices of a kernel that streams have the same code.
struct StreamModes {
  template <class>
  using of = Mode<>;
};

// How many teams process a matrix's rows, and the number of classes of rows with the same offset from boundaries of
// `boundary` bytes.
struct AlikeRows {
  int64_t teams;
  int64_t classes;
  int boundary;
};

// For ragged rows of `columns` elements of `bytes` bytes, where `most` teams fit on the GPU at once: boundaries up to a
// cache line, if that hardly reduces the number of teams; in the end several times as many teams as fit.
inline AlikeRows share_alike(int64_t rows, int64_t columns, int64_t bytes, int64_t most) {
  if (rows <= most) return {rows, rows, line_bytes};
  for (int boundary = line_bytes;; boundary /= 2) {
    const int64_t elements = boundary / bytes, classes = rows_apart(columns, elements);
    const int64_t teams = teams_alike(most, columns, elements);
    if (teams >= most - most / 16) return {teams, classes, boundary};
    if (boundary == vector_bytes) return {std::lcm(most, classes), classes, boundary};
  }
}

// Sets the counters from which teams claim rows to 0. In a separate launch, since a kernel's blocks start in no
// particular order; on an H200 it takes about a microsecond.
__global__ inline void begin_counts_kernel(int* counters) {
  let_later_kernels_begin();
  wait_for_earlier_kernels();
  counters[threadIdx.x] = 0;
}

// Launches the kernel of a choice, if clusters of its blocks hold the rows: use.template operator()<cut, Choice>(start)
// calls start.template operator()<Kernel>(args...), which adds a last argument: how teams share the rows.
template <Cut cut, class Choice, class T, class Use>
bool launch_team_stream(Stream stream, const Rows& x, Use use) {
  if constexpr (!gpu_paths) {
    return false;
  } else {
    constexpr int64_t most_behind = cut == Cut::whole ? 0 : line_bytes / int64_t{sizeof(T)} - 1;
    const int64_t rows = x.count, pieces = pieces_of<T>(x.columns + most_behind, Cut::whole);
    const auto shape = ClusterShape::of<Choice>(pieces);
    if (!shape.exists(stream) || shape.blocks > Choice::most_blocks || rows > most_blocks / 2) return false;
    const auto blocks = static_cast<unsigned>(shape.blocks);
    const auto shared = static_cast<std::size_t>(Choice::bytes(static_cast<int>(shape.threads)));
    bool fits = false;
    use.template operator()<cut, Choice>([&]<auto Kernel>(auto... args) {
      const int64_t most = resident_clusters<Kernel>(shape.block(), shared, blocks,
                                                     static_cast<std::size_t>(Choice::bytes(Choice::threads)));
      fits = most > 0;
      if (!fits) return;
      const AlikeRows alike = cut == Cut::whole ? AlikeRows{std::min(rows, most), 1, vector_bytes}
                                                : share_alike(rows, x.columns, sizeof(T), most);
      StreamedRows share{nullptr, static_cast<int>(rows), static_cast<int>(alike.teams), alike.boundary};
      std::optional<Tensor> counters;
      if (rows > Choice::slots * alike.teams) {
        share.classes = static_cast<int>(alike.classes);
        counters = scratch<T, int>(x.tensor, alike.classes);
        share.counters = reinterpret_cast<int*>(mutable_data<T>(*counters));
        launch_early<begin_counts_kernel>(stream, dim3(1), dim3(static_cast<unsigned>(alike.classes)), 0,
                                          share.counters);
      }
      launch_clusters<Kernel>(stream, dim3(static_cast<unsigned>(alike.teams * shape.blocks)), shape.block(), shared,
                              blocks, args..., share);
    });
    return fits;
  }
}

}  // namespace trifold
