#include <trifold/binding.h>

#include "mul.cuh"

namespace {

using trifold::Tensor;

Tensor mul(const Tensor& x, const Tensor& y) {
  trifold::check_alike("mul", x, "x", y, "y");
  Tensor out = trifold::elementwise_output(x, y);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    trifold::launch_elementwise<mul_kernel<T>, mul_vector_kernel<T>, T>(out, x, y);
  });
  return out;
}

std::tuple<Tensor, Tensor> mul_backward(const Tensor& grad, const Tensor& x, const Tensor& y) {
  trifold::check_alike("mul_backward", x, "x", y, "y");
  trifold::check_alike("mul_backward", x, "x", grad, "grad");
  Tensor grad_x = trifold::elementwise_output(x, y);
  Tensor grad_y = trifold::elementwise_output(x, y);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    trifold::launch_elementwise<mul_backward_kernel<T>, mul_backward_vector_kernel<T>, T>(std::array{grad_x, grad_y},
                                                                                          grad, x, y);
  });
  return {grad_x, grad_y};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&mul>(m, "mul");
  trifold::implement<&mul_backward>(m, "mul_backward");
}
