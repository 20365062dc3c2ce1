// How a device function of CUB is called: first for the size of its temporary storage, then with it.
#pragma once
#include <trifold/binding.h>

namespace trifold_bench {

using trifold::Tensor;

// `call(storage, bytes)` is the device function with its other arguments. Its storage comes from torch's caching
// allocator, again in each call.
template <class Call>
void with_storage(const Tensor& like, Call&& call) {
  std::size_t bytes = 0;
  STD_CUDA_CHECK(call(nullptr, bytes));
  const Tensor storage = trifold::empty_strided(like, {static_cast<int64_t>(bytes)}, {1}, aoti_torch_dtype_uint8());
  STD_CUDA_CHECK(call(storage.mutable_data_ptr(), bytes));
}

// torch's current stream on the device.
inline cudaStream_t stream_on(const trifold::OnDevice& device) {
  return static_cast<cudaStream_t>(device.stream().handle);
}

// All three functions are compiled for contiguous elements, at offsets in 32 bits.
inline int checked_count(const char* name, const Tensor& x) {
  trifold::check_floating(name, x, "x");
  const int64_t count = x.numel();
  trifold::check(x.is_contiguous() && count > 0 && count <= INT32_MAX, name,
                 ": x must be contiguous and have 1 to 2^31 - 1 elements, but has shape ", trifold::Shape{x},
                 "; pass x.contiguous(), or parts of it");
  return static_cast<int>(count);
}

// Of a row, which is the last dimension; a tensor without dimensions is a row of one number.
inline int columns_of(const Tensor& x) {
  return x.dim() == 0 ? 1 : static_cast<int>(x.size(x.dim() - 1));
}

}  // namespace trifold_bench
