#include <trifold/rows.h>

#include "topk.cuh"

namespace {

using trifold::Rows, trifold::Tensor;

constexpr const char* name = "topk";
constexpr const char* backward_name = "topk_backward";

// Blocks wanted in all slices; there may be so many that their candidates fill several tiles.
constexpr int64_t blocks_wanted = 4 * 132;
constexpr int64_t least_vectors = 4096;  // per slice: four tiles of 256 threads

// For the backward pass, which mostly writes zeros: in longer slices of fewer blocks that takes up to 1.4 times as long
// on an H200 (benchmarks/notes/ten_ops.md).
constexpr int64_t backward_blocks_wanted = 32 * 8 * 132;
constexpr int64_t backward_least_vectors = 2048;

// Writes k results per slice of each row. Fewer threads process a row that fits in one of their tiles: sorting costs
// less.
template <class T>
void launch_slices(trifold::Stream stream, const T* x, int64_t x_stride, const int64_t* columns_of, T* values,
                   int64_t* indices, int64_t rows, int64_t columns, int64_t slices, int k) {
  constexpr int few = 64, many = 256;
  const int64_t share = columns / slices;
  const dim3 grid(trifold::block_a_row(rows).x, static_cast<unsigned>(slices));
  const auto start = [&]<int threads, int capacity>() {
    trifold::launch_early<topk_kernel<T, threads, capacity>>(stream, grid, threads, 0, x, x_stride, columns_of, values,
                                                             indices, rows, columns, share, k);
  };
  constexpr int64_t tile = few * topk_vectors * trifold::Vector<T>::size;
  if (share <= 4 * few || (k <= few / 2 && share <= tile))
    start.template operator()<few, 4 * few>();
  else
    start.template operator()<many, 2 * many>();
}

template <class T>
void launch_topk(trifold::Stream stream, const Rows& x, T* values, int64_t* indices, int k) {
  const T* const first = x.data<T>();
  const int64_t slices = slices_of(x.count, x.columns, least_vectors * trifold::Vector<T>::size, blocks_wanted);
  if (slices == 1) return launch_slices<T>(stream, first, x.stride, nullptr, values, indices, x.count, x.columns, 1, k);
  const int64_t candidates = slices * k;
  const Tensor values_of_slices = trifold::empty_contiguous(x.tensor, {x.count, candidates}),
               columns_of = trifold::empty_contiguous(x.tensor, {x.count, candidates}, aoti_torch_dtype_int64());
  T* const parts = trifold::mutable_data<T>(values_of_slices);
  int64_t* const places = trifold::mutable_data<int64_t>(columns_of);
  launch_slices<T>(stream, first, x.stride, nullptr, parts, places, x.count, x.columns, slices, k);
  launch_slices<T>(stream, parts, candidates, places, values, indices, x.count, candidates, 1, k);
}

// The sizes with the last one replaced. A tensor without dimensions is a row of one column, and so are its results.
std::vector<int64_t> with_columns(trifold::Dims sizes, int64_t columns) {
  std::vector<int64_t> changed(sizes.begin(), sizes.end());
  if (!changed.empty()) changed.back() = columns;
  return changed;
}

std::tuple<Tensor, Tensor> topk(const Tensor& x, int64_t k) {
  trifold::check_floating(name, x, "x");
  trifold::check(k >= 1 && k <= topk_most, name, ": k must be from 1 to ", topk_most, ", but is ", k,
                 "; of more numbers, sort all with torch.sort(x, descending=True)");
  const int64_t columns = x.dim() == 0 ? 1 : x.size(x.dim() - 1);
  trifold::check(k <= columns, name, ": k must not exceed the last dimension of x, but is ", k, ", and x is of shape ",
                 trifold::Shape{x}, "; pass a smaller k");
  const std::vector<int64_t> sizes = with_columns(x.sizes(), k);
  const Tensor values = trifold::empty_contiguous(x, sizes),
               indices = trifold::empty_contiguous(x, sizes, aoti_torch_dtype_int64());
  if (const Rows rows = trifold::rows_of(x); !rows.empty())
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(x);
      launch_topk<T>(device.stream(), rows, trifold::mutable_data<T>(values), trifold::mutable_data<int64_t>(indices),
                     static_cast<int>(k));
      trifold::check_launch();
    });
  return {values, indices};
}

Tensor dense(const Tensor& x) {
  return x.is_contiguous() ? x : torch::stable::contiguous(x);
}

Tensor topk_backward(const Tensor& grad_values, const Tensor& indices, int64_t columns) {
  trifold::check_floating(backward_name, grad_values, "grad_values");
  trifold::check_same_device(backward_name, grad_values, "grad_values", indices, "indices");
  trifold::check(indices.scalar_type() == trifold::ScalarType::Long, backward_name, ": indices must be int64, not ",
                 trifold::Dtype{indices}, "; they are the second result of topk");
  trifold::check_same_shape(backward_name, grad_values, "grad_values", indices, "indices");
  const Rows grad = trifold::rows_of(dense(grad_values));
  trifold::check(columns >= grad.columns, backward_name, ": columns must not be less than k, but is ", columns,
                 ", and grad_values is of shape ", trifold::Shape{grad_values},
                 "; it is the size of the last dimension of x");
  const Tensor grad_x = trifold::empty_contiguous(grad_values, with_columns(grad_values.sizes(), columns));
  if (grad.empty()) return grad_x;
  const Tensor places = dense(indices);
  trifold::dispatch_floating(grad_values.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(grad_values);
    const int64_t slices =
        slices_of(grad.count, columns, backward_least_vectors * trifold::Vector<T>::size, backward_blocks_wanted);
    const int64_t share = columns / slices;
    with_team<T>(share, [&]<int team>() {
      trifold::launch_early<topk_backward_kernel<T, team>>(
          device.stream(), grid_of_teams<team>(grad.count, slices), argmax_block, 0, grad.data<T>(),
          trifold::data<int64_t>(places), trifold::mutable_data<T>(grad_x), grad.count, columns, share,
          static_cast<int>(grad.columns));
    });
    trifold::check_launch();
  });
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&topk>(m, "topk");
  trifold::implement<&topk_backward>(m, "topk_backward");
}
