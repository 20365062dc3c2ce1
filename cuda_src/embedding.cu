#include <trifold/rows.h>

#include "embedding.cuh"

#include <bit>
#include <optional>

namespace {

using trifold::ceil_div, trifold::Rows, trifold::Tensor, trifold::threads_per_block;

constexpr const char* name = "embedding";

constexpr int64_t most_lanes = 32;      // threads per row
constexpr int64_t most_tiles = 65'535;  // limit of gridDim.y

// With this many positions per row on average, a whole block sums a row of grad_weight. Depends on shapes alone, so
// that the result's bits do too.
constexpr int64_t many_positions = 32;

void check_indices(const char* op, const Tensor& like, const char* like_name, const Tensor& indices) {
  trifold::check_same_device(op, like, like_name, indices, "indices");
  trifold::check(indices.scalar_type() == trifold::ScalarType::Long, op, ": indices must be int64, not ",
                 trifold::Dtype{indices}, "; convert it with indices.long()");
}

void check_grad(const Tensor& grad, const Tensor& indices, const std::optional<Tensor>& order, int64_t vocabulary) {
  constexpr const char* op = "embedding_backward";
  trifold::check_floating(op, grad, "grad");
  check_indices(op, grad, "grad", indices);
  bool fits = grad.dim() == indices.dim() + 1;
  for (int64_t d = 0; fits && d < indices.dim(); ++d) fits = grad.size(d) == indices.size(d);
  trifold::check(fits, op, ": grad must have the shape of indices and a last dimension, but grad is ",
                 trifold::Shape{grad}, " and indices is ", trifold::Shape{indices},
                 "; it is the gradient of embedding's result");
  trifold::check(vocabulary >= 0, op, ": vocabulary must not be negative, but is ", vocabulary,
                 "; it is the number of rows of embedding's weight");
  if (!order) return;
  trifold::check_same_device(op, grad, "grad", *order, "order");
  trifold::check(order->scalar_type() == trifold::ScalarType::Long && order->numel() == indices.numel(), op,
                 ": order must be int64, with an element for each of indices, not ", trifold::Dtype{*order},
                 " of shape ", trifold::Shape{*order}, "; it is indices.flatten().argsort(stable=True)");
}

// `x`, or a contiguous copy. torch's own contiguous() costs microseconds even if there is nothing to do.
Tensor dense(const Tensor& x) {
  return x.is_contiguous() ? x : torch::stable::contiguous(x);
}

// A launch in which `lanes` threads share a row of Parts and each moves `loads` of them at a time. A block has as many
// rows as its threads allow, times `rows_a_thread`.
struct RowLaunch {
  dim3 grid, block;

  RowLaunch(int64_t rows, int64_t parts, int64_t loads, int64_t rows_a_thread, bool block_a_row = false) {
    const auto lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(parts, most_lanes))));
    const int64_t height = threads_per_block / lanes, tiles = ceil_div(parts, lanes * loads);
    block = dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(height));
    grid = dim3(static_cast<unsigned>(ceil_div(rows, block_a_row ? 1 : height * rows_a_thread)),
                static_cast<unsigned>(std::min(tiles, most_tiles)));
  }
};

dim3 block_of_elements(int64_t n) {
  return dim3(static_cast<unsigned>(ceil_div(n, threads_per_block)));
}

// Calls use.template operator()<Part>() with pieces of 16 bytes if all rows consist of them, else with elements.
template <class T, class Use>
void with_part(bool in_pieces, Use use) {
  if constexpr (sizeof(T) < sizeof(double))
    if (in_pieces) return use.template operator()<Piece<T>>();
  use.template operator()<Element<T>>();
}

Tensor embedding(const Tensor& indices, const Tensor& weight, bool) {
  trifold::check_floating(name, weight, "weight");
  check_indices(name, weight, "weight", indices);
  trifold::check(weight.dim() == 2, name, ": weight must have two dimensions, (vocabulary, D), not the shape ",
                 trifold::Shape{weight}, "; reshape it with weight.reshape(-1, D)");
  const int64_t positions = indices.numel(), vocabulary = weight.size(0), columns = weight.size(1);
  const trifold::Dims of_indices = indices.sizes();
  std::vector<int64_t> sizes(of_indices.begin(), of_indices.end());
  sizes.push_back(columns);
  const Tensor out = trifold::empty_contiguous(weight, sizes);
  if (out.numel() == 0) return out;
  trifold::dispatch_floating(weight.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(weight);
    const Tensor flat = dense(indices);
    const T* const first = trifold::data<T>(weight);
    T* const to = trifold::mutable_data<T>(out);
    const bool in_pieces = weight.stride(1) == 1 && trifold::in_pieces(first, weight.stride(0), columns) &&
                           trifold::in_pieces<T>(to, columns, columns);
    with_part<T>(in_pieces, [&]<class Part>() {
      const int64_t parts = columns / Part::size;
      const auto start = [&]<int rows_a_thread>() {
        const RowLaunch shape(positions, parts, embedding_loads / rows_a_thread, rows_a_thread);
        trifold::launch_early<embedding_kernel<Part, rows_a_thread>>(
            device.stream(), shape.grid, shape.block, 0, trifold::data<int64_t>(flat), first, weight.stride(0),
            weight.stride(1), to, positions, vocabulary, columns);
      };
      if (parts <= most_lanes)
        start.template operator()<embedding_loads>();
      else
        start.template operator()<1>();
    });
    trifold::check_launch();
  });
  return out;
}

template <class T>
void add_by_atomics(trifold::Stream stream, const Rows& grad, const Tensor& indices, const Tensor& grad_weight) {
  using C = trifold::compute_t<T>;
  constexpr bool rounds = !std::is_same_v<T, C>;
  const int64_t vocabulary = grad_weight.size(0), columns = grad_weight.size(1), elements = vocabulary * columns;
  const Tensor buffer = rounds ? trifold::scratch<T, C>(grad_weight, elements) : grad_weight;
  auto* const sums = reinterpret_cast<C*>(trifold::mutable_data<T>(buffer));
  const dim3 blocks_of_four = block_of_elements(ceil_div(elements, FourNumbers<C>::size));
  trifold::launch_early<embedding_zero_kernel<C>>(stream, blocks_of_four, threads_per_block, 0, sums, elements);
  if (grad.count > 0) {
    const RowLaunch shape(grad.count, columns, 1, embedding_loads);
    trifold::launch_early<embedding_add_kernel<T>>(stream, shape.grid, shape.block, 0, grad.data<T>(), grad.stride,
                                                   trifold::data<int64_t>(indices), sums, grad.count, vocabulary,
                                                   columns);
  }
  if constexpr (rounds)
    trifold::launch_early<embedding_round_kernel<T>>(stream, blocks_of_four, threads_per_block, 0, sums,
                                                     trifold::mutable_data<T>(grad_weight), elements);
}

template <class T>
void add_in_order(trifold::Stream stream, const Rows& grad, const Tensor& indices, const Tensor& order,
                  const Tensor& grad_weight) {
  const int64_t vocabulary = grad_weight.size(0), columns = grad_weight.size(1);
  const Tensor starts = trifold::empty_strided(indices, {vocabulary + 1}, {1});
  const auto* const sorted = trifold::data<int64_t>(order);
  auto* const first_of_row = trifold::mutable_data<int64_t>(starts);
  trifold::launch<embedding_starts_kernel>(stream, block_of_elements(vocabulary + 1), threads_per_block, 0,
                                           trifold::data<int64_t>(indices), sorted, first_of_row, grad.count,
                                           vocabulary);
  const T* const from = grad.data<T>();
  T* const to = trifold::mutable_data<T>(grad_weight);
  const bool in_pieces = trifold::in_pieces(from, grad.stride, columns) && trifold::in_pieces<T>(to, columns, columns);
  with_part<T>(in_pieces, [&]<class Part>() {
    const bool block_a_row = grad.count / vocabulary >= many_positions;
    const RowLaunch shape(vocabulary, columns / Part::size, 1, 1, block_a_row);
    const auto start = [&]<auto Kernel>() {
      trifold::launch<Kernel>(stream, shape.grid, shape.block, 0, from, grad.stride, sorted,
                              static_cast<const int64_t*>(first_of_row), to, vocabulary, columns);
    };
    if (block_a_row)
      start.template operator()<embedding_long_sum_kernel<Part>>();
    else
      start.template operator()<embedding_sum_kernel<Part>>();
  });
}

// `order`: the positions sorted by their index, or none for the form with atomics.
Tensor embedding_backward(const Tensor& grad, const Tensor& indices, std::optional<Tensor> order, int64_t vocabulary) {
  check_grad(grad, indices, order, vocabulary);
  const int64_t columns = grad.size(grad.dim() - 1);
  const Tensor grad_weight = trifold::empty_contiguous(grad, {vocabulary, columns});
  if (grad_weight.numel() == 0) return grad_weight;
  trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(grad);
    const Rows rows = trifold::rows_of(grad);
    if (order)
      add_in_order<T>(device.stream(), rows, dense(indices), dense(*order), grad_weight);
    else
      add_by_atomics<T>(device.stream(), rows, dense(indices), grad_weight);
    trifold::check_launch();
  });
  return grad_weight;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&embedding>(m, "embedding");
  trifold::implement<&embedding_backward>(m, "embedding_backward");
}
