#include <trifold/launch_functions.h>

#include "sigmoid.cuh"

namespace {

using trifold::Tensor;

Tensor sigmoid(const Tensor& x) {
  trifold::check_floating("sigmoid", x, "x");
  const Tensor y = trifold::elementwise_output(x);
  const int64_t blocks = trifold::ceil_div(y.numel(), trifold::threads_per_block);
  if (blocks > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor x_argument = trifold::in_layout_of(y, x);
      const trifold::OnDevice device(x);
      trifold::launch<sigmoid_kernel<T>>(device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0,
                                         trifold::data<T>(x_argument), trifold::mutable_data<T>(y), y.numel());
      trifold::check_launch();
    });
  }
  return y;
}

Tensor sigmoid_backward(const Tensor& grad_y, const Tensor& y) {
  trifold::check_alike("sigmoid_backward", grad_y, "grad_y", y, "y");
  const Tensor grad_x = trifold::elementwise_output(grad_y, y);
  const int64_t n = y.numel();
  const int64_t blocks = trifold::ceil_div(n, trifold::threads_per_block);
  if (blocks > 0) {
    trifold::dispatch_floating(grad_y.scalar_type(), [&]<class T>() {
      const Tensor grad_y_argument = trifold::in_layout_of(grad_x, grad_y);
      const Tensor y_argument = trifold::in_layout_of(grad_x, y);
      const trifold::OnDevice device(grad_y);
      trifold::launch<sigmoid_backward_kernel<T>>(
          device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0,
          trifold::data<T>(grad_y_argument), trifold::data<T>(y_argument), trifold::mutable_data<T>(grad_x), n);
      trifold::check_launch();
    });
  }
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&sigmoid>(m, "sigmoid");
  trifold::implement<&sigmoid_backward>(m, "sigmoid_backward");
}
