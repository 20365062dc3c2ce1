#include <trifold/binding.h>

#include "add.cuh"

namespace {

using trifold::Tensor;

Tensor add(const Tensor& x, const Tensor& y) {
  trifold::check_alike("add", x, "x", y, "y");
  Tensor out = trifold::elementwise_output(x, y);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    trifold::launch_elementwise<add_kernel<T>, add_vector_kernel<T>, T>(out, x, y);
  });
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&add>(m, "add");
}
