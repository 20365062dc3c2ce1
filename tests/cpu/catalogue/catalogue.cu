// The operator that starts kernels of the catalogue on the CPU.
#include <trifold/binding.h>

#include "start.cuh"

namespace {

using trifold::Tensor;

// Its arguments as they stand in `words` and `reals`.
std::vector<catalogue::Argument> arguments_of(const Tensor& words, const Tensor& reals) {
  const auto* row = static_cast<const int64_t*>(words.const_data_ptr());
  const auto* const number = static_cast<const double*>(reals.const_data_ptr());
  std::vector<catalogue::Argument> arguments;
  for (int64_t i = 0; i < reals.numel(); ++i, row += 4) {
    arguments.push_back({row[0], number[i]});
    const auto* const first = reinterpret_cast<const void*>(row[1]);
    if (row[2] != 0) trifold::cpu::note_tensor(first, static_cast<size_t>(row[2]));
    if (row[3] != 0) trifold::cpu::note_fresh(first, static_cast<size_t>(row[2]), static_cast<size_t>(row[3]));
  }
  return arguments;
}

// names, shape: as catalogue::start takes them. words: a row for each argument, of its integer or address, the first
// byte that it may touch, how many it may (0: it is a scalar), and if nobody has written them the bytes of an element,
// else 0. reals: the
// arguments as numbers. Returns a tensor of no meaning.
Tensor start(const Tensor& names, const Tensor& shape, const Tensor& words, const Tensor& reals) {
  catalogue::start(std::string(static_cast<const char*>(names.const_data_ptr()), names.numel()),
                   static_cast<const int64_t*>(shape.const_data_ptr()), arguments_of(words, reals));
  return trifold::elementwise_output(shape);
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&start>(m, "catalogue");
}
