#include <trifold/rows.h>

#include "scatter_add.cuh"

#include <bit>

namespace {

using trifold::Rows, trifold::Tensor;

constexpr const char* name = "scatter_add";
constexpr const char* backward_name = "scatter_add_backward";
constexpr int64_t most_blocks_down = 65535;

void check_matrix(const char* op, const Tensor& x, const char* x_name) {
  trifold::check_floating(op, x, x_name);
  trifold::check(x.dim() == 2, op, ": ", x_name, " must have two dimensions, not the shape ", trifold::Shape{x},
                 "; flatten what is in a row with ", x_name, ".flatten(1)");
}

void check_index(const char* op, const Tensor& x, const char* x_name, const Tensor& index) {
  trifold::check_same_device(op, x, x_name, index, "index");
  trifold::check(index.scalar_type() == trifold::ScalarType::Long, op, ": index must be int64, not ",
                 trifold::Dtype{index}, "; convert it with index.long()");
  trifold::check(index.dim() == 1, op, ": index must have one dimension, not the shape ", trifold::Shape{index},
                 "; flatten it with index.reshape(-1)");
}

// Each thread has a column, and scatter_add_rows_a_thread rows at a time.
struct Tiles {
  dim3 grid, block;

  Tiles(int64_t rows, int64_t columns) {
    using trifold::ceil_div;
    const auto wide = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(columns)));
    const int64_t lanes = std::min<int64_t>(wide, scatter_add_most_lanes), apart = scatter_add_block / lanes;
    const int64_t down = std::min(ceil_div(rows, apart * scatter_add_rows_a_thread), most_blocks_down);
    grid = dim3(static_cast<unsigned>(ceil_div(columns, lanes)), static_cast<unsigned>(down));
    block = dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(apart));
  }
};

template <class T>
void launch_scatter_add(trifold::Stream stream, const Rows& source, const Tensor& index, const Tensor& out) {
  using C = trifold::compute_t<T>;
  using trifold::ceil_div, trifold::threads_per_block;
  constexpr bool is_half = sizeof(T) < sizeof(C);
  const int64_t n = out.numel(), size = out.size(0);
  if (n == 0) return;
  Tensor buffer = out;
  if constexpr (is_half) buffer = trifold::scratch<T, C>(out, n);
  C* const sums = reinterpret_cast<C*>(trifold::mutable_data<T>(buffer));
  const trifold::Share share = trifold::share_out<C>(n, trifold::elements_to_boundary(sums));
  trifold::launch_early<scatter_add_zero_kernel<C>>(
      stream, dim3(static_cast<unsigned>(ceil_div(share.threads(), trifold::vector_block))), trifold::vector_block, 0,
      sums, share);
  if (!source.empty()) {
    const Tiles tiles(source.count, source.columns);
    trifold::launch_early<scatter_add_kernel<T>>(stream, tiles.grid, tiles.block, 0, source.data<T>(), source.stride,
                                                 trifold::data<int64_t>(index), index.stride(0), sums, source.count,
                                                 source.columns, size);
  }
  if constexpr (is_half) {
    const int64_t threads = ceil_div(n, FourNumbers<T>::size);
    trifold::launch_early<scatter_add_round_kernel<T>>(
        stream, dim3(static_cast<unsigned>(ceil_div(threads, threads_per_block))), threads_per_block, 0, sums,
        trifold::mutable_data<T>(out), n);
  }
}

Tensor scatter_add(const Tensor& source, const Tensor& index, int64_t size) {
  check_matrix(name, source, "source");
  check_index(name, source, "source", index);
  trifold::check(index.size(0) == source.size(0), name,
                 ": index must have one number for each row of source, but source is ", trifold::Shape{source},
                 " and index is ", trifold::Shape{index},
                 "; pass the row of the result that each row of source is added to");
  trifold::check(size >= 0, name, ": size must not be negative, but is ", size, "; pass 0 or more");
  const Tensor out = trifold::empty_contiguous(source, {size, source.size(1)});
  trifold::dispatch_floating(source.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(source);
    launch_scatter_add<T>(device.stream(), trifold::rows_of(source), index, out);
    trifold::check_launch();
  });
  return out;
}

// U: T, or vectors of T if rows consist of them.
template <class T, class U>
void launch_backward(trifold::Stream stream, const Rows& grad, const Tensor& index, const Tensor& grad_source) {
  constexpr int64_t width = sizeof(U) / sizeof(T);
  const int64_t rows = grad_source.size(0), columns = grad.columns / width;
  const Tiles tiles(rows, columns);
  trifold::launch_early<scatter_add_backward_kernel<U>>(
      stream, tiles.grid, tiles.block, 0, reinterpret_cast<const U*>(grad.data<T>()), grad.stride / width,
      trifold::data<int64_t>(index), index.stride(0), reinterpret_cast<U*>(trifold::mutable_data<T>(grad_source)), rows,
      columns, grad.count);
}

Tensor scatter_add_backward(const Tensor& grad, const Tensor& index) {
  check_matrix(backward_name, grad, "grad");
  check_index(backward_name, grad, "grad", index);
  const Rows from = trifold::rows_of(grad);
  const Tensor grad_source = trifold::empty_contiguous(grad, {index.size(0), from.columns});
  if (grad_source.numel() == 0) return grad_source;
  trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(grad);
    const T* const to = trifold::mutable_data<T>(grad_source);
    if (trifold::in_pieces(from.data<T>(), from.stride, from.columns) &&
        trifold::in_pieces(to, from.columns, from.columns))
      launch_backward<T, trifold::Vector<T>>(device.stream(), from, index, grad_source);
    else
      launch_backward<T, T>(device.stream(), from, index, grad_source);
    trifold::check_launch();
  });
  return grad_source;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&scatter_add>(m, "scatter_add");
  trifold::implement<&scatter_add_backward>(m, "scatter_add_backward");
}
