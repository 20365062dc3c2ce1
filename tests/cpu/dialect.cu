#include <trifold/binding.h>

#include "dialect.cuh"

namespace {

// x has rows of a, b and c; each element of a row of the result is what the function with this number makes of them.
trifold::Tensor dialect(const trifold::Tensor& x, int64_t which) {
  const trifold::Tensor out = trifold::elementwise_output(x);
  const auto rows = static_cast<unsigned>(x.numel() / 3);
  trifold::launch<dialect_kernel>({}, rows, 1, 0, trifold::data<double>(x), trifold::mutable_data<double>(out),
                                  static_cast<int>(which));
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&dialect>(m, "dialect");
}
