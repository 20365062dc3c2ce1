#include <trifold/launch_functions.h>

#include "softmax.cuh"

namespace {

using trifold::Tensor;

Tensor softmax(const Tensor& x) {
  trifold::check_floating("softmax", x, "x");
  const Tensor y = trifold::row_output(x);
  const int64_t count = trifold::rows(x).size(0);
  const int64_t columns = trifold::rows(x).size(1);
  if (count * (columns > 0) > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor x_argument = trifold::without_gaps(trifold::rows(x));
      const Tensor y_argument = trifold::rows(y);
      const trifold::OnDevice device(x);
      trifold::launch<softmax_kernel<T>>(device.stream(), dim3(static_cast<unsigned>(count * (columns > 0))), dim3(256),
                                         0, trifold::data<T>(x_argument), x_argument.stride(0),
                                         trifold::mutable_data<T>(y_argument), y_argument.stride(0), columns);
      trifold::check_launch();
    });
  }
  return y;
}

Tensor softmax_backward(const Tensor& grad_y, const Tensor& y) {
  trifold::check_alike("softmax_backward", grad_y, "grad_y", y, "y");
  const Tensor grad_x = trifold::row_output(y);
  const int64_t count = trifold::rows(y).size(0);
  const int64_t columns = trifold::rows(y).size(1);
  if (count * (columns > 0) > 0) {
    trifold::dispatch_floating(grad_y.scalar_type(), [&]<class T>() {
      const Tensor grad_y_argument = trifold::without_gaps(trifold::rows(grad_y));
      const Tensor y_argument = trifold::without_gaps(trifold::rows(y));
      const Tensor grad_x_argument = trifold::rows(grad_x);
      const trifold::OnDevice device(grad_y);
      trifold::launch<softmax_backward_kernel<T>>(
          device.stream(), dim3(static_cast<unsigned>(count * (columns > 0))), dim3(256), 0,
          trifold::data<T>(grad_y_argument), grad_y_argument.stride(0), trifold::data<T>(y_argument),
          y_argument.stride(0), trifold::mutable_data<T>(grad_x_argument), grad_x_argument.stride(0), columns);
      trifold::check_launch();
    });
  }
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&softmax>(m, "softmax");
  trifold::implement<&softmax_backward>(m, "softmax_backward");
}
