#include <trifold/launch_functions.h>

#include "histogram.cuh"

namespace {

using trifold::Tensor;

constexpr int VECTORS_AT_ONCE = 2;
constexpr int MOST_BLOCKS = 528;

Tensor histogram(const Tensor& x, int64_t bins, double low, double high) {
  trifold::check_floating("histogram", x, "x");
  trifold::check(bins > 0, "histogram: bins must be positive, but is ", bins, "; pass 1 or more");
  const double first = trifold::rounded_unless(x.scalar_type() == trifold::ScalarType::Double, low);
  const double last = trifold::rounded_unless(x.scalar_type() == trifold::ScalarType::Double, high);
  const double factor = trifold::rounded_unless(x.scalar_type() == trifold::ScalarType::Double, bins);
  const bool range_is_known = std::isfinite(first) && std::isfinite(last) && first < last;
  if (!range_is_known ||
      !std::isfinite(trifold::rounded_unless(
          x.scalar_type() == trifold::ScalarType::Double,
          trifold::rounded_unless(x.scalar_type() == trifold::ScalarType::Double, last - first) * factor))) {
    trifold::fail("histogram: low must be less than high, and both and (high - low) * bins finite in ",
                  x.scalar_type() == trifold::ScalarType::Double ? "float64" : "float32", ", but low is ",
                  trifold::in_digits(low), " and high is ", trifold::in_digits(high),
                  "; pass the range of the numbers to count");
  }
  const Tensor counts = trifold::empty_contiguous(x, {bins}, trifold::dtype_code(trifold::ScalarType::Long));
  const int64_t blocks = trifold::ceil_div(bins, trifold::threads_per_block);
  {
    const trifold::OnDevice device(x);
    trifold::launch<histogram_zero_kernel>(device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block),
                                           0, trifold::mutable_data<int64_t>(counts), bins);
    trifold::check_launch();
  }
  const Tensor elements = torch::stable::reshape(x, {-1});
  const int64_t n = elements.numel();
  const int64_t size = 16 / static_cast<int64_t>(x.element_size());
  const int64_t blocks2 = std::min<int64_t>(trifold::ceil_div(n, BLOCK * VECTORS_AT_ONCE * size), MOST_BLOCKS);
  if (bins <= SHARED_COUNTERS) {
    const int64_t copies =
        std::min<int64_t>(int64_t{1} << (trifold::bit_length(SHARED_COUNTERS / bins) - 1), MOST_COPIES);
    if (blocks2 > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const Tensor x_argument = trifold::without_gaps(elements);
        const trifold::OnDevice device(x);
        trifold::launch<histogram_kernel<T>>(device.stream(), trifold::extents(blocks2), dim3(BLOCK), 0,
                                             trifold::data<T>(x_argument), trifold::mutable_data<int64_t>(counts), n,
                                             bins, copies, first, last, factor);
        trifold::check_launch();
      });
    }
  } else {
    if (blocks2 > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const Tensor x_argument = trifold::without_gaps(elements);
        const trifold::OnDevice device(x);
        trifold::launch<histogram_global_kernel<T>>(
            device.stream(), trifold::extents(blocks2), dim3(BLOCK), 0, trifold::data<T>(x_argument),
            trifold::mutable_data<int64_t>(counts), n, bins, first, last, factor);
        trifold::check_launch();
      });
    }
  }
  return counts;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&histogram>(m, "histogram");
}
