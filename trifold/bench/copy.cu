// The fastest copy that we know, as the roofline of an op that reads and writes: n vectors of 16 bytes, one a thread.
//
// On an H200 cudaMemcpyAsync reaches the same rate up to about 1 GiB and two thirds of it above.
#include <trifold/binding.h>

namespace {

using trifold::Tensor;

constexpr int block = 128;

__global__ void copy_kernel(const int4* source, int4* destination, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block + threadIdx.x;
  if (i < n) destination[i] = source[i];
}

// Both are contiguous, of the same number of bytes, a multiple of 16, and aligned to 16 bytes.
void copy(Tensor destination, const Tensor source) {
  const int64_t n = source.numel() * source.element_size() / static_cast<int64_t>(sizeof(int4));
  const trifold::OnDevice device(source);
  trifold::launch<copy_kernel>(device.stream(), dim3(static_cast<unsigned>(trifold::ceil_div(n, block))), block, 0,
                               trifold::data<int4>(source), trifold::mutable_data<int4>(destination), n);
  trifold::check_launch();
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  m.impl("copy", TORCH_BOX(&copy));
}
