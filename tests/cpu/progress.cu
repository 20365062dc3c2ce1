#include <trifold/binding.h>

#include <stdexcept>
#include <vector>

#include "progress.cuh"

namespace {

using trifold::Tensor, trifold::launch;

// A grid of two dimensions, of blocks that share out x.
template <Mistake mistake>
void keep_state(const Tensor& x, dim3 threads, float* y, int* flags) {
  const auto blocks = static_cast<unsigned>(x.numel() / (threads.x * threads.y));
  launch<keep_state_kernel<mistake>>({}, dim3(blocks / 2, 2), threads, block * sizeof(float), trifold::data<float>(x),
                                     y, flags);
}

// x has blocks of 64 floats; the result has as many, and begins as zeros.
Tensor progress(const Tensor& x, int64_t which) {
  const Tensor out = trifold::elementwise_output(x);
  const float* in = trifold::data<float>(x);
  float* y = trifold::mutable_data<float>(out);
  const int64_t n = x.numel();
  const dim3 blocks(static_cast<unsigned>(n / block));
  const trifold::Stream stream;
  std::vector<int> memory(n);
  int* const flags = memory.data();
  std::fill_n(y, n, 0.0f);
  trifold::cpu::note_tensor(flags, n * sizeof(int));
  switch (which) {
    case 0: launch<reverse_kernel>(stream, blocks, block, 0, in, y); break;
    case 1: launch<poll_thread_kernel>(stream, 1, block, 0, in, y); break;
    case 2: launch<poll_block_kernel<true>>(stream, blocks, block, 0, in, y, flags); break;
    case 3: launch<poll_volatile_kernel>(stream, 1, block, 0, in, y); break;
    case 4: launch<poll_at_once_kernel<true>>(stream, 1, block, 0, in, y, flags); break;
    case 5: launch<lock_kernel>(stream, blocks, block, 0, in, y, flags); break;
    case 6: keep_state<Mistake::none>(x, dim3(16, 4), y, flags); break;
    case 7: keep_state<Mistake::none>(x, dim3(8), y, flags); break;
    case 8: keep_state<Mistake::no_barrier>(x, dim3(16, 4), y, flags); break;
    case 9: keep_state<Mistake::only_the_first_block_fills>(x, dim3(16, 4), y, flags); break;
    case 11: launch<mail_address_kernel>(stream, 2, block, 0, in, y, flags); break;
    case 10: launch<poll_block_kernel<false>>(stream, blocks, block, 0, in, y, flags); break;
    case 12: launch<poll_for_data_kernel>(stream, blocks, block, 0, in, y, flags); break;
    case 20: launch<endless_kernel>(stream, blocks, block, 0, y); break;
    case 21: launch<endless_after_barrier_kernel>(stream, blocks, block, 0, y); break;
    case 22: launch<endless_barriers_kernel>(stream, blocks, block, 0); break;
    case 23: launch<endless_silence_kernel>(stream, blocks, block, 0, in); break;
    case 24: launch<poll_at_once_kernel<false>>(stream, 1, block, 0, in, y, flags); break;
    case 30: launch<recursion_kernel<false>>(stream, blocks, block, 0, in, y, 1 << 20); break;
    case 31: launch<recursion_kernel<true>>(stream, blocks, block, 0, in, y, 1 << 20); break;
    case 32: launch<large_frame_kernel>(stream, 1, block, 0, in, y); break;
    case 33: launch<recursion_kernel<true>>(stream, blocks, block, 0, in, y, 50); break;
    case 40: launch<throwing_kernel<false>>(stream, blocks, block, 0, in); break;
    case 41: launch<throwing_kernel<true>>(stream, blocks, block, 0, in); break;
    case 50: launch<large_static_kernel>(stream, 1, block, 0, in, y); break;
    case 51: launch<reverse_kernel>(stream, dim3(1, 70000), block, 0, in, y); break;
    case 52: launch<reverse_kernel>(stream, 1, dim3(1, 1, 65), 0, in, y); break;
    case 53: launch<reverse_kernel>(stream, 1, block, 232448, in, y); break;
    case 54: launch<reverse_kernel>(stream, dim3(2147483647, 65535), block, 0, in, y); break;
    case 55: launch<staged_kernel<26>>(stream, 1, block, 0, in, y); break;
    case 56: launch<staged_kernel<20>>(stream, 1, block, 0, in, y); break;
    case 57: launch<large_template_kernel<float, 13 << 10>>(stream, 1, block, 0, in, y); break;
    case 60: launch<bounded_kernel<float, Threads<63>>>(stream, 1, block, 0, in, y); break;
    case 61: launch<bounded_kernel<float, Threads<64>>>(stream, 1, block, 0, in, y); break;
    case 62: launch<bounds::bounded_kernel>(stream, 1, dim3(11, 3), 4 * block, in, y); break;
    case 63: launch<bounds::bounded_kernel>(stream, 1, dim3(8, 4), 4 * block, in, y); break;
    case 64: launch<shadowing_kernel>(stream, 1, 2 * block, 0, in, y, 1); break;
    default: throw std::runtime_error("there is no such case");
  }
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&progress>(m, "progress");
}
