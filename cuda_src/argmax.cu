#include <trifold/rows.h>

#include "argmax.cuh"

namespace {

using trifold::Rows, trifold::Tensor;

constexpr const char* name = "argmax";
constexpr const char* backward_name = "argmax_backward";

// Blocks of 256 threads: four times as many as an H200 runs at once, so that the last wave leaves few multiprocessors
// idle.
constexpr int64_t blocks_wanted = 4 * 8 * 132;
constexpr int64_t least_vectors = 2048;  // per slice: eight per thread

template <class T>
int64_t slices_for(int64_t rows, int64_t columns) {
  return slices_of(rows, columns, least_vectors * trifold::Vector<T>::size, blocks_wanted);
}

// Writes one result per slice of each row.
template <class T>
void launch_slices(trifold::Stream stream, const T* x, int64_t x_stride, const int64_t* columns_of, T* values,
                   int64_t* indices, int64_t rows, int64_t columns, int64_t slices) {
  const int64_t share = columns / slices;
  with_team<T>(share, [&]<int team>() {
    trifold::launch_early<argmax_kernel<T, team>>(stream, grid_of_teams<team>(rows, slices), argmax_block, 0, x,
                                                  x_stride, columns_of, values, indices, rows, columns, share);
  });
}

template <class T>
void launch_argmax(trifold::Stream stream, const Rows& x, T* values, int64_t* indices) {
  const T* const first = x.data<T>();
  const int64_t slices = slices_for<T>(x.count, x.columns);
  if (slices == 1) return launch_slices<T>(stream, first, x.stride, nullptr, values, indices, x.count, x.columns, 1);
  const Tensor values_of_slices = trifold::empty_contiguous(x.tensor, {x.count, slices}),
               columns_of = trifold::empty_contiguous(x.tensor, {x.count, slices}, aoti_torch_dtype_int64());
  T* const parts = trifold::mutable_data<T>(values_of_slices);
  int64_t* const places = trifold::mutable_data<int64_t>(columns_of);
  launch_slices<T>(stream, first, x.stride, nullptr, parts, places, x.count, x.columns, slices);
  launch_slices<T>(stream, parts, slices, places, values, indices, x.count, slices, 1);
}

std::tuple<Tensor, Tensor> argmax(const Tensor& x) {
  trifold::check_floating(name, x, "x");
  const trifold::Dims sizes = x.sizes();
  const trifold::Dims leading(sizes.data(), std::max<std::size_t>(sizes.size(), 1) - 1);
  trifold::check(sizes.size() == 0 || sizes[sizes.size() - 1] > 0, name, ": x must have a column, but is of shape ",
                 trifold::Shape{x}, "; pass one column or more");
  const Tensor values = trifold::empty_contiguous(x, leading),
               indices = trifold::empty_contiguous(x, leading, aoti_torch_dtype_int64());
  if (const Rows rows = trifold::rows_of(x); !rows.empty())
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(x);
      launch_argmax<T>(device.stream(), rows, trifold::mutable_data<T>(values),
                       trifold::mutable_data<int64_t>(indices));
      trifold::check_launch();
    });
  return {values, indices};
}

Tensor dense(const Tensor& x) {
  return x.is_contiguous() ? x : torch::stable::contiguous(x);
}

Tensor argmax_backward(const Tensor& grad_values, const Tensor& indices, int64_t columns) {
  trifold::check_floating(backward_name, grad_values, "grad_values");
  trifold::check_same_device(backward_name, grad_values, "grad_values", indices, "indices");
  trifold::check(indices.scalar_type() == trifold::ScalarType::Long, backward_name, ": indices must be int64, not ",
                 trifold::Dtype{indices}, "; they are the second result of argmax");
  trifold::check_same_shape(backward_name, grad_values, "grad_values", indices, "indices");
  trifold::check(columns > 0, backward_name, ": columns must be positive, but is ", columns,
                 "; it is the size of the last dimension of x");
  const trifold::Dims leading = grad_values.sizes();
  std::vector<int64_t> sizes(leading.begin(), leading.end());
  sizes.push_back(columns);
  const Tensor grad_x = trifold::empty_contiguous(grad_values, sizes);
  const int64_t rows = grad_values.numel();
  if (rows == 0) return grad_x;
  const Tensor grad = dense(grad_values), places = dense(indices);
  trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(grad);
    const int64_t slices = slices_for<T>(rows, columns), share = columns / slices;
    with_team<T>(share, [&]<int team>() {
      trifold::launch_early<argmax_backward_kernel<T, team>>(
          device.stream(), grid_of_teams<team>(rows, slices), argmax_block, 0, trifold::data<T>(grad),
          trifold::data<int64_t>(places), trifold::mutable_data<T>(grad_x), rows, columns, share);
    });
    trifold::check_launch();
  });
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&argmax>(m, "argmax");
  trifold::implement<&argmax_backward>(m, "argmax_backward");
}
