// Plans (plan.h) of kernels whose rows stream through shared memory (row_stream.cuh).
#pragma once

#include "plan.h"
#include "row_stream.cuh"

namespace trifold {

// The columns that clusters of this many blocks of a shape hold.
template <class Shape_, int blocks_>
struct ShapeChoice {
  using Shape = Shape_;
  static constexpr int blocks = blocks_;
};

// Choices in the order in which they are tried.
template <class... Choices>
struct Shapes {};

// The values that decide the choice of a kernel that streams rows.
template <class... Args>
struct StreamKernel {
  int64_t columns;  // of a row, per block
  int blocks, teams, warps_a_team, threads;
  std::size_t shared;
  int (*resident)(dim3 block, std::size_t shared, unsigned blocks_a_cluster, std::size_t most_shared);
  int (*registers)();
  void (*start)(const Plan<Args...>&, Stream, Args...);
};

template <auto Kernel, class T, class Choice, class... Args>
constexpr StreamKernel<Args...> stream_kernel(void (*)(Args...)) {
  using S = typename Choice::Shape;
  return {S::template columns<T>,
          Choice::blocks,
          S::teams,
          S::warps,
          S::block,
          S::bytes,
          &resident_clusters<Kernel>,
          &registers_a_thread<Kernel>,
          &Plan<Args...>::template clusters<Kernel>};
}

template <class Kernels, class T, bool edges, class... Choices>
constexpr auto stream_kernels(Shapes<Choices...>) {
  return std::array{stream_kernel<Kernels::template kernel<edges, typename Choices::Shape>, T, Choices>(
      Kernels::template kernel<edges, typename Choices::Shape>)...};
}

// How a matrix's rows are divided among clusters.
struct StreamShares {
  int64_t clusters, rows_a_team;
  int share;     // columns per block of a cluster: whole lines of memory, if the row consists of these
  int boundary;  // all rows of a team have the same offset from multiples of this many elements
};

// Rows of a team have the same offset from the widest boundary for which this costs hardly any cluster: a warp's
// accesses then cover whole sectors of memory, or whole lines. If even 16-byte boundaries cost many, a kernel in
// `waves` has several times as many clusters as are resident. Nothing if no cluster is left.
inline std::optional<StreamShares> share_rows_of_stream(int64_t most, int teams, int blocks, int64_t block_columns,
                                                        int64_t rows, int64_t columns, int64_t size, bool edges,
                                                        bool waves) {
  const int64_t line = size * (line_bytes / vector_bytes);
  int64_t boundary = line, clusters = std::min(most, ceil_div(rows, teams));
  if (edges && rows > clusters * teams) {
    const auto apart = [&] { return rows_apart(teams * columns, boundary); };
    const auto too_few = [&] { return clusters % apart() > clusters / 16; };
    while (boundary > size && too_few()) boundary /= 2;
    clusters = waves && too_few() ? std::min(rows, std::lcm(clusters, apart())) : clusters - clusters % apart();
  }
  if (clusters == 0) return std::nullopt;
  const int64_t seen = columns + (edges ? boundary - 1 : 0);  // from the boundary before the row
  const int64_t share = std::min(ceil_div(seen, blocks * line) * line, block_columns);
  return StreamShares{clusters, ceil_div(rows, clusters * teams), static_cast<int>(share), static_cast<int>(boundary)};
}

// A plan, and the shares, which its kernel has as arguments.
template <class... Args>
struct StreamPlan {
  Plan<Args...> plan;
  StreamShares shares;
  const StreamKernel<Args...>* kernel;
};

// The plan with the first of these kernels that holds such rows, whose vectors have `size` elements. With `edges`, rows
// begin anywhere.
template <std::size_t N, class... Args>
std::optional<StreamPlan<Args...>> plan_stream(const std::array<StreamKernel<Args...>, N>& kernels, Stream stream,
                                               int64_t rows, int64_t columns, int64_t size, bool edges,
                                               bool waves = false) {
  if (!stream.starts_early) return std::nullopt;
  const int64_t held = columns + (edges ? size * (line_bytes / vector_bytes) - 1 : 0);
  for (const StreamKernel<Args...>& kernel : kernels) {
    const auto blocks = static_cast<unsigned>(kernel.blocks);
    const dim3 block(static_cast<unsigned>(kernel.threads));
    if (held > kernel.columns * kernel.blocks) continue;
    const int most = kernel.resident(block, kernel.shared, blocks, kernel.shared);
    if (most == 0) continue;
    const auto shares =
        share_rows_of_stream(most, kernel.teams, kernel.blocks, kernel.columns, rows, columns, size, edges, waves);
    if (!shares) continue;
    const dim3 grid(static_cast<unsigned>(shares->clusters * kernel.blocks));
    return StreamPlan<Args...>{{kernel.start, grid, block, kernel.shared, blocks, most}, *shares, &kernel};
  }
  return std::nullopt;
}

// Whether rows of `columns` elements that begin at `first`, at this distance, have the same offset from 16-byte
// boundaries as contiguous ones: streams need that in all their matrices.
template <class T>
bool streams_aligned(const T* first, int64_t stride, int64_t columns) {
  constexpr int64_t size = Vector<T>::size;
  return elements_to_boundary(first) == 0 && (stride - columns) % size == 0 &&
         (columns % size == 0 || stride >= columns);
}

}  // namespace trifold
