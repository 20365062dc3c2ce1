#include <trifold/launch_functions.h>

#include "rms_norm.cuh"

namespace {

using trifold::Tensor;

std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, const std::optional<Tensor>& weight, double eps) {
  trifold::check_floating("rms_norm", x, "x");
  trifold::check(x.dim() != 0,
                 "rms_norm: x must have a last dimension to be normalised along, but has none; pass x.reshape(1)");
  if (weight.has_value()) {
    trifold::check(trifold::same_device(weight.value(), x),
                   "rms_norm: x and weight must be on the same device, but x is on ", trifold::Place{x},
                   " and weight is on ", trifold::Place{weight.value()}, "; move one with weight.to(x.device)");
    trifold::check(trifold::same_dtype(weight.value(), x), "rms_norm: x and weight must have the same dtype, but x is ",
                   trifold::Dtype{x}, " and weight is ", trifold::Dtype{weight.value()},
                   "; convert one with weight.to(x.dtype)");
    if (!trifold::same_sizes(weight.value().sizes(), {x.size(-1)})) {
      trifold::fail("rms_norm: weight must have the shape (", x.size(-1), ",), a number for each column of x, not ",
                    trifold::Shape{weight.value()});
    }
  }
  const Tensor y = trifold::row_output(x);
  const Tensor rstd = trifold::empty_contiguous(x, {1, trifold::count_of(x, 0, -1)}, trifold::compute_dtype(x));
  const Tensor outputs_0 = trifold::rows(y);
  const Tensor outputs_1 = torch::stable::reshape(rstd, {-1});
  const int64_t count = trifold::rows(x).size(0);
  const int64_t columns = trifold::rows(x).size(1);
  if (columns != 0) {
    const int64_t least = trifold::ceil_div(columns, ELEMENTS_PER_THREAD);
    const int64_t team = least <= 4 ? 4 : least <= 32 ? 32 : trifold::threads_per_block;
    if (trifold::rows(x).scalar_type() == trifold::ScalarType::Double || columns > team * ELEMENTS_PER_THREAD) {
      if (count > 0) {
        trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
          const Tensor x_argument = trifold::without_gaps(trifold::rows(x));
          const Tensor weight_argument =
              trifold::without_gaps(!weight.has_value() ? trifold::empty_contiguous(x, {0}) : weight.value());
          const trifold::OnDevice device(x);
          trifold::launch<rms_norm_kernel<T>>(
              device.stream(), trifold::extents(count), trifold::extents(trifold::threads_for(columns)), 0,
              trifold::data<T>(x_argument), x_argument.stride(0), trifold::data<T>(weight_argument),
              weight_argument.size(0), trifold::mutable_data<T>(outputs_0), outputs_0.stride(0),
              trifold::mutable_data<trifold::compute_t<T>>(outputs_1), count, columns, eps);
          trifold::check_launch();
        });
      }
    } else {
      const int64_t grid = trifold::ceil_div(count * team, trifold::threads_per_block);
      if (grid > 0) {
        trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
          if constexpr (!std::is_same_v<T, double>) {
            const Tensor x_argument = trifold::without_gaps(trifold::rows(x));
            const Tensor weight_argument =
                trifold::without_gaps(!weight.has_value() ? trifold::empty_contiguous(x, {0}) : weight.value());
            const trifold::OnDevice device(x);
            trifold::launch<rms_norm_rows_kernel<T>>(
                device.stream(), trifold::extents(grid), dim3(trifold::threads_per_block), 0,
                trifold::data<T>(x_argument), x_argument.stride(0), trifold::data<T>(weight_argument),
                weight_argument.size(0), trifold::mutable_data<T>(outputs_0), outputs_0.stride(0),
                trifold::mutable_data<trifold::compute_t<T>>(outputs_1), count, columns, eps, team);
            trifold::check_launch();
          }
        });
      }
    }
  }
  return {y, rstd};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x, const std::optional<Tensor>& weight,
                                             const Tensor& rstd, bool parameters) {
  trifold::check_floating("rms_norm_backward", x, "x");
  trifold::check(
      x.dim() != 0,
      "rms_norm_backward: x must have a last dimension to be normalised along, but has none; pass x.reshape(1)");
  trifold::check_alike("rms_norm_backward", x, "x", grad, "grad");
  trifold::check(trifold::dtype_code(rstd) == trifold::compute_dtype(x),
                 "rms_norm_backward: rstd must be of the dtype that the forward function gives it, not ",
                 trifold::Dtype{rstd});
  trifold::check(rstd.dim() == 2, "rms_norm_backward: rstd must have 2 dimensions, but is of shape ",
                 trifold::Shape{rstd});
  if (weight.has_value()) {
    trifold::check(trifold::same_device(weight.value(), x),
                   "rms_norm_backward: x and weight must be on the same device, but x is on ", trifold::Place{x},
                   " and weight is on ", trifold::Place{weight.value()}, "; move one with weight.to(x.device)");
    trifold::check(trifold::same_dtype(weight.value(), x),
                   "rms_norm_backward: x and weight must have the same dtype, but x is ", trifold::Dtype{x},
                   " and weight is ", trifold::Dtype{weight.value()}, "; convert one with weight.to(x.dtype)");
    if (!trifold::same_sizes(weight.value().sizes(), {x.size(-1)})) {
      trifold::fail("rms_norm_backward: weight must have the shape (", x.size(-1),
                    ",), a number for each column of x, not ", trifold::Shape{weight.value()});
    }
  }
  const Tensor grad_x = trifold::row_output(x);
  const Tensor grad_weight = trifold::empty_contiguous(x, {parameters ? x.size(-1) : 0});
  const int64_t count = trifold::rows(x).size(0);
  const int64_t columns = trifold::rows(x).size(1);
  const Tensor operands_0 = trifold::rows(grad);
  const Tensor operands_1 = trifold::rows(x);
  const Tensor r = torch::stable::reshape(rstd, {-1});
  const int64_t grid = count * (columns > 0);
  const int64_t block = trifold::threads_for(columns);
  const Tensor outputs_0 = !weight.has_value() ? trifold::empty_contiguous(x, {0}) : weight.value();
  const Tensor outputs_2 = trifold::rows(grad_x);
  trifold::check_same_device("rms_norm_backward", x, "x", rstd, "rstd");
  if (grid > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor grad_argument = trifold::without_gaps(operands_0);
      const Tensor x_argument = trifold::without_gaps(operands_1);
      const Tensor weight_argument = trifold::without_gaps(outputs_0);
      const Tensor rstd_argument = trifold::without_gaps(r);
      const trifold::OnDevice device(x);
      trifold::launch<rms_norm_backward_kernel<T>>(
          device.stream(), trifold::extents(grid), trifold::extents(block), 0, trifold::data<T>(grad_argument),
          grad_argument.stride(0), trifold::data<T>(x_argument), x_argument.stride(0),
          trifold::data<T>(weight_argument), weight_argument.size(0),
          trifold::data<trifold::compute_t<T>>(rstd_argument), trifold::mutable_data<T>(outputs_2), outputs_2.stride(0),
          count, columns);
      trifold::check_launch();
    });
  }
  if (parameters) {
    const int64_t across = std::max<int64_t>(1, trifold::ceil_div(columns, COLUMN_BLOCK));
    const int64_t rows_a_part =
        std::max<int64_t>(8 * COLUMN_THREADS, trifold::ceil_div(count, std::max<int64_t>(1, 1056 / across)));
    const int64_t shares = std::max<int64_t>(1, trifold::ceil_div(count, rows_a_part));
    const Tensor parts = trifold::empty_contiguous(rstd, {1, shares, columns});
    const int64_t blocks_x = trifold::ceil_div(columns, COLUMN_BLOCK);
    if (blocks_x > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const Tensor grad_argument = trifold::without_gaps(operands_0);
        const Tensor x_argument = trifold::without_gaps(operands_1);
        const Tensor rstd_argument = trifold::without_gaps(r);
        const trifold::OnDevice device(x);
        trifold::launch<rms_norm_weight_gradient_kernel<T>>(
            device.stream(), trifold::extents(blocks_x, shares), dim3(COLUMN_BLOCK, COLUMN_THREADS), 0,
            trifold::data<T>(grad_argument), grad_argument.stride(0), trifold::data<T>(x_argument),
            x_argument.stride(0), trifold::data<trifold::compute_t<T>>(rstd_argument),
            trifold::mutable_data<trifold::compute_t<T>>(parts), parts.stride(0), parts.stride(1), count, rows_a_part,
            columns);
        trifold::check_launch();
      });
    }
    const Tensor second = trifold::empty_contiguous(grad_weight, {0});
    const int64_t count2 = parts.size(1);
    const int64_t columns2 = parts.size(2);
    const int64_t blocks = trifold::ceil_div(columns2, COLUMN_BLOCK);
    if (blocks > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const trifold::OnDevice device(x);
        trifold::launch<sum_parts_kernel<T>>(
            device.stream(), trifold::extents(blocks, 1), dim3(COLUMN_BLOCK, COLUMN_THREADS), 0,
            trifold::data<trifold::compute_t<T>>(parts), parts.stride(0), parts.stride(1),
            trifold::mutable_data<T>(grad_weight), trifold::mutable_data<T>(second), count2, columns2);
        trifold::check_launch();
      });
    }
  }
  return {grad_x, grad_weight};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&rms_norm>(m, "rms_norm");
  trifold::implement<&rms_norm_backward>(m, "rms_norm_backward");
}
