#include <trifold/launch_functions.h>

#include "mul.cuh"

namespace {

using trifold::Tensor;

Tensor mul(const Tensor& x, const Tensor& y) {
  trifold::check_alike("mul", x, "x", y, "y");
  const Tensor out = trifold::elementwise_output(x, y);
  const int64_t blocks = trifold::ceil_div(out.numel(), trifold::threads_per_block);
  if (blocks > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor x_argument = trifold::in_layout_of(out, x);
      const Tensor y_argument = trifold::in_layout_of(out, y);
      const trifold::OnDevice device(x);
      trifold::launch<mul_kernel<T>>(device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0,
                                     trifold::data<T>(x_argument), trifold::data<T>(y_argument),
                                     trifold::mutable_data<T>(out), out.numel());
      trifold::check_launch();
    });
  }
  return out;
}

std::tuple<Tensor, Tensor> mul_backward(const Tensor& grad, const Tensor& x, const Tensor& y) {
  trifold::check_alike("mul_backward", x, "x", y, "y");
  trifold::check_alike("mul_backward", x, "x", grad, "grad");
  const Tensor grad_x = trifold::elementwise_output(x, y);
  const Tensor grad_y = trifold::elementwise_output(x, y);
  const Tensor operands_0 = trifold::in_layout_of(grad_x, grad);
  const Tensor operands_1 = trifold::in_layout_of(grad_x, x);
  const Tensor operands_2 = trifold::in_layout_of(grad_x, y);
  const int64_t n = x.numel();
  const int64_t blocks = trifold::ceil_div(n, trifold::threads_per_block);
  if (blocks > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(x);
      trifold::launch<mul_backward_kernel<T>>(device.stream(), trifold::extents(blocks),
                                              dim3(trifold::threads_per_block), 0, trifold::data<T>(operands_0),
                                              trifold::data<T>(operands_1), trifold::data<T>(operands_2),
                                              trifold::mutable_data<T>(grad_x), trifold::mutable_data<T>(grad_y), n);
      trifold::check_launch();
    });
  }
  return {grad_x, grad_y};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&mul>(m, "mul");
  trifold::implement<&mul_backward>(m, "mul_backward");
}
