// For bindings of ops on rows (cuda_src/<op>.cu), in addition to binding.h. A row extends along a tensor's last
// dimension; the others enumerate the rows. Kernels receive a pointer, and the distance between rows.
#pragma once

#include <trifold/binding.h>
#include <trifold/vector.cuh>

namespace trifold {

inline constexpr int64_t most_blocks = (int64_t{1} << 31) - 1;  // in a grid

// A tensor as contiguous rows. Row r starts r · stride elements after the first; with a stride of 0 all are the same.
struct Rows {
  Tensor tensor;  // the argument, or a copy of it
  int64_t count, columns, stride;

  bool empty() const { return count == 0 || columns == 0; }

  template <class T>
  const T* data() const {
    return trifold::data<T>(tensor);
  }
};

// The distance between the rows of `x`, if it is constant and each row is contiguous; else nothing.
inline std::optional<int64_t> row_stride(const Tensor& x) {
  const Dims sizes = x.sizes(), strides = x.strides();
  const std::size_t last = sizes.size() - 1;
  if (sizes[last] > 1 && strides[last] != 1) return std::nullopt;
  int64_t stride = sizes[last], rows = 1;  // of the dimensions from d on
  for (std::size_t d = last; d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (rows == 1) stride = strides[d];
    if (strides[d] != rows * stride) return std::nullopt;
    rows *= sizes[d];
  }
  return stride;
}

// `x` as rows: without a copy if its strides allow it, else a contiguous copy. A 0-d tensor is a row of one column.
inline Rows rows_of(const Tensor& x) {
  const Dims sizes = x.sizes();
  if (sizes.size() == 0) return {x, 1, 1, 1};
  int64_t count = 1;
  for (std::size_t d = 0; d + 1 < sizes.size(); ++d) count *= sizes[d];
  const int64_t columns = sizes[sizes.size() - 1];
  if (x.is_contiguous() || count == 0 || columns == 0) return {x, count, columns, columns};
  if (const auto stride = row_stride(x)) return {x, count, columns, *stride};
  return {torch::stable::contiguous(x), count, columns, columns};
}

// A new, uninitialised, contiguous tensor of the shape of `x`.
inline Tensor row_output(const Tensor& x) {
  return empty_contiguous(x, x.sizes());
}

// Temporary memory for `count` numbers of type C on the device of `like`; keep the tensor until the launch.
template <class T, class C>
Tensor scratch(const Tensor& like, int64_t count) {
  static_assert(sizeof(C) % sizeof(T) == 0, "a number of type C is made of whole elements of `like`");
  const int64_t elements = count * static_cast<int64_t>(sizeof(C) / sizeof(T));
  return empty_strided(like, {elements}, {1});
}

// Whether all rows of `columns` elements, at a distance of `stride`, begin and end at 16-byte boundaries.
template <class T>
bool in_pieces(const T* first, int64_t stride, int64_t columns) {
  constexpr int64_t size = Vector<T>::size;
  return elements_to_boundary(first) == 0 && stride % size == 0 && columns % size == 0;
}

// A grid of one block for each row. If there are more rows, its kernels continue with row blockIdx.x + gridDim.x.
inline dim3 block_a_row(int64_t rows) {
  return dim3(static_cast<unsigned>(std::min(rows, most_blocks)));
}

}  // namespace trifold
