#include <trifold/binding.h>

#include "round_ste.cuh"

namespace {

using trifold::Tensor;

Tensor round_ste(const Tensor& x) {
  trifold::check_floating("round_ste", x, "x");
  Tensor y = trifold::elementwise_output(x);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    trifold::launch_elementwise<round_ste_kernel<T>, round_ste_vector_kernel<T>, T>(y, x);
  });
  return y;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&round_ste>(m, "round_ste");
}
