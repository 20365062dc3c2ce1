// Plans (plan.h) of the backward pass of a norm in one pass over its inputs (norms_backward.cuh).
#pragma once

#include "norms.h"
#include "norms_backward.cuh"
#include "stream_plan.h"

#include <limits>

namespace trifold {

// The shape of a kernel of norms_backward.cuh: whether g·weight of a row is kept in registers, and whether a warp's
// lanes load the mean and rstd of many rows at once.
template <class Shape, bool kept_, bool gathered_ = false>
struct BackwardShape : Shape {
  static constexpr bool kept = kept_, gathered = gathered_;
};

// Clusters of 1 to 16 blocks, of either shape. A build with one choice of each mode has clusters of up to two blocks,
// for its longest rows, so that rows which the CPU processes in little time reach all choices.
template <class Shape, class Larger>
constexpr auto clusters_of() {
  using Small = Shapes<ShapeChoice<Shape, 1>, ShapeChoice<Larger, 1>, ShapeChoice<Shape, 2>, ShapeChoice<Larger, 2>>;
  using Large = Shapes<ShapeChoice<Shape, 4>, ShapeChoice<Larger, 4>, ShapeChoice<Shape, 8>, ShapeChoice<Larger, 8>,
                       ShapeChoice<Shape, 16>, ShapeChoice<Larger, 16>>;
  return joined(Small{}, std::conditional_t<one_of_each_mode, Shapes<>, Large>{});
}

// How rows are divided, as measured on an H200, by the size of their elements: `whole` rows, and rows with edges
// (`edged`), for which fewer clusters can be used if few are resident, since rows of a team must have the same offset.
//
// Short rows use half a warp or a warp, so that no warp waits for another; longer ones 8 to 16 warps; the longest ones
// clusters. Prefetching little more than a row ahead is best: with more, the first rows arrive late, since all are
// requested at once. A row that is needed twice is kept if registers suffice and rows are whole: for half types with
// edges, keeping it took 10 to 15% longer.
template <int bytes, bool centred>
struct BackwardChoices {
  using Larger = BackwardShape<RowStreamShape<2, 7, 7, 256, 1, 3>, false>;
  using Block = BackwardShape<RowStreamShape<2, 4, 4, 256, 1, 3>, false>;
  using TwoWarps = BackwardShape<RowStreamShape<2, 4, 4, 64, 4, 3>, false>;
  using Short = Shapes<ShapeChoice<BackwardShape<RowStreamShape<2, 2, 2, 16, 32, 3>, false>, 1>,
                       ShapeChoice<BackwardShape<RowStreamShape<2, 2, 2, 32, 16, 3>, false>, 1>>;
  using WholeBlocks =
      Shapes<ShapeChoice<BackwardShape<RowStreamShape<2, 4, 4, 32, 8, 4>, false, true>, 1>, ShapeChoice<TwoWarps, 1>,
             ShapeChoice<BackwardShape<RowStreamShape<2, 2, 2, 256, 2, 3>, true>, 1>, ShapeChoice<Block, 1>,
             ShapeChoice<BackwardShape<RowStreamShape<2, 2, 2, 256, 1, 3, 2>, !centred>, 4>>;
  using EdgedBlocks =
      Shapes<ShapeChoice<BackwardShape<RowStreamShape<2, 4, 4, 32, 8, 3>, false>, 1>, ShapeChoice<TwoWarps, 1>,
             ShapeChoice<BackwardShape<RowStreamShape<2, 4, 4, 128, 2, 3>, false>, 1>, ShapeChoice<Block, 1>,
             ShapeChoice<BackwardShape<RowStreamShape<2, 2, 2, 416, 1, 4>, false>, 2>>;
  using Longest =
      Shapes<ShapeChoice<BackwardShape<RowStreamShape<2, 8, 4, 256, 1, 4>, false>, one_of_each_mode ? 2 : 16>>;

  static constexpr auto whole = joined(Short{}, WholeBlocks{}, clusters_of<Block, Larger>(), Longest{});
  static constexpr auto edged = joined(Short{}, EdgedBlocks{}, clusters_of<Block, Larger>(), Longest{});
};
template <bool centred>
struct BackwardChoices<sizeof(float), centred> {
  using Larger = BackwardShape<RowStreamShape<2, 7, 7, 256, 1, 3>, false>;
  using Block = BackwardShape<RowStreamShape<2, 4, 4, 256, 1, 4>, false>;
  using Warps = Shapes<ShapeChoice<BackwardShape<RowStreamShape<2, 2, 2, 32, 16, 3>, false>, 1>,
                       ShapeChoice<BackwardShape<RowStreamShape<2, 4, 4, 32, 8, 3>, false>, 1>,
                       ShapeChoice<BackwardShape<RowStreamShape<2, 8, 8, 32, 8, 2>, false>, 1>,
                       ShapeChoice<BackwardShape<RowStreamShape<2, 4, 4, 128, 4, 3>, false>, 1>>;
  using WholeBlocks = Shapes<ShapeChoice<BackwardShape<RowStreamShape<2, 2, 2, 512, 1, 5>, true>, 1>>;
  using LongestShape = BackwardShape<RowStreamShape<2, 16, 2, 256, 1, 13>, false>;
  using Longest = Shapes<ShapeChoice<LongestShape, one_of_each_mode ? 2 : 8>, ShapeChoice<LongestShape, 16>>;

  static constexpr auto whole = joined(Warps{}, WholeBlocks{}, clusters_of<Block, Larger>(), Longest{});
  static constexpr auto edged = joined(Warps{}, clusters_of<Block, Larger>(), Longest{});
};

// The mode of a backward kernel: whether a team is part of a warp, a warp, or a block, whether it reads its rows in
// chunks, what is kept, how the statistics of rows are loaded, and whether weights are kept as floats.
template <class T, bool centred>
struct BackwardModes {
  template <class Choice, class Shape = typename Choice::Shape>
  using of = Mode<(Shape::teams_a_warp > 1), Shape::warps == 1, Shape::teams == 1, (Shape::chunks > 1), Shape::kept,
                  Shape::gathered, floats_fit<T, Shape, centred>>;
};

template <class T, bool centred>
struct BackwardKernels {
  template <bool edges, class Shape>
  static constexpr auto kernel = norm_backward_stream_kernel<T, Shape, centred, edges>;
};

// The most rows that a team adds before its sums go to a separate part: sums of more terms lose their last bits.
inline constexpr int64_t most_rows_a_sum = 512;

// The most rows per team of a kernel so short that its launch overhead matters.
inline constexpr int64_t most_rows_of_a_short_kernel = one_of_each_mode ? 1 : 16;

// Before earlier kernels have ended, a short kernel whose teams are warps prefetches their first rows to L2: as many
// bytes as memory delivers meanwhile. With more, on an H200, some are evicted before they are read.
inline constexpr int64_t most_rows_ahead = 3, most_bytes_ahead = 13 << 20;

// The second step of the sums over rows: `count` parts of this many columns, for each of `results`. They are `pitch`
// numbers apart, each in separate lines of memory.
struct PartSums {
  int64_t count, columns, pitch, results;
  dim3 grid;

  PartSums(int64_t count, int64_t columns, int64_t results)
      : count(count),
        columns(columns),
        pitch(ceil_div(columns, line) * line),
        results(results),
        grid(static_cast<unsigned>(ceil_div(columns, add_parts_columns)), static_cast<unsigned>(results)) {}

  int64_t numbers() const { return results * count * pitch; }

  // Whether its blocks fit beside those of a kernel with this many registers per block, one on each multiprocessor: if
  // not, they crowd on the multiprocessors that finish first, and it takes longer.
  bool fits_beside(int registers, int64_t multiprocessors) const {
    return registers + add_parts_registers * add_parts_block <= 65536 && int64_t{grid.x} * grid.y <= multiprocessors;
  }

  template <class T>
  void launch(Stream stream, const float* parts, T* first, T* second, bool early) const {
    launch_early<add_parts_kernel<T>>(stream, grid, dim3(add_parts_block), 0, parts, pitch, count * pitch, first,
                                      second, static_cast<int>(count), static_cast<int>(columns), early);
  }

 private:
  static constexpr int64_t line = line_bytes / sizeof(float);
};

// Launches the first kernel as often as the limit of a team's sums requires, with this many clusters each, then the
// second.
template <class T, std::size_t N>
void launch_norm_backward(Stream stream, const StreamPlan<NormBackward<T>>& found, NormBackward<T> all,
                          const Tensor& like, const std::array<Tensor, N>& of_parameters, bool wanted) {
  const auto& [plan, shares, kernel] = found;
  const int64_t rows_a_launch = shares.clusters * kernel->teams * most_rows_a_sum;
  const int64_t launches = ceil_div(all.rows, rows_a_launch);
  const PartSums sums(launches * shares.clusters, all.columns, N);
  const Tensor parts = empty_strided(like, {wanted ? sums.numbers() : 0}, {1}, compute_dtype(like));
  // While a short kernel runs, the second step is set up, and while that runs, the next kernel. Not before larger
  // clusters, which blocks of the second step would delay.
  const bool early = wanted && kernel->blocks <= 2;
  const bool sums_early = wanted && kernel->blocks == 1 && shares.clusters == plan.resident_clusters &&
                          shares.rows_a_team <= most_rows_of_a_short_kernel &&
                          sums.fits_beside(kernel->registers() * kernel->threads, plan.resident_clusters);
  const int64_t bytes_a_round = shares.clusters * kernel->teams * 2 * all.columns * static_cast<int64_t>(sizeof(T));
  const bool prefetches = sums_early && kernel->warps_a_team == 1;
  all.part_pitch = static_cast<int>(sums.pitch);
  all.part_stride = sums.count * sums.pitch;
  all.share = shares.share;
  all.boundary = shares.boundary;
  all.early = sums_early;
  all.ahead = prefetches ? static_cast<int>(std::min(most_rows_ahead, most_bytes_ahead / bytes_a_round)) : 0;
  for (int64_t i = 0; i < launches; ++i) {
    const int64_t first = i * rows_a_launch;
    NormBackward<T> norm = all;
    norm.grad += first * all.grad_stride;
    norm.x += first * all.x_stride;
    norm.mean = all.mean == nullptr ? nullptr : all.mean + first;
    norm.rstd += first;
    norm.grad_x += first * all.columns;
    norm.parts = wanted ? mutable_data<float>(parts) + i * shares.clusters * sums.pitch : nullptr;
    norm.rows = std::min(all.rows - first, rows_a_launch);
    plan.launch(stream, norm);
  }
  if (wanted)
    sums.launch(stream, data<float>(parts), mutable_data<T>(of_parameters[0]),
                N == 2 ? mutable_data<T>(of_parameters[N - 1]) : nullptr, early);
}

// The gradients of x, of weight and, for layer_norm (N = 2), of bias; those of parameters if they are `wanted`. False,
// and nothing is launched, if no kernel holds such rows here.
template <class T, std::size_t N>
bool norm_backward_in_one_pass(Stream stream, const Rows& grad, const Rows& x, const T* weight,
                               const compute_t<T>* mean, const compute_t<T>* rstd, T* grad_x,
                               const std::array<Tensor, N>& of_parameters, bool wanted) {
  if constexpr (sizeof(T) < sizeof(double) && gpu_paths) {
    constexpr bool centred = N == 2;
    using Choices = BackwardChoices<sizeof(T), centred>;
    using Kernels = BackwardKernels<T, centred>;
    using Modes = BackwardModes<T, centred>;
    static constexpr auto whole = stream_kernels<Kernels, T, false>(built_of<Modes>(Choices::whole));
    static constexpr auto edged = stream_kernels<Kernels, T, true>(built_of<Modes>(Choices::edged));
    constexpr int64_t size = Vector<T>::size;
    if (x.empty() || elements_to_boundary(grad_x) != 0 || !streams_aligned(x.data<T>(), x.stride, x.columns) ||
        !streams_aligned(grad.data<T>(), grad.stride, x.columns))
      return false;
    const bool has_edges = x.columns % size != 0 || (weight != nullptr && elements_to_boundary(weight) != 0);
    auto found = has_edges ? plan_stream(edged, stream, x.count, x.columns, size, true)
                           : plan_stream(whole, stream, x.count, x.columns, size, false);
    // Too few clusters are resident for rows of the same offset: several times as many, one after the other.
    if (!found && has_edges) found = plan_stream(edged, stream, x.count, x.columns, size, true, true);
    if (!found) return false;
    const NormBackward<T> norm{.grad = grad.data<T>(),
                               .grad_stride = grad.stride,
                               .x = x.data<T>(),
                               .x_stride = x.stride,
                               .weight = weight,
                               .mean = mean,
                               .rstd = rstd,
                               .grad_x = grad_x,
                               .rows = x.count,
                               .columns = static_cast<int>(x.columns)};
    launch_norm_backward(stream, *found, norm, x.tensor, of_parameters, wanted);
    return true;
  }
  return false;
}

}  // namespace trifold
