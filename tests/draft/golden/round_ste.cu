#include <trifold/launch_functions.h>

#include "round_ste.cuh"

namespace {

using trifold::Tensor;

Tensor round_ste(const Tensor& x) {
  trifold::check_floating("round_ste", x, "x");
  const Tensor y = trifold::elementwise_output(x);
  const int64_t blocks = std::min<int64_t>(trifold::ceil_div(y.numel(), 256), 65536);
  if (blocks > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor x_argument = trifold::in_layout_of(y, x);
      const trifold::OnDevice device(x);
      trifold::launch<round_ste_kernel<T>>(device.stream(), dim3(static_cast<unsigned>(blocks)), dim3(256), 0,
                                           trifold::data<T>(x_argument), trifold::mutable_data<T>(y), y.numel());
      trifold::check_launch();
    });
  }
  return y;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&round_ste>(m, "round_ste");
}
