#include <trifold/launch_functions.h>

#include "matmul_tiled.cuh"

namespace {

using trifold::Tensor;

Tensor matmul_tiled(const Tensor& a, const Tensor& b) {
  trifold::check(trifold::same_device(a, b), "matmul_tiled: a and b must be on the same device, but a is on ",
                 trifold::Place{a}, " and b is on ", trifold::Place{b}, "; move one with b.to(a.device)");
  trifold::check_floating("matmul_tiled", a, "a");
  trifold::check(trifold::same_dtype(a, b), "matmul_tiled: a and b must have the same dtype, but a is ",
                 trifold::Dtype{a}, " and b is ", trifold::Dtype{b}, "; convert one with b.to(a.dtype)");
  trifold::check(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0),
                 "matmul_tiled: a and b must have the shapes (M, K) and (K, N), but a is ", trifold::Shape{a},
                 " and b is ", trifold::Shape{b}, "; multiply a batch matrix by matrix, and reshape a vector to a row");
  const int64_t rows = a.size(0);
  const int64_t inner = a.size(1);
  const int64_t columns = b.size(1);
  const Tensor out = trifold::empty_contiguous(a, {rows, columns});
  const int64_t tiles = trifold::ceil_div(rows, TILE) * trifold::ceil_div(columns, TILE);
  if (tiles > 0) {
    trifold::dispatch_floating(a.scalar_type(), [&]<class T>() {
      const Tensor b_transposed_argument = torch::stable::transpose(b, 0, 1);
      const trifold::OnDevice device(a);
      trifold::launch<matmul_tiled_kernel<T>>(device.stream(), trifold::extents(tiles), dim3(SIDE, SIDE), 0,
                                              trifold::data<T>(a), a.stride(0), a.stride(1), a.stride(1) <= a.stride(0),
                                              trifold::data<T>(b_transposed_argument), b_transposed_argument.stride(0),
                                              b_transposed_argument.stride(1), b.stride(0) < b.stride(1),
                                              trifold::mutable_data<T>(out), out.stride(0), rows, columns, inner);
      trifold::check_launch();
    });
  }
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&matmul_tiled>(m, "matmul_tiled");
}
