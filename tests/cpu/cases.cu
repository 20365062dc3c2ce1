#include <trifold/binding.h>

#include <stdexcept>

#include "cases.cuh"

namespace {

using trifold::Tensor, trifold::launch;

// x has blocks of 64 floats; the result has as many elements, and begins as zeros where `zeroed`.
Tensor cases(const Tensor& x, int64_t which) {
  const Tensor out = trifold::elementwise_output(x);
  const float* in = trifold::data<float>(x);
  float* y = trifold::mutable_data<float>(out);
  const int64_t n = x.numel();
  const dim3 blocks(static_cast<unsigned>(n / block));
  const trifold::Stream stream;
  const bool zeroed = which >= 100;
  float count = 0;
  if (zeroed) {
    std::fill_n(y, n, 0.0f);
    trifold::cpu::note_tensor(&count, sizeof count);
  }
  switch (which) {
    case 0: launch<reverse_kernel<true>>(stream, blocks, block, 0, in, y); break;
    case 1: launch<reverse_kernel<false>>(stream, blocks, block, 0, in, y); break;
    case 2: launch<sum_kernel<true>>(stream, 1, block, 0, in, y); break;
    case 3: launch<sum_kernel<false>>(stream, 1, block, 0, in, y); break;
    case 4: launch<neighbour_kernel<0>>(stream, 1, block, 0, in, y); break;
    case 5: launch<neighbour_kernel<1>>(stream, 1, block, 0, in, y); break;
    case 6: launch<neighbour_kernel<-1>>(stream, 1, block, 0, in, y); break;
    case 7: launch<dynamic_kernel>(stream, 1, block, block * sizeof(float), in, y); break;
    case 8: launch<dynamic_kernel>(stream, 1, block, (block - 1) * sizeof(float), in, y); break;
    case 9: launch<partly_written_kernel<block>>(stream, 1, block, 0, y); break;
    case 10: launch<partly_written_kernel<block - 1>>(stream, 1, block, 0, y); break;
    case 11: launch<guard_kernel<0>>(stream, blocks.x + 1, block, 0, in, y, n); break;
    case 12: launch<guard_kernel<1>>(stream, blocks.x + 1, block, 0, in, y, n); break;
    case 13: launch<two_barriers_kernel>(stream, 1, block, 0, y); break;
    case 14: launch<early_exit_kernel>(stream, 1, block, 0, y); break;
    case 15: launch<counts_kernel>(stream, 1, block, 0, y); break;
    case 16: launch<warp_kernel>(stream, 1, block, 0, in, y); break;
    case 17: launch<warp_memory_kernel<true>>(stream, 1, block, 0, in, y); break;
    case 18: launch<warp_memory_kernel<false>>(stream, 1, block, 0, in, y); break;
    case 19: launch<wrong_mask_kernel>(stream, 1, block, 0, y); break;
    case 20: launch<vector_kernel<0>>(stream, 1, block, 0, in, y); break;
    case 21: launch<vector_kernel<1>>(stream, 1, block, 0, in, y); break;
    case 22: launch<transpose_kernel>(stream, 1, dim3(8, 8), 0, in, y); break;
    case 23: launch<total_kernel<false>>(stream, blocks, block, 0, in, y); break;
    case 24: launch<reverse_kernel<true>>(stream, 1, 2048, 0, in, y); break;
    case 25: launch<dynamic_kernel>(stream, 1, block, 1 << 20, in, y); break;
    case 100: launch<total_kernel<true>>(stream, blocks, block, 0, in, y); break;
    case 101: launch<total_kernel<false>>(stream, blocks, block, 0, in, y); break;
    case 102: launch<last_block_kernel<true>>(stream, blocks, block, 0, in, y, &count); break;
    case 103: launch<last_block_kernel<false>>(stream, blocks, block, 0, in, y, &count); break;
    default: throw std::runtime_error("there is no such case");
  }
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&cases>(m, "cases");
}
