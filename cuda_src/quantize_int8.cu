#include <trifold/rows.h>

#include "quantize_int8.cuh"

namespace {

using trifold::Rows, trifold::Stream, trifold::Tensor;

// Of a call: its rows, and where the results go.
struct Results {
  int8_t* q;
  float* scales;
};

template <class T, int V, int team>
void launch_team(Stream stream, const Rows& x, Results to) {
  constexpr int block = std::max(team, quantize_block);
  trifold::launch_early<quantize_int8_rows_kernel<T, V, team>>(
      stream, trifold::block_a_row(trifold::ceil_div(x.count, block / team)), block, 0, x.data<T>(), x.stride, to.q,
      to.scales, x.count, static_cast<int>(x.columns));
}

// The threads that hold a row in registers, at most; longer rows are shared by blocks.
constexpr int largest_team = 1024;

// About as many blocks as a large GPU runs at once share out all rows. Each reads the largest sizes of all parts of its
// row, so that they must not be many.
constexpr int64_t blocks_in_parts = 16 * 132;

template <class T, int V>
void launch_parts(Stream stream, const Rows& x, Results to) {
  using C = trifold::compute_t<T>;
  constexpr int64_t least = quantize_numbers * quantize_block;
  const int64_t most = std::max<int64_t>(blocks_in_parts / x.count, 1);
  const int64_t stretch =
      trifold::ceil_div(trifold::ceil_div(x.columns, std::min(trifold::ceil_div(x.columns, least), most)), least) *
      least;
  const int64_t parts = trifold::ceil_div(x.columns, stretch);
  const int32_t dtype = std::is_same_v<C, double> ? aoti_torch_dtype_float64() : aoti_torch_dtype_float32();
  const Tensor scratch = trifold::empty_strided(x.tensor, {x.count * parts}, {1}, dtype);
  C* const largest = trifold::mutable_data<C>(scratch);
  const dim3 grid(static_cast<unsigned>(x.count * parts));
  trifold::launch_early<quantize_int8_max_kernel<T, V>>(stream, grid, quantize_block, 0, x.data<T>(), x.stride, largest,
                                                        x.columns, parts, stretch);
  trifold::launch_early<quantize_int8_parts_kernel<T, V>>(stream, grid, quantize_block, 0, x.data<T>(), x.stride,
                                                          largest, to.q, to.scales, x.columns, parts, stretch);
}

template <class T, int V>
void launch_quantize(Stream stream, const Rows& x, Results to) {
  constexpr int warp = trifold::warp_threads;
  constexpr bool narrow = sizeof(T) < sizeof(double);
  if (x.columns > int64_t{narrow ? largest_team : quantize_block} * quantize_numbers) {
    launch_parts<T, V>(stream, x, to);
  } else if constexpr (!narrow) {
    trifold::launch<quantize_int8_kernel<T>>(stream, trifold::block_a_row(x.count), quantize_block, 0, x.data<T>(),
                                             x.stride, to.q, to.scales, x.count, x.columns);
  } else if (x.columns <= warp * quantize_numbers) {
    launch_team<T, V, warp>(stream, x, to);
  } else if (x.columns <= quantize_block * quantize_numbers) {
    launch_team<T, V, quantize_block>(stream, x, to);
  } else {
    launch_team<T, V, largest_team>(stream, x, to);
  }
}

std::tuple<Tensor, Tensor> quantize_int8(const Tensor& x) {
  trifold::check_floating("quantize_int8", x, "x");
  const trifold::Dims sizes = x.sizes();
  const std::size_t leading = sizes.size() > 0 ? sizes.size() - 1 : 0;
  const Tensor q = trifold::empty_contiguous(x, sizes, aoti_torch_dtype_int8());
  const Tensor scale = trifold::empty_contiguous(x, trifold::Dims(sizes.data(), leading), aoti_torch_dtype_float32());
  const Rows rows = trifold::rows_of(x);
  if (rows.count > 0)
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(x);
      const Results to{trifold::mutable_data<int8_t>(q), trifold::mutable_data<float>(scale)};
      if (trifold::in_pieces<T>(rows.data<T>(), rows.stride, rows.columns))
        launch_quantize<T, trifold::Vector<T>::size>(device.stream(), rows, to);
      else
        launch_quantize<T, 1>(device.stream(), rows, to);
      trifold::check_launch();
    });
  return {q, scale};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&quantize_int8>(m, "quantize_int8");
}
