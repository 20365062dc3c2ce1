#include <trifold/binding.h>

#include "swiglu.cuh"

namespace {

using trifold::Tensor;

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  trifold::check_alike("swiglu", gate, "gate", up, "up");
  Tensor out = trifold::elementwise_output(gate);  // as torch's silu(gate) * up
  trifold::dispatch_floating(gate.scalar_type(), [&]<class T>() {
    trifold::launch_elementwise<swiglu_kernel<T>, swiglu_vector_kernel<T>, T>(out, gate, up);
  });
  return out;
}

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  trifold::check_alike("swiglu_backward", gate, "gate", up, "up");
  trifold::check_alike("swiglu_backward", gate, "gate", grad, "grad");
  Tensor grad_gate = trifold::elementwise_output(gate, up);
  Tensor grad_up = trifold::elementwise_output(gate, up);
  trifold::dispatch_floating(gate.scalar_type(), [&]<class T>() {
    trifold::launch_elementwise<swiglu_backward_kernel<T>, swiglu_backward_vector_kernel<T>, T>(
        std::array{grad_gate, grad_up}, grad, gate, up);
  });
  return {grad_gate, grad_up};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&swiglu>(m, "swiglu");
  trifold::implement<&swiglu_backward>(m, "swiglu_backward");
}
