#include <trifold/launch_functions.h>

#include "cumsum.cuh"

namespace {

using trifold::Tensor;

constexpr int RESIDENT_BLOCKS = 4;

Tensor cumsum(const Tensor& x, bool reverse) {
  trifold::check(x.scalar_type() == trifold::ScalarType::Double || x.scalar_type() == trifold::ScalarType::Float ||
                     x.scalar_type() == trifold::ScalarType::Half || x.scalar_type() == trifold::ScalarType::BFloat16 ||
                     x.scalar_type() == trifold::ScalarType::Long || x.scalar_type() == trifold::ScalarType::Int,
                 "cumsum: x must be float64, float32, float16, bfloat16, int64 or int32, not ", trifold::Dtype{x},
                 "; convert it with x.to(torch.float32)");
  const bool integer = !trifold::is_floating_point(x.scalar_type());
  const Tensor y = trifold::empty_contiguous(
      x, x.sizes(), trifold::dtype_code(integer ? trifold::ScalarType::Long : x.scalar_type()));
  const int64_t count = trifold::rows(x).size(0);
  const int64_t columns = trifold::rows(x).size(1);
  if (x.numel() == 0) {
    return y;
  }
  if (columns <= TILE || count >= 2 * RESIDENT_BLOCKS) {
    const int64_t block = trifold::threads_for(columns);
    if (count > 0) {
      trifold::dispatch_dtypes<double, float, __half, __nv_bfloat16, int64_t, int>(x.scalar_type(), [&]<class T>() {
        const Tensor x_argument = trifold::without_gaps(trifold::rows(x));
        const Tensor y_argument = trifold::rows(y);
        const trifold::OnDevice device(x);
        trifold::launch<cumsum_rows_kernel<T>>(device.stream(), trifold::extents(count), trifold::extents(block), 0,
                                               trifold::data<T>(x_argument), x_argument.stride(0),
                                               trifold::mutable_data<y_t<T>>(y_argument), y_argument.stride(0), count,
                                               columns, reverse);
        trifold::check_launch();
      });
    }
    return y;
  }
  const int64_t tiles = count * trifold::ceil_div(columns, TILE);
  const Tensor states = trifold::empty_contiguous(x, {tiles + 1}, trifold::dtype_code(trifold::ScalarType::Int));
  const Tensor sums = trifold::empty_contiguous(
      x, {2, tiles}, trifold::dtype_code(integer ? trifold::ScalarType::Long : trifold::ScalarType::Double));
  const int64_t blocks = trifold::ceil_div(tiles + 1, trifold::threads_per_block);
  {
    const trifold::OnDevice device(x);
    trifold::launch<cumsum_reset_kernel>(device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0,
                                         trifold::mutable_data<int>(states), tiles + 1);
    trifold::check_launch();
  }
  const int64_t blocks2 = std::min<int64_t>(tiles, RESIDENT_BLOCKS);
  if (blocks2 > 0) {
    trifold::dispatch_dtypes<double, float, __half, __nv_bfloat16, int64_t, int>(x.scalar_type(), [&]<class T>() {
      const Tensor x_argument = trifold::without_gaps(trifold::rows(x));
      const Tensor y_argument = trifold::rows(y);
      const Tensor states_argument = trifold::slice(states, 0, tiles);
      const Tensor aggregates_argument = torch::stable::select(sums, 0, 0);
      const Tensor prefixes_argument = torch::stable::select(sums, 0, 1);
      const Tensor claimed_argument = trifold::slice(states, tiles);
      const trifold::OnDevice device(x);
      trifold::launch<cumsum_tiles_kernel<T>>(
          device.stream(), trifold::extents(blocks2), dim3(trifold::threads_per_block), 0, trifold::data<T>(x_argument),
          x_argument.stride(0), trifold::mutable_data<y_t<T>>(y_argument), y_argument.stride(0), count, columns,
          reverse, trifold::mutable_data<int>(states_argument), trifold::mutable_data<wide_t<T>>(aggregates_argument),
          trifold::mutable_data<wide_t<T>>(prefixes_argument), trifold::mutable_data<int>(claimed_argument));
      trifold::check_launch();
    });
  }
  return y;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&cumsum>(m, "cumsum");
}
