#include <trifold/binding.h>

#include <stdexcept>
#include <vector>

#include "clusters.cuh"

namespace {

using trifold::Tensor;

// x has blocks of 32 floats; the result has as many.
Tensor clusters(const Tensor& x, int64_t which, int64_t blocks_a_cluster) {
  const Tensor out = trifold::elementwise_output(x);
  const float* in = trifold::data<float>(x);
  float* y = trifold::mutable_data<float>(out);
  const auto blocks = static_cast<unsigned>(x.numel() / threads);
  const auto of_cluster = static_cast<unsigned>(blocks_a_cluster);
  std::vector<float> sums(blocks);
  trifold::cpu::note_tensor(sums.data(), blocks * sizeof(float));
  switch (which) {
    case 0:
      trifold::launch_clusters<exchange_kernel>({}, blocks, threads, threads * sizeof(float), of_cluster, in, y);
      break;
    case 1: trifold::launch<places_kernel>({}, dim3(4, blocks / 4), dim3(8, 4), 0, y); break;
    case 2: trifold::launch<registers_kernel>({}, blocks, threads, 0, in, y); break;
    case 3: trifold::launch<half_kernel>({}, blocks, threads, 0, in, y); break;
    case 4: trifold::launch_cooperative<centre_kernel>({}, blocks, threads, 0, in, y, sums.data()); break;
    case 5: trifold::launch<centre_kernel>({}, blocks, threads, 0, in, y, sums.data()); break;
    case 6: trifold::launch<exchange_kernel>({}, blocks, threads, threads * sizeof(float), in, y); break;
    case 7: trifold::launch<send_kernel>({}, blocks, threads, 0, in, y, 0); break;
    case 8: trifold::launch<send_kernel>({}, blocks, threads, 0, in, y, 4); break;
    default: throw std::runtime_error("there is no such case");
  }
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&clusters>(m, "clusters");
}
