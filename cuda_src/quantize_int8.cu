#include <trifold/rows.h>

#include "quantize_int8.cuh"

namespace {

using trifold::Rows, trifold::Stream, trifold::Tensor;

// The outputs of a call.
struct Results {
  int8_t* q;
  float* scales;
};

template <class T, int V, int team>
void launch_team(Stream stream, const Rows& x, Results to) {
  constexpr int block = block_of_teams<team>;
  trifold::launch_early<quantize_int8_rows_kernel<T, V, team>>(
      stream, trifold::block_a_row(trifold::ceil_div(x.count, block / team)), block, 0, x.data<T>(), x.stride, to.q,
      to.scales, x.count, static_cast<int>(x.columns));
}

// Threads that hold a row in registers: the fewest that can. Longer rows are shared by blocks.
constexpr int smallest_team = 8;
template <int V>
constexpr int largest_team = V > 1 ? 1024 : 512;

// About as many blocks as a large GPU holds at once share all rows. Each reads the maxima of all parts of its row, so
// there must not be many.
constexpr int64_t blocks_in_parts = 16 * 132;

template <class T, int V>
void launch_parts(Stream stream, const Rows& x, Results to) {
  using C = trifold::compute_t<T>;
  constexpr int64_t least = 32 * quantize_block;
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
  constexpr bool narrow = sizeof(T) < sizeof(double);
  constexpr int64_t of_thread = narrow ? quantize_numbers<V> : 32;
  if (x.columns > (narrow ? largest_team<V> : quantize_block) * of_thread) {
    launch_parts<T, V>(stream, x, to);
  } else if constexpr (!narrow) {
    trifold::launch<quantize_int8_kernel<T>>(stream, trifold::block_a_row(x.count), quantize_block, 0, x.data<T>(),
                                             x.stride, to.q, to.scales, x.count, x.columns);
  } else if (x.columns <= smallest_team * of_thread) {
    launch_team<T, V, smallest_team>(stream, x, to);
  } else if (x.columns <= trifold::warp_threads * of_thread) {
    launch_team<T, V, trifold::warp_threads>(stream, x, to);
  } else if (x.columns <= quantize_block * of_thread) {
    launch_team<T, V, quantize_block>(stream, x, to);
  } else if (x.columns <= 2 * quantize_block * of_thread) {
    launch_team<T, V, 2 * quantize_block>(stream, x, to);
  } else {
    launch_team<T, V, largest_team<V>>(stream, x, to);
  }
}

// Whether q can be stored as many numbers at a time as x is loaded: both rows reach a boundary at the same number.
template <class T>
bool in_step(const Rows& x, const int8_t* q) {
  constexpr int64_t size = trifold::Vector<T>::size;
  const auto first = reinterpret_cast<uintptr_t>(q) + trifold::elements_to_boundary(x.data<T>());
  return first % size == 0 && (x.stride - x.columns) % size == 0;
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
      if (in_step<T>(rows, to.q))
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
