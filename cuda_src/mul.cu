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

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&mul>(m, "mul");
}
