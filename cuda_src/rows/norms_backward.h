// Launching the backward pass of a norm in one pass over its inputs (norms_backward.cuh).
#pragma once

#include "norms.h"
#include "norms_backward.cuh"
#include "row_teams.h"

#include <limits>

namespace trifold {

// The rows that a team adds up before its sums go to a part of their own: of so many terms the last bits are lost.
inline constexpr int64_t most_rows_a_sum = 512;

// The rows of a team of a kernel whose launch counts.
inline constexpr int64_t most_rows_of_a_short_kernel = one_of_each_mode ? 1 : 16;

inline constexpr int64_t all_rows = std::numeric_limits<int64_t>::max();

// Before earlier kernels have ended, a short kernel whose teams are warps asks L2 for their first rows: as many bytes
// as memory brings meanwhile. With more, on an H200, some of it is gone again before it is read.
inline constexpr int64_t most_rows_ahead = 3, most_bytes_ahead = 13 << 20;

// Rows that clusters of so many blocks of a shape hold; with `few`, of layer_norm and more than 576 columns, where no
// team has many of them.
template <class Shape_, int blocks_, bool few_ = false>
struct ShapeChoice {
  using Shape = Shape_;
  static constexpr int blocks = blocks_;
  static constexpr bool few = few_;
};

// Ways to share rows out, in the order in which they are tried.
template <class... Choices>
struct Shapes {};

// Clusters of 1 to 16 blocks, of either shape. A build with one choice of each mode has those of up to two, and the
// longest rows below are two blocks' there, so that rows which the CPU is soon done with reach all choices.
template <class Shape, class Larger>
constexpr auto clusters_of() {
  using Small = Shapes<ShapeChoice<Shape, 1>, ShapeChoice<Larger, 1>, ShapeChoice<Shape, 2>, ShapeChoice<Larger, 2>>;
  using Large = Shapes<ShapeChoice<Shape, 4>, ShapeChoice<Larger, 4>, ShapeChoice<Shape, 8>, ShapeChoice<Larger, 8>,
                       ShapeChoice<Shape, 16>, ShapeChoice<Larger, 16>>;
  return joined(Small{}, std::conditional_t<one_of_each_mode, Shapes<>, Large>{});
}

// How rows are shared out, as measured on an H200, by the size of their elements: `whole` rows and others, `edged`, of
// which fewer clusters can be used where few are there at once, since rows of a team must begin alike.
//
// Short rows are those of half a warp or of a warp, since then no warp waits for another one; longer ones those of 8 to
// 16 warps; and the longest those of clusters. Hardly more than a row ahead is best: with more, the first rows come
// late, since all are asked for at once. What a row needs twice is kept where registers suffice and rows are whole: of
// half types with edges, it took 10 to 15% more. Bulk copies of a warp's rows are up to 3% faster in half types, and
// slower in float32. 12 warps have more registers each than 13 or 14, of which a quarter of the multiprocessor has 4:
// rows of 12,289 floats leave a fifth piece to one of them.
// layer_norm of half types with edges is bound by what a warp does one after the other, hence pairs. Gathered, its rows
// are 12% faster at 512 columns, and 3% slower at 1,024 where a warp has many of them.
template <int bytes, bool centred>
struct BackwardChoices {
  using Larger = RowStreamShape<7, 7, 256, 1, 3>;
  using Block = RowStreamShape<4, 4, 256, 1, 3>;
  using Short = Shapes<ShapeChoice<RowStreamShape<2, 2, 16, 32, 3>, 1>>;
  using Gathered = Shapes<ShapeChoice<RowStreamShape<4, 4, 32, 8, 4, rows_in_bulk | rows_gathered>, 1, true>>;
  using Ungathered =
      std::conditional_t<centred, Shapes<ShapeChoice<RowStreamShape<4, 4, 32, 8, 4, rows_in_bulk>, 1>>, Shapes<>>;
  using WholeBlocks = Shapes<ShapeChoice<RowStreamShape<2, 2, 256, 2, 3, rows_kept>, 1>, ShapeChoice<Block, 1>,
                             ShapeChoice<RowStreamShape<2, 2, 256, 1, 3, centred ? 0 : rows_kept, 2>, 4>>;
  using EdgedBlocks =
      Shapes<ShapeChoice<RowStreamShape<4, 4, 32, 8, 3, rows_in_bulk>, 1>,
             ShapeChoice<RowStreamShape<4, 4, 128, 2, 3>, 1>, ShapeChoice<Block, 1>,
             ShapeChoice<RowStreamShape<2, 2, 416, 1, 4, centred ? rows_of_pairs | rows_gathered : 0>, 2>>;
  using Longest = Shapes<ShapeChoice<RowStreamShape<8, 4, 256, 1, 4>, one_of_each_mode ? 2 : 16>>;

  static constexpr auto whole =
      joined(Short{}, Gathered{}, Ungathered{}, WholeBlocks{}, clusters_of<Block, Larger>(), Longest{});
  static constexpr auto edged = joined(Short{}, EdgedBlocks{}, clusters_of<Block, Larger>(), Longest{});
};
template <bool centred>
struct BackwardChoices<sizeof(float), centred> {
  using Larger = RowStreamShape<7, 7, 256, 1, 3>;
  using Block = RowStreamShape<4, 4, 256, 1, 4>;
  using Warps = Shapes<ShapeChoice<RowStreamShape<2, 2, 32, 16, 3>, 1>, ShapeChoice<RowStreamShape<8, 8, 32, 8, 2>, 1>>;
  using WholeBlocks = Shapes<ShapeChoice<RowStreamShape<2, 2, 512, 1, 5, rows_kept>, 1>>;
  using EdgedBlocks = Shapes<ShapeChoice<Block, 1>, ShapeChoice<Larger, 1>,
                             ShapeChoice<RowStreamShape<5, 5, 384, 1, 3, rows_kept | rows_paced | rows_end_rarely>, 2>>;
  using LongestShape = RowStreamShape<16, 2, 256, 1, 13>;
  using Longest = Shapes<ShapeChoice<LongestShape, one_of_each_mode ? 2 : 8>, ShapeChoice<LongestShape, 16>>;

  static constexpr auto whole = joined(Warps{}, WholeBlocks{}, clusters_of<Block, Larger>(), Longest{});
  static constexpr auto edged = joined(Warps{}, EdgedBlocks{}, clusters_of<Block, Larger>(), Longest{});
};

// What a backward kernel's code depends on: the ways of its shape, and whether a team is a part of a warp, a warp, or a
// block, whether it reads its rows in chunks, and whether its numbers are kept as floats.
template <class T, bool centred>
struct BackwardModes {
  template <class Choice, class Shape = typename Choice::Shape>
  using of =
      Mode<(Shape::teams_a_warp > 1), Shape::warps == 1, Shape::teams == 1, (Shape::chunks > 1), Shape::kept,
           Shape::bulk, Shape::paced, Shape::end_rarely, Shape::pairs, Shape::gathered, floats_fit<T, Shape, centred>>;
};

// use.template operator()<Shape>(blocks, most_rows) of the first ways that hold rows of `columns`, until it is true:
// with so many blocks in a cluster, and where a team has no more than so many rows. False where nothing holds such a
// row.
template <class T, bool centred, bool edges, class Use>
bool choose_row_stream(int64_t columns, Use use) {
  const auto try_one = [&]<class Choice>() {
    using Shape = typename Choice::Shape;
    const int64_t most_rows = Choice::few && centred && columns > 576 ? most_rows_of_a_short_kernel : all_rows;
    return columns <= int64_t{Shape::template columns<T>} * Choice::blocks &&
           use.template operator()<Shape>(Choice::blocks, most_rows);
  };
  const auto any = [&]<class... Choices>(Shapes<Choices...>) {
    return (try_one.template operator()<Choices>() || ...);
  };
  using All = BackwardChoices<sizeof(T), centred>;
  if constexpr (edges)
    return any(built_of<BackwardModes<T, centred>>(All::edged));
  else
    return any(built_of<BackwardModes<T, centred>>(All::whole));
}

// So many bytes of parts are many: L2 shall forget them. Of fewer, an H200 writes little to memory: 1 MB at (10007,
// 1000) take 0.7 µs longer as many, 4 MB at (16384, 4096) 0.5 µs less.
inline constexpr int64_t many_bytes_of_parts = 2 << 20;

// How many fours of columns a block of the second step takes: a size alone.
template <int fours_>
struct PartChoice {
  static constexpr int fours = fours_;
};
template <class... Choices>
struct PartChoices {};
struct PartModes {
  template <class>
  using of = Mode<>;
};

// The second step of the sums over rows: of `count` parts of so many columns, for each of `results`. They lie `pitch`
// numbers apart, each in lines of memory of its own.
struct PartSums {
  int64_t count, columns, pitch, results;
  int fours;  // of columns that a block takes
  dim3 grid;

  PartSums(int64_t count, int64_t columns, int64_t results)
      : count(count),
        columns(columns),
        pitch(ceil_div(columns, numbers_a_line) * numbers_a_line),
        results(results),
        fours(fours_a_block()),
        grid(static_cast<unsigned>(ceil_div(columns, 4 * fours)), static_cast<unsigned>(results)) {}

  // In all parts.
  int64_t numbers() const { return results * count * pitch; }

  // Whether its blocks can wait beside those of `kernel`, one of `threads` threads on each of so many multiprocessors:
  // if not, they crowd together where the first ones end, and it takes longer.
  template <auto kernel>
  bool fits_beside(int threads, int64_t multiprocessors) const {
    return registers_a_thread<kernel>() * threads + add_parts_registers * add_parts_block <= 65536 &&
           int64_t{grid.x} * grid.y <= multiprocessors;
  }

  template <class T>
  void launch(Stream stream, const float* parts, T* first, T* second, bool early) const {
    const auto start = [&]<int fours>() {
      launch_early<add_parts_kernel<T, fours>>(stream, grid, dim3(add_parts_block), 0, parts, pitch, count * pitch,
                                               first, second, static_cast<int>(count), static_cast<int>(columns),
                                               early);
    };
    const auto start_built = [&]<class... Choices>(PartChoices<Choices...>) {
      ((fours == Choices::fours && (start.template operator()<Choices::fours>(), true)) || ...);
    };
    start_built(built_of<PartModes>(Widths{}));
  }

 private:
  static constexpr int64_t numbers_a_line = line_bytes / sizeof(float);
  static constexpr int few = 4, many = numbers_a_line / 4, wide = warp_threads;
  using Widths = PartChoices<PartChoice<few>, PartChoice<many>, PartChoice<wide>>;

  // A line's, if numbers are many; and more of them in so few parts that half of the threads would have none.
  int fours_a_block() const {
    if (one_of_each_mode || numbers() * int64_t{sizeof(float)} < many_bytes_of_parts) return few;
    return count > parts_at_once * (add_parts_block / wide) ? many : wide;
  }
};

// The gradients of x, of weight and, of layer_norm (N = 2), of bias; those of parameters where they are `wanted`.
// False, and nothing is launched: the rows or the device are none for this.
template <class T, std::size_t N>
bool norm_backward_in_one_pass(Stream stream, const Rows& grad, const Rows& x, const T* weight,
                               const compute_t<T>* mean, const compute_t<T>* rstd, T* grad_x,
                               const std::array<Tensor, N>& of_parameters, bool wanted) {
  if constexpr (sizeof(T) == sizeof(double) || !gpu_paths) {
    return false;
  } else {
    constexpr int64_t size = Vector<T>::size;
    const int64_t columns = x.columns, rows = x.count;
    const bool aligned = elements_to_boundary(x.data<T>()) == 0 && elements_to_boundary(grad.data<T>()) == 0 &&
                         elements_to_boundary(grad_x) == 0;
    const bool whole = columns % size == 0;  // pieces
    const auto alike = [&](int64_t stride) { return (stride - columns) % size == 0 && (whole || stride >= columns); };
    if (!stream.starts_early || !aligned || !alike(x.stride) || !alike(grad.stride) || x.empty()) return false;

    const auto launch_shape = [&]<class Shape, bool edges>(int blocks, int64_t most_rows) {
      constexpr auto kernel = norm_backward_stream_kernel<T, Shape, N == 2, edges>;
      const int64_t most =
          resident_clusters<kernel>(dim3(Shape::block), Shape::bytes, static_cast<unsigned>(blocks), Shape::bytes);
      if (most == 0) return false;
      int64_t clusters = std::min(most, ceil_div(rows, Shape::teams));
      const int64_t rows_a_team = ceil_div(rows, clusters * Shape::teams);
      if (rows_a_team > most_rows) return false;
      // Rows of a team begin alike, as seen from boundaries as far apart as that takes next to no clusters away: a
      // warp's accesses then lie in whole sectors of memory, or in whole lines.
      int64_t boundary = line_bytes / sizeof(T);
      if (edges && rows_a_team > 1) {
        const auto fewer = [&] { return teams_alike(clusters, Shape::teams * columns, boundary); };
        while (boundary > size && fewer() < clusters - clusters / 16) boundary /= 2;
        clusters = fewer();
        if (clusters == 0) return false;
      }
      const int64_t rows_a_launch = clusters * Shape::teams * most_rows_a_sum;
      const int64_t launches = ceil_div(rows, rows_a_launch), count = launches * clusters;
      const PartSums sums(count, columns, N);
      const Tensor parts = empty_strided(x.tensor, {wanted ? sums.numbers() : 0}, {1}, compute_dtype(x.tensor));
      // While a short kernel runs, the second step is set up, and the kernel behind it while that one runs; but no
      // larger cluster should find blocks of the second step in its way.
      const bool early = wanted && blocks <= 2;
      const bool sums_early = wanted && blocks == 1 && clusters == most && rows_a_team <= most_rows_of_a_short_kernel &&
                              sums.template fits_beside<kernel>(Shape::block, most);
      // A block's columns are whole lines of memory, if those of the row are.
      constexpr int64_t line = line_bytes / sizeof(T);
      const int64_t seen = columns + (edges ? boundary - 1 : 0);  // from the boundary before the row
      const int64_t share = std::min(ceil_div(seen, blocks * line) * line, int64_t{Shape::template columns<T>});
      const int64_t bytes_a_round = clusters * Shape::teams * 2 * columns * int64_t{sizeof(T)};
      const int64_t ahead =
          sums_early && Shape::warps == 1 ? std::min(most_rows_ahead, most_bytes_ahead / bytes_a_round) : 0;
      for (int64_t i = 0; i < launches; ++i) {
        const int64_t first = i * rows_a_launch;
        NormBackward<T> norm{};
        norm.grad = grad.data<T>() + first * grad.stride;
        norm.grad_stride = grad.stride;
        norm.x = x.data<T>() + first * x.stride;
        norm.x_stride = x.stride;
        norm.weight = weight;
        norm.mean = mean == nullptr ? nullptr : mean + first;
        norm.rstd = rstd + first;
        norm.grad_x = grad_x + first * columns;
        norm.parts = wanted ? mutable_data<float>(parts) + i * clusters * sums.pitch : nullptr;
        norm.part_pitch = static_cast<int>(sums.pitch);
        norm.part_stride = count * sums.pitch;
        norm.rows = std::min(rows - first, rows_a_launch);
        norm.columns = static_cast<int>(columns);
        norm.share = static_cast<int>(share);
        norm.boundary = static_cast<int>(boundary);
        norm.early = sums_early;
        norm.ahead = static_cast<int>(ahead);
        launch_clusters<kernel>(stream, dim3(static_cast<unsigned>(clusters * blocks)), dim3(Shape::block),
                                Shape::bytes, static_cast<unsigned>(blocks), norm);
      }
      if (wanted)
        sums.launch(stream, data<float>(parts), mutable_data<T>(of_parameters[0]),
                    N == 2 ? mutable_data<T>(of_parameters[N - 1]) : nullptr, early);
      return true;
    };
    if (whole && (weight == nullptr || elements_to_boundary(weight) == 0))
      return choose_row_stream<T, N == 2, false>(columns, [&]<class Shape>(int blocks, int64_t most_rows) {
        return launch_shape.template operator()<Shape, false>(blocks, most_rows);
      });
    return choose_row_stream<T, N == 2, true>(columns + line_bytes / int64_t{sizeof(T)} - 1,
                                              [&]<class Shape>(int blocks, int64_t most_rows) {
                                                return launch_shape.template operator()<Shape, true>(blocks, most_rows);
                                              });
  }
}

}  // namespace trifold
