// counts = histogram(x, bins, low, high) by CUB's DeviceHistogram::HistogramEven.
//
// It differs from the op in three ways: its last bin is open, so that a number equal to `high` is not counted; it
// multiplies by the reciprocal of a bin's width, so that a number at an edge may be in the bin beside; and its counts
// are int32, as in CUB's own example, which halves what it adds up in shared memory.
#include "storage.h"

#include <cub/device/device_histogram.cuh>

namespace {

using trifold::Tensor;

Tensor histogram_even(const Tensor& x, int64_t bins, double low, double high) {
  const char* const name = "histogram_even";
  const int count = trifold_bench::checked_count(name, x);
  trifold::check(bins > 0 && bins < INT32_MAX, name, ": bins must be 1 to 2^31 - 2, but is ", bins);
  const Tensor counts = trifold::empty_strided(x, {bins}, {1}, aoti_torch_dtype_int32());
  const trifold::OnDevice device(x);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    using Level = trifold::compute_t<T>;
    const cudaStream_t stream = trifold_bench::stream_on(device);
    trifold_bench::with_storage(x, [&](void* storage, std::size_t& bytes) {
      return cub::DeviceHistogram::HistogramEven(storage, bytes, trifold::data<T>(x),
                                                 trifold::mutable_data<int>(counts), static_cast<int>(bins) + 1,
                                                 static_cast<Level>(low), static_cast<Level>(high), count, stream);
    });
  });
  return counts;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  m.impl("histogram_even", TORCH_BOX(&histogram_even));
}
