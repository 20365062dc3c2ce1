#include <trifold/rows.h>

#include "cumsum.cuh"

namespace {

using trifold::Rows, trifold::ScalarType, trifold::Tensor;

constexpr const char* name = "cumsum";

// The number of blocks resident on the current device, given how many a multiprocessor holds.
int64_t resident_blocks([[maybe_unused]] int of_a_multiprocessor) {
#ifndef TRIFOLD_CPU
  return of_a_multiprocessor * trifold::multiprocessors();
#else
  return 4;  // few enough for one CPU thread; more than one, so that checks see them alternate
#endif
}

template <class T>
Tensor result_like(const Tensor& x) {
  if constexpr (std::is_integral_v<T>) return trifold::empty_contiguous(x, x.sizes(), aoti_torch_dtype_int64());
  return trifold::row_output(x);
}

// One warp per row if rows are short, one block if they are longer.
template <class T, int V>
void launch_rows(trifold::Stream stream, const Rows& x, result_t<T>* y, bool reverse, bool many) {
  const auto start = [&]<int team>() {
    trifold::launch_early<cumsum_rows_kernel<T, V, team>>(
        stream, trifold::block_a_row(trifold::ceil_div(x.count, cumsum_block / team)), cumsum_block, 0, x.data<T>(),
        x.stride, y, x.count, x.columns, reverse);
  };
  constexpr int tile = tile_of<trifold::warp_threads>;
  if (x.columns <= (many ? 4 : 1) * tile)
    start.template operator()<trifold::warp_threads>();
  else
    start.template operator()<cumsum_block>();
}

template <class T, int V>
void launch_tiles(trifold::Stream stream, const Rows& x, result_t<T>* y, bool reverse, int64_t resident) {
  using Carry = carry_t<T>;
  const int64_t count = x.count * trifold::ceil_div(x.columns, tile_of<tiles_block>);
  const int32_t dtype = std::is_same_v<Carry, double> ? aoti_torch_dtype_float64() : aoti_torch_dtype_int64();
  // The counter of claimed tiles follows the states, so that one launch resets both.
  const Tensor states = trifold::empty_strided(x.tensor, {count + 1}, {1}, aoti_torch_dtype_int32());
  const Tensor sums = trifold::empty_strided(x.tensor, {2 * count}, {1}, dtype);
  int* const state = trifold::mutable_data<int>(states);
  Carry* const sum = trifold::mutable_data<Carry>(sums);
  const auto reset_blocks = trifold::ceil_div(count + 1, trifold::threads_per_block);
  trifold::launch_early<cumsum_reset_kernel>(stream, dim3(static_cast<unsigned>(reset_blocks)),
                                             trifold::threads_per_block, 0, state, count + 1);
  trifold::launch_early<cumsum_tiles_kernel<T, V>>(stream, dim3(static_cast<unsigned>(std::min(count, resident))),
                                                   tiles_block, 0, x.data<T>(), x.stride, y, x.count, x.columns,
                                                   reverse, state, sum, sum + count, state + count);
}

template <class T>
Tensor cumsum_of(const Tensor& x, bool reverse) {
  const Tensor result = result_like<T>(x);
  const Rows rows = trifold::rows_of(x);
  if (rows.empty()) return result;
  const trifold::OnDevice device(x);
  result_t<T>* const y = trifold::mutable_data<result_t<T>>(result);
  const auto start = [&]<int V>() {
    const int64_t resident = resident_blocks(row_blocks_a_multiprocessor<T, V>);
    // Enough rows to keep all blocks busy, with a short last wave.
    const bool many = rows.count >= 2 * resident;
    if (many || rows.columns <= tile_of<tiles_block>)
      launch_rows<T, V>(device.stream(), rows, y, reverse, many);
    else
      launch_tiles<T, V>(device.stream(), rows, y, reverse, resident_blocks(tile_blocks_a_multiprocessor<T>));
  };
  const bool whole = trifold::in_pieces<T>(rows.data<T>(), rows.stride, rows.columns) &&
                     trifold::in_pieces<result_t<T>>(y, rows.columns, rows.columns);
  if (whole)
    start.template operator()<trifold::Vector<T>::size>();
  else
    start.template operator()<1>();
  trifold::check_launch();
  return result;
}

Tensor cumsum(const Tensor& x, bool reverse) {
  switch (x.scalar_type()) {
    case ScalarType::Double: return cumsum_of<double>(x, reverse);
    case ScalarType::Float: return cumsum_of<float>(x, reverse);
    case ScalarType::Half: return cumsum_of<__half>(x, reverse);
    case ScalarType::BFloat16: return cumsum_of<__nv_bfloat16>(x, reverse);
    case ScalarType::Long: return cumsum_of<int64_t>(x, reverse);
    case ScalarType::Int: return cumsum_of<int32_t>(x, reverse);
    default:
      trifold::fail(name, ": x must be float64, float32, float16, bfloat16, int64 or int32, not ", trifold::Dtype{x},
                    "; convert it with x.to(torch.float32)");
  }
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&cumsum>(m, "cumsum");
}
