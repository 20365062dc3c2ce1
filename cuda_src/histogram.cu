#include <trifold/binding.h>

#include "histogram.cuh"

#include <bit>
#include <cmath>
#include <cstdio>

namespace {

using trifold::Tensor;

constexpr const char* name = "histogram";

// Blocks resident on a large GPU: 4 on each of 132 multiprocessors.
constexpr int64_t most_blocks = 4 * 132;

std::string in_digits(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

// The range in the type that bins are computed in; raises unless it is a range there and its products are finite.
template <class C>
HistogramRange<C> checked_range(int64_t bins, double low, double high) {
  const HistogramRange<C> range{static_cast<C>(low), static_cast<C>(high), static_cast<C>(bins)};
  const bool known = std::isfinite(range.low) && std::isfinite(range.high) && range.low < range.high;
  trifold::check(known && std::isfinite((range.high - range.low) * range.factor), name,
                 ": low must be less than high, and both and (high - low) * bins finite in ",
                 sizeof(C) == sizeof(double) ? "float64" : "float32", ", but low is ", in_digits(low), " and high is ",
                 in_digits(high), "; pass the range of the numbers to count");
  return range;
}

template <class T>
void launch_histogram(const Tensor& x, const Tensor& counts, int64_t bins,
                      HistogramRange<trifold::compute_t<T>> range) {
  using trifold::ceil_div;
  const trifold::OnDevice device(x);
  int64_t* const counters = trifold::mutable_data<int64_t>(counts);
  trifold::launch<histogram_zero_kernel>(device.stream(),
                                         dim3(static_cast<unsigned>(ceil_div(bins, trifold::threads_per_block))),
                                         trifold::threads_per_block, 0, counters, bins);
  const int64_t n = x.numel();
  if (n > 0) {
    const T* const first = trifold::data<T>(x);
    const trifold::Share share = trifold::share_out<T>(n, trifold::elements_to_boundary(first));
    constexpr int64_t elements_a_block = histogram_block * histogram_vectors_at_once * trifold::Vector<T>::size;
    const dim3 blocks(static_cast<unsigned>(std::min(ceil_div(n, elements_a_block), most_blocks)));
    if (bins <= histogram_shared_counters) {
      const auto fitting = static_cast<int>(std::bit_floor(static_cast<uint64_t>(histogram_shared_counters / bins)));
      trifold::launch_early<histogram_kernel<T>>(device.stream(), blocks, histogram_block, 0, first, counters, share,
                                                 static_cast<int>(bins), std::min(fitting, histogram_most_copies),
                                                 range);
    } else {
      trifold::launch_early<histogram_global_kernel<T>>(device.stream(), blocks, histogram_block, 0, first, counters,
                                                        share, bins, range);
    }
  }
  trifold::check_launch();
}

Tensor histogram(const Tensor& x, int64_t bins, double low, double high) {
  trifold::check_floating(name, x, "x");
  trifold::check(bins > 0, name, ": bins must be positive, but is ", bins, "; pass 1 or more");
  const Tensor counts = trifold::empty_strided(x, {bins}, {1}, aoti_torch_dtype_int64());
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    const auto range = checked_range<trifold::compute_t<T>>(bins, low, high);
    launch_histogram<T>(x.is_contiguous() ? x : torch::stable::contiguous(x), counts, bins, range);
  });
  return counts;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&histogram>(m, "histogram");
}
