#include <trifold/launch_functions.h>

#include "add.cuh"

namespace {

using trifold::Tensor;

Tensor add(const Tensor& x, const Tensor& y) {
  trifold::check_alike("add", x, "x", y, "y");
  const Tensor out = trifold::elementwise_output(x, y);
  const int64_t blocks = trifold::ceil_div(out.numel(), trifold::threads_per_block);
  if (blocks > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor x_argument = trifold::in_layout_of(out, x);
      const Tensor y_argument = trifold::in_layout_of(out, y);
      const trifold::OnDevice device(x);
      trifold::launch<add_kernel<T>>(device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0,
                                     trifold::data<T>(x_argument), trifold::data<T>(y_argument),
                                     trifold::mutable_data<T>(out), out.numel());
      trifold::check_launch();
    });
  }
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&add>(m, "add");
}
