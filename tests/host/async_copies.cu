#include <trifold/binding.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "async_copies.cuh"

namespace {

using trifold::Tensor;

// Starts the kernel with one of these mistakes, or with none: start.template operator()<mistake>().
template <Mistake... mistakes, class Start>
void with(int64_t which, Start start) {
  const bool found =
      which == 0 ? (start.template operator()<Mistake::none>(), true)
                 : ((which == static_cast<int64_t>(mistakes) && (start.template operator()<mistakes>(), true)) || ...);
  if (!found) throw std::runtime_error("the kernel has no such mistake");
}

// x has tiles of 256 floats, one for each block, but for the clusters that share one; y is 2 x.
Tensor async_copies(const Tensor& x, int64_t kernel, int64_t mistake) {
  const Tensor out = trifold::elementwise_output(x);
  const float* in = trifold::data<float>(x);
  float* y = trifold::mutable_data<float>(out);
  const auto tiles = static_cast<unsigned>(x.numel() / tile_floats);
  std::vector<float> passed(2 * static_cast<size_t>(x.numel()));
  std::vector<unsigned> flag(1);
  trifold::host::note_tensor(passed.data(), passed.size() * sizeof(float));
  trifold::host::note_tensor(flag.data(), flag.size() * sizeof(unsigned));
  const auto launch = [&]<auto code>(unsigned blocks, auto... more) {
    trifold::launch<code>({}, blocks, threads, 0, in, more...);
  };
  using enum Mistake;
  switch (kernel) {
    case 0:
      with<no_fence, fence_after_barrier, written_too_early, no_wait_at_the_end>(
          mistake, [&]<Mistake m>() { launch.template operator()<store_kernel<m>>(tiles, y); });
      break;
    case 1:
      with<fence_in_the_loop>(mistake, [&]<Mistake m>() { launch.template operator()<rounds_kernel<m>>(tiles, y, 0); });
      break;
    case 2:
      with<no_fence_after_a_read, no_await, expects_too_much, expects_too_little, odd_target, odd_size>(
          mistake, [&]<Mistake m>() { launch.template operator()<load_kernel<m>>(tiles, y); });
      break;
    case 3:
      with<no_fence_of_global, fence_after_barrier>(
          mistake, [&]<Mistake m>() { launch.template operator()<flag_kernel<m>>(2, y, passed.data(), flag.data()); });
      break;
    case 4:
      with<no_fence_after_copy>(
          mistake, [&]<Mistake m>() { launch.template operator()<copied_kernel<m>>(tiles, passed.data()); });
      std::copy_n(passed.data(), x.numel(), y);
      break;
    case 5:
      with<no_wait, written_too_early, some_wait, lane_waits_for_all>(
          mistake, [&]<Mistake m>() { launch.template operator()<groups_kernel<m>>(tiles, y); });
      break;
    case 6:
      with<one_group_too_many, waits_for_read_only>(
          mistake, [&]<Mistake m>() { launch.template operator()<ring_kernel<m>>(tiles, y); });
      break;
    case 7:
      with<no_empty_barrier>(mistake, [&]<Mistake m>() { launch.template operator()<pipeline_kernel<m>>(tiles, y); });
      break;
    case 8:
      with<arrives_before_copies>(mistake,
                                  [&]<Mistake m>() { launch.template operator()<late_arrival_kernel<m>>(tiles, y); });
      break;
    case 9:
      with<receiver_expects_none, receiver_not_ready, rank_outside>(
          mistake, [&]<Mistake m>() { launch.template operator()<multicast_kernel<m>>(2 * tiles, y); });
      break;
    case 10:
      with<expects_one_of_two>(mistake,
                               [&]<Mistake m>() { launch.template operator()<gather_kernel<m>>(2 * tiles, y); });
      break;
    case 11:
      with<no_await, sends_to_the_ended>(
          mistake, [&]<Mistake m>() { launch.template operator()<messages_kernel<m>>(tiles, y); });
      break;
    case 12:
      with<no_wait>(mistake, [&]<Mistake m>() { launch.template operator()<functions_kernel<m>>(tiles, y); });
      break;
    case 13:
      with<no_wait>(mistake, [&]<Mistake m>() { launch.template operator()<group_copies_kernel<m>>(tiles, y); });
      break;
    case 14: with<>(mistake, [&]<Mistake m>() { launch.template operator()<no_fence_kernel<m>>(tiles, y); }); break;
    case 15:
      with<no_await>(mistake, [&]<Mistake m>() { launch.template operator()<ptx_functions_kernel<m>>(2 * tiles, y); });
      break;
    default: throw std::runtime_error("there is no such kernel");
  }
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&async_copies>(m, "async_copies");
}
