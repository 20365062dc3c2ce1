#include <trifold/launch_functions.h>

#include "layer_norm.cuh"

namespace {

using trifold::Tensor;

std::tuple<Tensor, Tensor> layer_norm(const Tensor& x, const std::optional<Tensor>& weight,
                                      const std::optional<Tensor>& bias, double eps) {
  trifold::check_floating("layer_norm", x, "x");
  trifold::check(x.dim() != 0,
                 "layer_norm: x must have a last dimension to be normalised along, but has none; pass x.reshape(1)");
  if (weight.has_value()) {
    trifold::check(trifold::same_device(weight.value(), x),
                   "layer_norm: x and weight must be on the same device, but x is on ", trifold::Place{x},
                   " and weight is on ", trifold::Place{weight.value()}, "; move one with weight.to(x.device)");
    trifold::check(trifold::same_dtype(weight.value(), x),
                   "layer_norm: x and weight must have the same dtype, but x is ", trifold::Dtype{x}, " and weight is ",
                   trifold::Dtype{weight.value()}, "; convert one with weight.to(x.dtype)");
    if (!trifold::same_sizes(weight.value().sizes(), {x.size(-1)})) {
      trifold::fail("layer_norm: weight must have the shape (", x.size(-1), ",), a number for each column of x, not ",
                    trifold::Shape{weight.value()});
    }
  }
  if (bias.has_value()) {
    trifold::check(trifold::same_device(bias.value(), x),
                   "layer_norm: x and bias must be on the same device, but x is on ", trifold::Place{x},
                   " and bias is on ", trifold::Place{bias.value()}, "; move one with bias.to(x.device)");
    trifold::check(trifold::same_dtype(bias.value(), x), "layer_norm: x and bias must have the same dtype, but x is ",
                   trifold::Dtype{x}, " and bias is ", trifold::Dtype{bias.value()},
                   "; convert one with bias.to(x.dtype)");
    if (!trifold::same_sizes(bias.value().sizes(), {x.size(-1)})) {
      trifold::fail("layer_norm: bias must have the shape (", x.size(-1), ",), a number for each column of x, not ",
                    trifold::Shape{bias.value()});
    }
  }
  const Tensor y = trifold::row_output(x);
  const Tensor statistics = trifold::empty_contiguous(x, {2, trifold::count_of(x, 0, -1)}, trifold::compute_dtype(x));
  const Tensor outputs_0 = trifold::rows(y);
  const Tensor outputs_1 = torch::stable::select(statistics, 0, 0);
  const Tensor outputs_2 = torch::stable::select(statistics, 0, 1);
  const Tensor numbers_0 = !weight.has_value() ? trifold::empty_contiguous(x, {0}) : weight.value();
  const Tensor numbers_1 = !bias.has_value() ? trifold::empty_contiguous(x, {0}) : bias.value();
  const int64_t count = trifold::rows(x).size(0);
  const int64_t columns = trifold::rows(x).size(1);
  if (columns != 0) {
    const int64_t least = trifold::ceil_div(columns, ELEMENTS_PER_THREAD);
    const int64_t team = least <= 4 ? 4 : least <= 32 ? 32 : trifold::threads_per_block;
    if (trifold::rows(x).scalar_type() == trifold::ScalarType::Double || columns > team * ELEMENTS_PER_THREAD) {
      if (count > 0) {
        trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
          const Tensor x_argument = trifold::without_gaps(trifold::rows(x));
          const Tensor weight_argument = trifold::without_gaps(numbers_0);
          const Tensor bias_argument = trifold::without_gaps(numbers_1);
          const trifold::OnDevice device(x);
          trifold::launch<layer_norm_kernel<T>>(
              device.stream(), trifold::extents(count), trifold::extents(trifold::threads_for(columns)), 0,
              trifold::data<T>(x_argument), x_argument.stride(0), trifold::data<T>(weight_argument),
              weight_argument.size(0), trifold::data<T>(bias_argument), bias_argument.size(0),
              trifold::mutable_data<T>(outputs_0), outputs_0.stride(0),
              trifold::mutable_data<trifold::compute_t<T>>(outputs_1),
              trifold::mutable_data<trifold::compute_t<T>>(outputs_2), count, columns, eps);
          trifold::check_launch();
        });
      }
    } else {
      const int64_t grid = trifold::ceil_div(count * team, trifold::threads_per_block);
      if (grid > 0) {
        trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
          if constexpr (!std::is_same_v<T, double>) {
            const Tensor x_argument = trifold::without_gaps(trifold::rows(x));
            const Tensor weight_argument = trifold::without_gaps(numbers_0);
            const Tensor bias_argument = trifold::without_gaps(numbers_1);
            const trifold::OnDevice device(x);
            trifold::launch<layer_norm_rows_kernel<T>>(
                device.stream(), trifold::extents(grid), dim3(trifold::threads_per_block), 0,
                trifold::data<T>(x_argument), x_argument.stride(0), trifold::data<T>(weight_argument),
                weight_argument.size(0), trifold::data<T>(bias_argument), bias_argument.size(0),
                trifold::mutable_data<T>(outputs_0), outputs_0.stride(0),
                trifold::mutable_data<trifold::compute_t<T>>(outputs_1),
                trifold::mutable_data<trifold::compute_t<T>>(outputs_2), count, columns, eps, team);
            trifold::check_launch();
          }
        });
      }
    }
  }
  return {y, statistics};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const std::optional<Tensor>& weight, const Tensor& statistics,
                                                       bool parameters) {
  trifold::check_floating("layer_norm_backward", x, "x");
  trifold::check(
      x.dim() != 0,
      "layer_norm_backward: x must have a last dimension to be normalised along, but has none; pass x.reshape(1)");
  trifold::check_alike("layer_norm_backward", x, "x", grad, "grad");
  trifold::check(trifold::dtype_code(statistics) == trifold::compute_dtype(x),
                 "layer_norm_backward: statistics must be of the dtype that the forward function gives it, not ",
                 trifold::Dtype{statistics});
  trifold::check(statistics.dim() == 2, "layer_norm_backward: statistics must have 2 dimensions, but is of shape ",
                 trifold::Shape{statistics});
  if (weight.has_value()) {
    trifold::check(trifold::same_device(weight.value(), x),
                   "layer_norm_backward: x and weight must be on the same device, but x is on ", trifold::Place{x},
                   " and weight is on ", trifold::Place{weight.value()}, "; move one with weight.to(x.device)");
    trifold::check(trifold::same_dtype(weight.value(), x),
                   "layer_norm_backward: x and weight must have the same dtype, but x is ", trifold::Dtype{x},
                   " and weight is ", trifold::Dtype{weight.value()}, "; convert one with weight.to(x.dtype)");
    if (!trifold::same_sizes(weight.value().sizes(), {x.size(-1)})) {
      trifold::fail("layer_norm_backward: weight must have the shape (", x.size(-1),
                    ",), a number for each column of x, not ", trifold::Shape{weight.value()});
    }
  }
  const Tensor grad_x = trifold::row_output(x);
  const Tensor grad_weight = trifold::empty_contiguous(x, {parameters ? x.size(-1) : 0});
  const Tensor grad_bias = trifold::empty_contiguous(x, {parameters ? x.size(-1) : 0});
  const int64_t count = trifold::rows(x).size(0);
  const int64_t columns = trifold::rows(x).size(1);
  const Tensor operands_0 = trifold::rows(grad);
  const Tensor operands_1 = trifold::rows(x);
  const Tensor moments_0 = torch::stable::select(statistics, 0, 0);
  const Tensor moments_1 = torch::stable::select(statistics, 0, 1);
  const int64_t blocks = count * (columns > 0);
  trifold::check_same_device("layer_norm_backward", x, "x", statistics, "statistics");
  if (blocks > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor grad_argument = trifold::without_gaps(operands_0);
      const Tensor x_argument = trifold::without_gaps(operands_1);
      const Tensor weight_argument =
          trifold::without_gaps(!weight.has_value() ? trifold::empty_contiguous(x, {0}) : weight.value());
      const Tensor mean_argument = trifold::without_gaps(moments_0);
      const Tensor rstd_argument = trifold::without_gaps(moments_1);
      const Tensor grad_x_argument = trifold::rows(grad_x);
      const trifold::OnDevice device(x);
      trifold::launch<layer_norm_backward_kernel<T>>(
          device.stream(), trifold::extents(blocks), trifold::extents(trifold::threads_for(columns)), 0,
          trifold::data<T>(grad_argument), grad_argument.stride(0), trifold::data<T>(x_argument), x_argument.stride(0),
          trifold::data<T>(weight_argument), weight_argument.size(0),
          trifold::data<trifold::compute_t<T>>(mean_argument), trifold::data<trifold::compute_t<T>>(rstd_argument),
          trifold::mutable_data<T>(grad_x_argument), grad_x_argument.stride(0), count, columns);
      trifold::check_launch();
    });
  }
  if (parameters) {
    const int64_t across = std::max<int64_t>(1, trifold::ceil_div(columns, COLUMN_BLOCK));
    const int64_t rows_a_part =
        std::max<int64_t>(8 * COLUMN_THREADS, trifold::ceil_div(count, std::max<int64_t>(1, 1056 / across)));
    const int64_t shares = std::max<int64_t>(1, trifold::ceil_div(count, rows_a_part));
    const Tensor parts = trifold::empty_contiguous(statistics, {2, shares, columns});
    const int64_t blocks_x = trifold::ceil_div(columns, COLUMN_BLOCK);
    if (blocks_x > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const Tensor grad_argument = trifold::without_gaps(operands_0);
        const Tensor x_argument = trifold::without_gaps(operands_1);
        const Tensor mean_argument = trifold::without_gaps(moments_0);
        const Tensor rstd_argument = trifold::without_gaps(moments_1);
        const trifold::OnDevice device(x);
        trifold::launch<layer_norm_weight_gradient_kernel<T>>(
            device.stream(), trifold::extents(blocks_x, shares), dim3(COLUMN_BLOCK, COLUMN_THREADS), 0,
            trifold::data<T>(grad_argument), grad_argument.stride(0), trifold::data<T>(x_argument),
            x_argument.stride(0), trifold::data<trifold::compute_t<T>>(mean_argument),
            trifold::data<trifold::compute_t<T>>(rstd_argument), trifold::mutable_data<trifold::compute_t<T>>(parts),
            parts.stride(0), parts.stride(1), count, rows_a_part, columns);
        trifold::check_launch();
      });
    }
    const int64_t count2 = parts.size(1);
    const int64_t columns2 = parts.size(2);
    const int64_t blocks_x2 = trifold::ceil_div(columns2, COLUMN_BLOCK);
    if (blocks_x2 > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const trifold::OnDevice device(x);
        trifold::launch<sum_parts_kernel<T>>(
            device.stream(), trifold::extents(blocks_x2, 2), dim3(COLUMN_BLOCK, COLUMN_THREADS), 0,
            trifold::data<trifold::compute_t<T>>(parts), parts.stride(0), parts.stride(1),
            trifold::mutable_data<T>(grad_weight), trifold::mutable_data<T>(grad_bias), count2, columns2);
        trifold::check_launch();
      });
    }
  }
  return {grad_x, grad_weight, grad_bias};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&layer_norm>(m, "layer_norm");
  trifold::implement<&layer_norm_backward>(m, "layer_norm_backward");
}
