#include <trifold/launch_functions.h>

#include "argmax.cuh"

namespace {

using trifold::Tensor;

constexpr int LEAST_VECTORS = 2048;
constexpr int BLOCKS_WANTED = 4224;

std::tuple<Tensor, Tensor> argmax(const Tensor& x) {
  trifold::check_floating("argmax", x, "x");
  trifold::check(x.dim() == 0 || x.size(-1) > 0, "argmax: x must have a column, but is of shape ", trifold::Shape{x},
                 "; pass one column or more");
  const Tensor values = trifold::empty_contiguous(x, trifold::sizes(trifold::sizes_of(x, 0, -1)));
  const Tensor indices = trifold::empty_contiguous(x, trifold::sizes(trifold::sizes_of(x, 0, -1)),
                                                   trifold::dtype_code(trifold::ScalarType::Long));
  const Tensor matrix = trifold::rows(x);
  const int64_t count = matrix.size(0);
  const int64_t columns = matrix.size(1);
  if (count == 0) {
    return {values, indices};
  }
  const int64_t least = LEAST_VECTORS * (16 / static_cast<int64_t>(x.element_size()));
  const int64_t wanted = std::min<int64_t>(trifold::ceil_div(BLOCKS_WANTED, count), columns / least);
  const int64_t slices = std::max<int64_t>({wanted, trifold::ceil_div(columns, 1073741824), 1});
  const Tensor results_0 = torch::stable::reshape(values, {-1});
  const Tensor results_1 = torch::stable::reshape(indices, {-1});
  const Tensor own = trifold::empty_contiguous(indices, {0, 0});
  if (slices == 1) {
    const int64_t count2 = matrix.size(0);
    const int64_t columns2 = matrix.size(1);
    const int64_t vectors = columns2 / (16 / static_cast<int64_t>(matrix.element_size()));
    const int64_t team = vectors <= 16 ? 4 : vectors <= 512 ? 32 : trifold::threads_per_block;
    const int64_t blocks = trifold::ceil_div(count2, trifold::threads_per_block / team);
    if (blocks > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const Tensor x_argument = trifold::without_gaps(matrix);
        const trifold::OnDevice device(x);
        trifold::launch<argmax_kernel<T>>(device.stream(), trifold::extents(blocks, 1),
                                          dim3(trifold::threads_per_block), 0, trifold::data<T>(x_argument),
                                          x_argument.stride(0), trifold::data<int64_t>(own), own.stride(0), own.numel(),
                                          trifold::mutable_data<T>(results_0),
                                          trifold::mutable_data<int64_t>(results_1), count2, columns2, columns2, team);
        trifold::check_launch();
      });
    }
  } else {
    const Tensor parts = trifold::empty_contiguous(x, {count, slices});
    const Tensor columns_of = trifold::empty_contiguous(indices, {count, slices});
    const int64_t count3 = matrix.size(0);
    const int64_t columns3 = matrix.size(1);
    const int64_t share = columns3 / slices;
    const int64_t vectors2 = share / (16 / static_cast<int64_t>(matrix.element_size()));
    const int64_t team2 = vectors2 <= 16 ? 4 : vectors2 <= 512 ? 32 : trifold::threads_per_block;
    const int64_t blocks_x = trifold::ceil_div(count3, trifold::threads_per_block / team2);
    if (blocks_x > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const Tensor x_argument = trifold::without_gaps(matrix);
        const Tensor values_argument = torch::stable::reshape(parts, {-1});
        const Tensor indices_argument = torch::stable::reshape(columns_of, {-1});
        const trifold::OnDevice device(x);
        trifold::launch<argmax_kernel<T>>(
            device.stream(), trifold::extents(blocks_x, slices), dim3(trifold::threads_per_block), 0,
            trifold::data<T>(x_argument), x_argument.stride(0), trifold::data<int64_t>(own), own.stride(0), own.numel(),
            trifold::mutable_data<T>(values_argument), trifold::mutable_data<int64_t>(indices_argument), count3,
            columns3, share, team2);
        trifold::check_launch();
      });
    }
    const int64_t count4 = parts.size(0);
    const int64_t columns4 = parts.size(1);
    const int64_t vectors3 = columns4 / (16 / static_cast<int64_t>(parts.element_size()));
    const int64_t team3 = vectors3 <= 16 ? 4 : vectors3 <= 512 ? 32 : trifold::threads_per_block;
    const int64_t blocks2 = trifold::ceil_div(count4, trifold::threads_per_block / team3);
    if (blocks2 > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const trifold::OnDevice device(x);
        trifold::launch<argmax_kernel<T>>(device.stream(), trifold::extents(blocks2, 1),
                                          dim3(trifold::threads_per_block), 0, trifold::data<T>(parts), parts.stride(0),
                                          trifold::data<int64_t>(columns_of), columns_of.stride(0), columns_of.numel(),
                                          trifold::mutable_data<T>(results_0),
                                          trifold::mutable_data<int64_t>(results_1), count4, columns4, columns4, team3);
        trifold::check_launch();
      });
    }
  }
  return {values, indices};
}

Tensor argmax_backward(const Tensor& grad_values, const Tensor& indices, int64_t columns) {
  trifold::check_floating("argmax_backward", grad_values, "grad_values");
  const bool right =
      indices.scalar_type() == trifold::ScalarType::Long && trifold::same_sizes(indices.sizes(), grad_values.sizes());
  trifold::check(right,
                 "argmax_backward: indices must be int64, of the shape of grad_values; pass argmax's second result");
  trifold::check(columns > 0, "argmax_backward: columns must be positive, but is ", columns, "; pass that number of x");
  const Tensor grad_x =
      trifold::empty_contiguous(grad_values, trifold::sizes(trifold::sizes_of(grad_values, 0, 0), columns));
  const int64_t count = grad_values.numel();
  if (count == 0) {
    return grad_x;
  }
  const int64_t least = LEAST_VECTORS * (16 / static_cast<int64_t>(grad_x.element_size()));
  const int64_t wanted = std::min<int64_t>(trifold::ceil_div(BLOCKS_WANTED, count), columns / least);
  const int64_t slices = std::max<int64_t>({wanted, trifold::ceil_div(columns, 1073741824), 1});
  const int64_t share = columns / slices;
  const int64_t vectors = share / (16 / static_cast<int64_t>(grad_x.element_size()));
  const int64_t team = vectors <= 16 ? 4 : vectors <= 512 ? 32 : trifold::threads_per_block;
  const int64_t blocks_x = trifold::ceil_div(count, trifold::threads_per_block / team);
  trifold::check_same_device("argmax_backward", grad_values, "grad_values", indices, "indices");
  if (blocks_x > 0) {
    trifold::dispatch_floating(grad_values.scalar_type(), [&]<class T>() {
      const Tensor grad_values_argument = trifold::without_gaps(torch::stable::reshape(grad_values, {-1}));
      const Tensor indices_argument = trifold::without_gaps(torch::stable::reshape(indices, {-1}));
      const Tensor grad_x_argument = trifold::rows(grad_x);
      const trifold::OnDevice device(grad_values);
      trifold::launch<argmax_backward_kernel<T>>(
          device.stream(), trifold::extents(blocks_x, slices), dim3(trifold::threads_per_block), 0,
          trifold::data<T>(grad_values_argument), trifold::data<int64_t>(indices_argument),
          trifold::mutable_data<T>(grad_x_argument), grad_x_argument.stride(0), count, columns, share, team);
      trifold::check_launch();
    });
  }
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&argmax>(m, "argmax");
  trifold::implement<&argmax_backward>(m, "argmax_backward");
}
