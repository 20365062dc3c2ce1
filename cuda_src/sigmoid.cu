#include <trifold/binding.h>

#include "sigmoid.cuh"

namespace {

using trifold::Tensor;

Tensor sigmoid(const Tensor& x) {
  trifold::check_floating("sigmoid", x, "x");
  Tensor y = trifold::elementwise_output(x);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    trifold::launch_elementwise<sigmoid_kernel<T>, sigmoid_vector_kernel<T>, T>(y, x);
  });
  return y;
}

Tensor sigmoid_backward(const Tensor& grad_y, const Tensor& y) {
  trifold::check_alike("sigmoid_backward", grad_y, "grad_y", y, "y");
  Tensor grad_x = trifold::elementwise_output(grad_y, y);
  trifold::dispatch_floating(y.scalar_type(), [&]<class T>() {
    trifold::launch_elementwise<sigmoid_backward_kernel<T>, sigmoid_backward_vector_kernel<T>, T>(grad_x, grad_y, y);
  });
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&sigmoid>(m, "sigmoid");
  trifold::implement<&sigmoid_backward>(m, "sigmoid_backward");
}
