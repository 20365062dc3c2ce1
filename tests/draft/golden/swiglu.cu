#include <trifold/launch_functions.h>

#include "swiglu.cuh"

namespace {

using trifold::Tensor;

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  trifold::check_alike("swiglu", gate, "gate", up, "up");
  const Tensor out = trifold::elementwise_output(gate);
  const int64_t blocks = trifold::ceil_div(out.numel(), trifold::threads_per_block);
  if (blocks > 0) {
    trifold::dispatch_floating(gate.scalar_type(), [&]<class T>() {
      const Tensor gate_argument = trifold::in_layout_of(out, gate);
      const Tensor up_argument = trifold::in_layout_of(out, up);
      const trifold::OnDevice device(gate);
      trifold::launch<swiglu_kernel<T>>(device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0,
                                        trifold::data<T>(gate_argument), trifold::data<T>(up_argument),
                                        trifold::mutable_data<T>(out), out.numel());
      trifold::check_launch();
    });
  }
  return out;
}

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  trifold::check_alike("swiglu_backward", gate, "gate", up, "up");
  trifold::check_alike("swiglu_backward", gate, "gate", grad, "grad");
  const Tensor grad_gate = trifold::elementwise_output(gate, up);
  const Tensor grad_up = trifold::elementwise_output(gate, up);
  const Tensor operands_0 = trifold::in_layout_of(grad_gate, grad);
  const Tensor operands_1 = trifold::in_layout_of(grad_gate, gate);
  const Tensor operands_2 = trifold::in_layout_of(grad_gate, up);
  const int64_t n = gate.numel();
  const int64_t blocks = trifold::ceil_div(n, trifold::threads_per_block);
  if (blocks > 0) {
    trifold::dispatch_floating(gate.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(gate);
      trifold::launch<swiglu_backward_kernel<T>>(
          device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0, trifold::data<T>(operands_0),
          trifold::data<T>(operands_1), trifold::data<T>(operands_2), trifold::mutable_data<T>(grad_gate),
          trifold::mutable_data<T>(grad_up), n);
      trifold::check_launch();
    });
  }
  return {grad_gate, grad_up};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&swiglu>(m, "swiglu");
  trifold::implement<&swiglu_backward>(m, "swiglu_backward");
}
