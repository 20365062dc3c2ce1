#include <trifold/binding.h>

#include <stdexcept>

#include "features.cuh"

namespace {

using trifold::Tensor, trifold::launch;

// torch's own 16-bit types are plain C++.
template <class T>
__global__ void torch_type_kernel(const float* x, float* y) {
  const int t = threadIdx.x;
  const T value(x[t]);
  y[t] = static_cast<float>(value * value + T(1));
}

// The result has as many elements as x. Its elements begin as zeros from 100 on.
Tensor features(const Tensor& x, int64_t which) {
  const Tensor out = trifold::elementwise_output(x);
  const float* in = trifold::data<float>(x);
  float* y = trifold::mutable_data<float>(out);
  const trifold::Stream stream;
  constexpr size_t bytes = block * sizeof(float);
  if (which >= 100) {
    std::fill_n(y, x.numel(), 0.0f);
  }
  switch (which) {
    case 0: launch<extern_kernel>(stream, 1, block, bytes, in, y); break;
    case 1: launch<extern_kernel>(stream, 1, block, bytes - sizeof(float), in, y); break;
    case 2: launch<scratch_kernel>(stream, 2, block, bytes, in, y); break;
    case 3: launch<constants_kernel>(stream, 1, block, 0, in, y); break;
    case 4: launch<global_kernel<false>>(stream, 1, block, 0, in); break;
    case 5: launch<beyond_kernel>(stream, 1, block, 0, y, 0); break;
    case 6: launch<beyond_kernel>(stream, 1, block, 0, y, 3); break;
    case 7: launch<assert_kernel>(stream, 2, block, 0, y, -1); break;
    case 8: launch<assert_kernel>(stream, 2, block, 0, y, 70); break;
    case 9: launch<late_assert_kernel>(stream, 2, block, 0, y, 5); break;
    case 10: launch<trap_kernel>(stream, 2, block, 0, y); break;
    case 11: launch<reductions_kernel>(stream, 1, block, 0, y); break;
    case 12: launch<groups_kernel>(stream, 1, block, 0, in, y); break;
    case 13: launch<grid_barrier_kernel>(stream, 1, block, 0, y); break;
    case 14: launch<atomics_kernel>(stream, 1, block, 0, y); break;
    case 15: launch<rest_kernel>(stream, 1, block, 0, in, y); break;
    case 16: launch<written_ldg_kernel>(stream, 1, block, 0, y); break;
    case 17: launch<torch_type_kernel<c10::Half>>(stream, 1, block, 0, in, y); break;
    case 18: launch<torch_type_kernel<c10::BFloat16>>(stream, 1, block, 0, in, y); break;
    case 19: launch<struct_kernel>(stream, 1, block, 0, Pair{block, in, y}, 0); break;
    case 20: launch<struct_kernel>(stream, 1, block, 0, Pair{block, in, y}, block + 1); break;
    case 21: launch<ptx_kernel<true>>(stream, 1, block, bytes, in, y); break;
    case 22: launch<ptx_kernel<false>>(stream, 1, block, bytes, in, y); break;
    case 100: launch<not_atomic_kernel>(stream, 2, block, 0, y); break;
    case 101: {
      total = 0;
      launch<global_kernel<true>>(stream, 5, block, 0, in);
      y[0] = total;
      break;
    }
    default: throw std::runtime_error("there is no such case");
  }
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&features>(m, "features");
}
