#include <trifold/binding.h>

#include <stdexcept>
#include <vector>

#include "clusters.cuh"

namespace {

using trifold::Tensor;

// x has blocks of 32 floats; the result has as many. `which` is a Mistake, or from 100 on another kernel.
template <int... mistakes>
bool neighbours(int which, dim3 blocks, const float* x, float* y, std::integer_sequence<int, mistakes...>) {
  const auto start = [&]<int mistake>() {
    if (mistake == which)
      trifold::launch<neighbours_kernel<static_cast<Mistake>(mistake)>>({}, blocks, threads, 0, x, y);
    return mistake == which;
  };
  return (start.template operator()<mistakes>() || ...);
}

Tensor clusters(const Tensor& x, int64_t which, int64_t blocks_a_cluster) {
  const Tensor out = trifold::elementwise_output(x);
  const float* in = trifold::data<float>(x);
  float* y = trifold::mutable_data<float>(out);
  const auto blocks = static_cast<unsigned>(x.numel() / threads);
  const auto of_cluster = static_cast<unsigned>(blocks_a_cluster);
  std::vector<float> sums(blocks);
  trifold::host::note_tensor(sums.data(), blocks * sizeof(float));
  switch (which) {
    case 100:
      trifold::launch_clusters<exchange_kernel>({}, blocks, threads, threads * sizeof(float), of_cluster, in, y);
      break;
    case 101: trifold::launch<places_kernel>({}, dim3(4, blocks / 4), dim3(8, 4), 0, y); break;
    case 102: trifold::launch<registers_kernel>({}, blocks, threads, 0, in, y); break;
    case 103: trifold::launch<half_kernel>({}, blocks, threads, 0, in, y); break;
    case 104: trifold::launch_cooperative<centre_kernel>({}, blocks, threads, 0, in, y, sums.data()); break;
    case 105: trifold::launch<centre_kernel>({}, blocks, threads, 0, in, y, sums.data()); break;
    case 106: trifold::launch<exchange_kernel>({}, blocks, threads, threads * sizeof(float), in, y); break;
    default:
      if (!neighbours(static_cast<int>(which), blocks, in, y, std::make_integer_sequence<int, 13>()))
        throw std::runtime_error("there is no such case");
  }
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&clusters>(m, "clusters");
}
