#include <trifold/launch_functions.h>

#include "round_ste.cuh"

namespace {

using trifold::Tensor;

constexpr int MAX_BLOCKS = 65536;

Tensor round_ste(const Tensor& x) {
  trifold::check_floating("round_ste", x, "x");
  const Tensor y = trifold::elementwise_output(x);
  const int64_t blocks = std::min<int64_t>(trifold::ceil_div(y.numel(), trifold::threads_per_block), MAX_BLOCKS);
  if (blocks > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor x_argument = trifold::in_layout_of(y, x);
      const trifold::OnDevice device(x);
      trifold::launch<round_ste_kernel<T>>(device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block),
                                           0, trifold::data<T>(x_argument), trifold::mutable_data<T>(y), y.numel());
      trifold::check_launch();
    });
  }
  return y;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&round_ste>(m, "round_ste");
}
