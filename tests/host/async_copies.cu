#include <trifold/binding.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "async_copies.cuh"

namespace {

using trifold::Tensor;

// Starts the kernel with this mistake: start.template operator()<mistake>().
template <class Start, int... mistakes>
void with_mistake(int64_t which, Start start, std::integer_sequence<int, mistakes...>) {
  if (!((which == mistakes && (start.template operator()<static_cast<Mistake>(mistakes)>(), true)) || ...))
    throw std::runtime_error("there is no such mistake");
}

// x has tiles of 256 floats, one for each block, but for the clusters that share one; y is 2 x.
Tensor async_copies(const Tensor& x, int64_t kernel, int64_t mistake) {
  const Tensor out = trifold::elementwise_output(x);
  const float* in = trifold::data<float>(x);
  float* y = trifold::mutable_data<float>(out);
  const auto tiles = static_cast<unsigned>(x.numel() / tile_floats);
  const auto start = [&]<Mistake m>() {
    const auto launch = [&]<auto code>(unsigned blocks, auto... more) {
      trifold::launch<code>({}, blocks, threads, 0, in, y, more...);
    };
    std::vector<float> passed(2 * x.numel());
    std::vector<unsigned> flags(1);
    trifold::host::note_tensor(passed.data(), passed.size() * sizeof(float));
    trifold::host::note_tensor(flags.data(), flags.size() * sizeof(unsigned));
    switch (kernel) {
      case 0: return launch.template operator()<store_kernel<m>>(tiles);
      case 1: return launch.template operator()<rounds_kernel<m>>(tiles, 0);
      case 2: return launch.template operator()<load_kernel<m>>(tiles);
      case 3: return launch.template operator()<flag_kernel<m>>(2, passed.data(), flags.data());
      case 4: {
        trifold::launch<copied_kernel<m>>({}, tiles, threads, 0, in, passed.data());
        std::copy_n(passed.data(), x.numel(), y);
        return;
      }
      case 5: return launch.template operator()<groups_kernel<m>>(tiles);
      case 6: return launch.template operator()<ring_kernel<m>>(tiles);
      case 7: return launch.template operator()<pipeline_kernel<m>>(tiles);
      case 8: return launch.template operator()<late_arrival_kernel<m>>(tiles);
      case 9: return launch.template operator()<multicast_kernel<m>>(2 * tiles);
      case 10: return launch.template operator()<gather_kernel<m>>(2 * tiles);
      case 11: return launch.template operator()<messages_kernel<m>>(tiles);
      case 12: return launch.template operator()<functions_kernel<m>>(tiles);
      case 13: return launch.template operator()<group_copies_kernel<m>>(tiles);
      case 14: return launch.template operator()<no_fence_kernel<m>>(tiles);
      case 15: return launch.template operator()<ptx_functions_kernel<m>>(2 * tiles);
      default: throw std::runtime_error("there is no such kernel");
    }
  };
  with_mistake(mistake, start, std::make_integer_sequence<int, static_cast<int>(Mistake::all)>());
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&async_copies>(m, "async_copies");
}
