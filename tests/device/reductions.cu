#include <trifold/rows.h>

#include "reductions.cuh"

namespace {

using trifold::Tensor;

template <class T, int threads>
void reduce(const Tensor& x, const Tensor& out) {
  const int64_t n = x.numel();
  const dim3 blocks(static_cast<unsigned>(n / threads));
  T* y = trifold::mutable_data<T>(out);
  trifold::launch<reduce_kernel<threads, T>>({}, blocks, threads, 0, trifold::data<T>(x), y, y + n, y + 2 * n,
                                             y + 3 * n);
}

Tensor reductions(const Tensor& x, int64_t threads) {
  const Tensor out = trifold::empty_strided(x, {4, x.numel()}, {x.numel(), 1});
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    if constexpr (sizeof(T) >= 4) {
      switch (threads) {
        case 32: return reduce<T, 32>(x, out);
        case 96: return reduce<T, 96>(x, out);
        case 1024: return reduce<T, 1024>(x, out);
      }
    }
    trifold::check(false, "reductions: there is no such kernel");
  });
  return out;
}

Tensor pairs(const Tensor& x) {
  const Tensor out = trifold::empty_strided(x, {2, x.numel()}, {x.numel(), 1});
  float* y = trifold::mutable_data<float>(out);
  const dim3 blocks(static_cast<unsigned>(x.numel() / 64));
  trifold::launch<reduce_pairs_kernel<64>>({}, blocks, 64, 0, trifold::data<float>(x), y, y + x.numel());
  return out;
}

Tensor sums(const Tensor& x) {
  const Tensor out = trifold::empty_strided(x, {2, 64}, {64, 1});
  float* y = trifold::mutable_data<float>(out);
  trifold::launch<sums_kernel<64>>({}, 1, 64, 0, trifold::data<float>(x), y, y + 64, x.numel());
  return out;
}

// Rows, columns, how far apart rows begin, and whether that took a copy.
std::tuple<int64_t, int64_t, int64_t, bool> rows(const Tensor& x) {
  const trifold::Rows of = trifold::rows_of(x);
  return {of.count, of.columns, of.stride, of.tensor.const_data_ptr() != x.const_data_ptr()};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&reductions>(m, "reductions");
  trifold::implement<&pairs>(m, "pairs");
  trifold::implement<&sums>(m, "sums");
  trifold::implement<&rows>(m, "rows");
}
