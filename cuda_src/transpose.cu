#include <trifold/rows.h>

#include "transpose.cuh"

namespace {

using trifold::Dims, trifold::Tensor;

// A tensor as matrices, which are its last two dimensions; the elements of each row are contiguous.
struct Matrices {
  Tensor tensor;  // owns the memory: the argument, or a copy
  int64_t count, rows, columns, matrix_stride, row_stride;
};

// The distance between the matrices of `x`, if it is the same for all; otherwise nothing.
std::optional<int64_t> matrix_stride_of(Dims sizes, Dims strides) {
  int64_t stride = 0, matrices = 1;  // in the dimensions from d on
  for (std::size_t d = sizes.size() - 2; d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (matrices == 1) stride = strides[d];
    if (strides[d] != matrices * stride) return std::nullopt;
    matrices *= sizes[d];
  }
  return stride;
}

Matrices matrices_of(const Tensor& x) {
  const Dims sizes = x.sizes(), strides = x.strides();
  const std::size_t last = sizes.size() - 1;
  const int64_t rows = sizes[last - 1], columns = sizes[last];
  const int64_t count = x.numel() == 0 ? 0 : x.numel() / (rows * columns);
  if (count == 0) return {x, 0, rows, columns, 0, 0};
  const auto matrix_stride = matrix_stride_of(sizes, strides);
  if (matrix_stride && (columns == 1 || strides[last] == 1))
    return {x, count, rows, columns, *matrix_stride, rows == 1 ? columns : strides[last - 1]};
  return {torch::stable::contiguous(x), count, rows, columns, rows * columns, columns};
}

template <auto Kernel, int edge, class T>
void launch_tiles(trifold::Stream stream, const T* x, int64_t matrix_stride, int64_t row_stride, T* y, int64_t count,
                  int64_t rows, int64_t columns) {
  const int64_t tiles = count * trifold::ceil_div(rows, edge) * trifold::ceil_div(columns, edge);
  trifold::launch_early<Kernel>(stream, dim3(static_cast<unsigned>(std::min(tiles, trifold::most_blocks))),
                                dim3(tile_lanes, tile_height), 0, x, matrix_stride, row_stride, y, rows, columns,
                                tiles);
}

// Whether rows and columns consist of whole words of both x and its transpose, and begin at word boundaries.
template <class T>
bool in_words(const T* x, const Matrices& of) {
  constexpr int64_t pack = sizeof(uint32_t) / sizeof(T);
  return reinterpret_cast<uintptr_t>(x) % sizeof(uint32_t) == 0 && of.rows % pack == 0 && of.columns % pack == 0 &&
         of.matrix_stride % pack == 0 && of.row_stride % pack == 0;
}

// T is an unsigned integer with as many bytes as an element.
template <class T>
void launch_transpose(trifold::Stream stream, const Matrices& of, const Tensor& y) {
  const T* const from = trifold::data<T>(of.tensor);
  T* const to = trifold::mutable_data<T>(y);
  if constexpr (sizeof(T) < sizeof(uint32_t)) {
    constexpr int pack = sizeof(uint32_t) / sizeof(T);
    if (in_words(from, of))
      return launch_tiles<transpose_words_kernel<pack>, tile_lanes>(
          stream, reinterpret_cast<const uint32_t*>(from), of.matrix_stride / pack, of.row_stride / pack,
          reinterpret_cast<uint32_t*>(to), of.count, of.rows / pack, of.columns / pack);
  }
  launch_tiles<transpose_kernel<T>, tile_edge<T>>(stream, from, of.matrix_stride, of.row_stride, to, of.count, of.rows,
                                                  of.columns);
}

Tensor transpose(const Tensor& x) {
  trifold::check(x.dim() >= 2, "transpose: x must have two dimensions or more, but is of shape ", trifold::Shape{x},
                 "; pass a row as x[None]");
  trifold::check(x.element_size() <= sizeof(uint64_t), "transpose: x must have elements of 1, 2, 4 or 8 bytes, but is ",
                 trifold::Dtype{x}, "; of a complex tensor pass torch.view_as_real(x).movedim(-1, 0), as two");
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  std::swap(sizes[sizes.size() - 2], sizes[sizes.size() - 1]);
  const Tensor y = trifold::empty_contiguous(x, Dims(sizes.data(), sizes.size()));
  const Matrices matrices = matrices_of(x);
  if (matrices.count == 0) return y;
  const trifold::OnDevice device(x);
  switch (x.element_size()) {
    case 1: launch_transpose<uint8_t>(device.stream(), matrices, y); break;
    case 2: launch_transpose<uint16_t>(device.stream(), matrices, y); break;
    case 4: launch_transpose<uint32_t>(device.stream(), matrices, y); break;
    default: launch_transpose<uint64_t>(device.stream(), matrices, y);
  }
  trifold::check_launch();
  return y;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&transpose>(m, "transpose");
}
