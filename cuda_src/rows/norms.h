// Shared by the bindings of the norms: parameters, the statistics that forward saves for backward, and the two steps of
// the parameters' gradients.
#pragma once

#include <trifold/rows.h>

#include "norms.cuh"

namespace trifold {

inline void check_rows(const char* op, const Tensor& x, const char* name) {
  check_floating(op, x, name);
  check(x.dim() > 0, op, ": ", name, " must have a last dimension to be normalised along, but has none; pass ", name,
        ".reshape(1)");
}

// Raises unless `numbers`, if present, has one number per column of x.
inline void check_of_columns(const char* op, const Tensor& x, const std::optional<Tensor>& numbers, const char* name) {
  if (!numbers) return;
  check_same_device(op, x, "x", *numbers, name);
  check_same_dtype(op, x, "x", *numbers, name);
  const int64_t columns = x.size(x.dim() - 1);
  check(numbers->dim() == 1 && numbers->size(0) == columns, op, ": ", name, " must have the shape (", columns,
        ",), a number for each column of x, not ", Shape{*numbers});
}

// The compute dtype of the kernels for x, as numbered by libtorch.
inline int32_t compute_dtype(const Tensor& x) {
  return x.scalar_type() == ScalarType::Double ? aoti_torch_dtype_float64() : aoti_torch_dtype_float32();
}

// A new, uninitialised tensor of `kinds` rows, with a number of the compute type for each row of x: one tensor for all
// statistics, since each tensor adds a microsecond to a call.
inline Tensor row_statistics(const Rows& x, int64_t kinds) {
  return empty_contiguous(x.tensor, {kinds, x.count}, compute_dtype(x.tensor));
}

// Raises unless `statistics` has the shape, dtype and layout of a result of `row_statistics`.
inline void check_row_statistics(const char* op, const Rows& x, const Tensor& statistics, const char* name,
                                 int64_t kinds) {
  check_same_device(op, x.tensor, "x", statistics, name);
  const Dims sizes = statistics.sizes();
  check(dtype_code(statistics) == compute_dtype(x.tensor) && sizes.size() == 2 && sizes[0] == kinds &&
            sizes[1] == x.count && statistics.is_contiguous(),
        op, ": ", name, " must be what forward returned for x, but is ", Dtype{statistics}, " of shape ",
        Shape{statistics});
}

// A contiguous copy of `numbers`, if present.
inline std::optional<Tensor> dense(const std::optional<Tensor>& numbers) {
  if (!numbers || numbers->is_contiguous()) return numbers;
  return torch::stable::contiguous(*numbers);
}

template <class T>
const T* data_or_null(const std::optional<Tensor>& numbers) {
  return numbers ? data<T>(*numbers) : nullptr;
}

// A new tensor with one number per column of x; empty if it is not wanted.
inline Tensor of_columns(const Tensor& x, bool wanted) {
  return empty_strided(x, {wanted ? x.size(x.dim() - 1) : 0}, {1});
}

// Sums over rows, one result of T per column in each of N `results`. `first_step(grid, block, parts, rows_a_part)`
// launches a kernel that calls `sum_part`.
template <class T, std::size_t N, class FirstStep>
void sum_over_rows(Stream stream, const Rows& x, const std::array<Tensor, N>& results, FirstStep first_step) {
  static_assert(N == 1 || N == 2, "sum_parts_kernel has two results at most");
  using C = compute_t<T>;
  if (x.columns == 0) return;
  const RowShares shares = share_rows(x.count, x.columns);
  const Tensor parts =
      empty_strided(x.tensor, {static_cast<int64_t>(N) * shares.parts * x.columns}, {1}, compute_dtype(x.tensor));
  const dim3 block(column_block, column_threads);
  dim3 grid(static_cast<unsigned>(ceil_div(x.columns, column_block)), static_cast<unsigned>(shares.parts));
  first_step(grid, block, mutable_data<C>(parts), shares.rows_a_part);
  grid.y = N;
  launch<sum_parts_kernel<T>>(stream, grid, block, 0, data<C>(parts), mutable_data<T>(results[0]),
                              mutable_data<T>(results[N - 1]), shares.parts, x.columns);
}

}  // namespace trifold
