// Launching the backward pass of a norm in one pass over its inputs (norms_backward.cuh).
#pragma once

#include <trifold/norms.h>
#include <trifold/norms_backward.cuh>

namespace trifold {

#ifdef __CUDACC__

// The rows that a team adds up before its sums go to a part of their own: of so many terms the last bits are lost.
inline constexpr int64_t most_rows_a_sum = 512;

// How rows of `columns` are shared out, as measured on an H200: use.template operator()<Shape>(blocks), with so many
// blocks in a cluster. False where nothing holds such a row.
//
// Short rows are those of half a warp or of a warp, since then no warp waits for another one; longer ones those of 4 to
// 8 warps, whose threads have 32 numbers or more, so that what is done once a row counts little; and the longest those
// of clusters. Hardly more than a row ahead is best: with more, the first rows come late, since all are asked for at
// once.
template <class T, bool edges, class Use>
bool choose_row_stream(int64_t columns, Use use) {
  const auto fits = [&]<class Shape>(int blocks) {
    return columns <= int64_t{Shape::template columns<T>} * blocks && use.template operator()<Shape>(blocks);
  };
  const auto in_clusters = [&]<class Shape, class Larger>() {
    for (int blocks = 1; blocks <= most_blocks_a_cluster; blocks *= 2)
      if (fits.template operator()<Shape>(blocks) || fits.template operator()<Larger>(blocks)) return true;
    return false;
  };
  using Larger = RowStreamShape<7, 7, 256, 1, 3>;
  // For rows that are whole, and for others, of which fewer clusters can be used where few are there at once: rows of a
  // team must begin alike.
  const auto whole = [&]<class Shape>(int blocks) {
    if constexpr (!edges) return fits.template operator()<Shape>(blocks);
    return false;
  };
  const auto ragged = [&]<class Shape>(int blocks) {
    if constexpr (edges) return fits.template operator()<Shape>(blocks);
    return false;
  };
  if constexpr (sizeof(T) == sizeof(float)) {
    using Longest = RowStreamShape<16, 2, 256, 1, 13>;
    return fits.template operator()<RowStreamShape<2, 2, 32, 16, 3>>(1) ||
           fits.template operator()<RowStreamShape<8, 8, 32, 8, 2>>(1) ||
           whole.template operator()<RowStreamShape<2, 2, 512, 1, 5>>(1) ||
           in_clusters.template operator()<RowStreamShape<4, 4, 256, 1, 4>, Larger>() ||
           fits.template operator()<Longest>(8) || fits.template operator()<Longest>(16);
  } else {
    return fits.template operator()<RowStreamShape<2, 2, 16, 32, 3>>(1) ||
           fits.template operator()<RowStreamShape<4, 4, 32, 8, 3>>(1) ||
           fits.template operator()<RowStreamShape<4, 4, 128, 2, 3>>(1) ||
           fits.template operator()<RowStreamShape<4, 4, 256, 1, 3>>(1) ||
           whole.template operator()<RowStreamShape<2, 2, 256, 1, 3>>(4) ||
           ragged.template operator()<RowStreamShape<2, 2, 416, 1, 4>>(2) ||
           in_clusters.template operator()<RowStreamShape<4, 4, 256, 1, 3>, Larger>() ||
           fits.template operator()<RowStreamShape<8, 8, 256, 1, 3>>(16);
  }
}

// Launches the second step of the sums over rows.
template <class T>
void add_parts(Stream stream, const float* parts, int64_t part_stride, T* first, T* second, int64_t count,
               int64_t columns) {
  unsigned threads = 1;  // that share a column's parts, of which a thread loads 16 at once
  while (threads < 32 && threads * 16 < count) threads *= 2;
  const dim3 block(std::max(32u, 256 / threads), threads);
  const dim3 grid(static_cast<unsigned>(ceil_div(columns, block.x)), second == nullptr ? 1 : 2);
  launch_early<add_parts_kernel<T>>(stream, grid, block, 0, parts, part_stride, first, second, static_cast<int>(count),
                                    static_cast<int>(columns));
}

// The gradients of x, of weight and, of layer_norm (N = 2), of bias; those of parameters where they are `wanted`.
// False, and nothing is launched: the rows or the device are none for this.
template <class T, std::size_t N>
bool norm_backward_in_one_pass(Stream stream, const Rows& grad, const Rows& x, const T* weight,
                               const compute_t<T>* mean, const compute_t<T>* rstd, T* grad_x,
                               const std::array<Tensor, N>& of_parameters, bool wanted) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return false;
  } else {
    constexpr int64_t size = Vector<T>::size;
    const int64_t columns = x.columns, rows = x.count;
    const bool aligned = elements_to_boundary(x.data<T>()) == 0 && elements_to_boundary(grad.data<T>()) == 0 &&
                         elements_to_boundary(grad_x) == 0;
    const bool whole = columns % size == 0;  // pieces
    const auto alike = [&](int64_t stride) { return (stride - columns) % size == 0 && (whole || stride >= columns); };
    if (!stream.starts_early || !aligned || !alike(x.stride) || !alike(grad.stride) || x.empty()) return false;

    const auto launch_shape = [&]<class Shape, bool edges>(int blocks) {
      constexpr auto kernel = norm_backward_stream_kernel<T, Shape, N == 2, edges>;
      const int64_t most =
          resident_clusters<kernel>(dim3(Shape::block), Shape::bytes, static_cast<unsigned>(blocks), Shape::bytes);
      if (most == 0) return false;
      // As few clusters as have no more rows each than all of them would have.
      const int64_t rows_a_team = ceil_div(rows, most * Shape::teams);
      int64_t clusters = ceil_div(rows, rows_a_team * Shape::teams);
      // Rows of a team begin alike, as seen from boundaries as far apart as that takes next to no clusters away: a
      // warp's accesses then lie in whole sectors of memory, or in whole lines.
      int64_t boundary = 128 / sizeof(T);
      if (edges && rows_a_team > 1) {
        const auto fewer = [&] { return teams_alike(clusters, Shape::teams * columns, boundary); };
        while (boundary > size && fewer() < clusters - clusters / 16) boundary /= 2;
        clusters = fewer();
        if (clusters == 0) return false;
      }
      const int64_t rows_a_launch = clusters * Shape::teams * most_rows_a_sum;
      const int64_t launches = ceil_div(rows, rows_a_launch), count = launches * clusters;
      const Tensor parts = empty_strided(x.tensor, {wanted ? static_cast<int64_t>(N) * count * columns : 0}, {1},
                                         compute_dtype(x.tensor));
      const int64_t share = ceil_div(ceil_div(columns + (edges ? boundary - 1 : 0), blocks), size) * size;
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
        norm.parts = wanted ? mutable_data<float>(parts) + i * clusters * columns : nullptr;
        norm.part_stride = count * columns;
        norm.rows = std::min(rows - first, rows_a_launch);
        norm.columns = static_cast<int>(columns);
        norm.share = static_cast<int>(share);
        norm.boundary = static_cast<int>(boundary);
        launch_clusters<kernel>(stream, dim3(static_cast<unsigned>(clusters * blocks)), dim3(Shape::block),
                                Shape::bytes, static_cast<unsigned>(blocks), norm);
      }
      if (wanted)
        add_parts(stream, data<float>(parts), count * columns, mutable_data<T>(of_parameters[0]),
                  N == 2 ? mutable_data<T>(of_parameters[N - 1]) : nullptr, count, columns);
      return true;
    };
    if (whole && (weight == nullptr || elements_to_boundary(weight) == 0))
      return choose_row_stream<T, false>(
          columns, [&]<class Shape>(int blocks) { return launch_shape.template operator()<Shape, false>(blocks); });
    return choose_row_stream<T, true>(columns + 128 / int64_t{sizeof(T)} - 1, [&]<class Shape>(int blocks) {
      return launch_shape.template operator()<Shape, true>(blocks);
    });
  }
}

#else

// What does it needs a GPU.
template <class T, std::size_t N>
bool norm_backward_in_one_pass(Stream, const Rows&, const Rows&, const T*, const compute_t<T>*, const compute_t<T>*, T*,
                               const std::array<Tensor, N>&, bool) {
  return false;
}

#endif

}  // namespace trifold
