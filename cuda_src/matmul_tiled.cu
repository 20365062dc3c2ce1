#include <trifold/binding.h>

#include "matmul_tiled.cuh"

namespace {

using trifold::ceil_div, trifold::Tensor;

constexpr const char* name = "matmul_tiled";

Tensor matmul_tiled(const Tensor& a, const Tensor& b) {
  trifold::check_same_device(name, a, "a", b, "b");
  trifold::check_floating(name, a, "a");
  trifold::check_same_dtype(name, a, "a", b, "b");
  const bool fits = a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0);
  trifold::check(fits, name, ": a and b must have the shapes (M, K) and (K, N), but a is ", trifold::Shape{a},
                 " and b is ", trifold::Shape{b}, "; multiply a batch matrix by matrix, and reshape a vector to a row");
  const int64_t rows = a.size(0), columns = b.size(1), inner = a.size(1);
  const Tensor out = trifold::empty_contiguous(a, {rows, columns});
  if (out.numel() == 0) return out;
  trifold::dispatch_floating(a.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(a);
    const auto tiles = static_cast<unsigned>(ceil_div(rows, matmul_tile) * ceil_div(columns, matmul_tile));
    trifold::launch<matmul_tiled_kernel<T>>(device.stream(), dim3(tiles), dim3(matmul_side, matmul_side), 0,
                                            trifold::data<T>(a), a.stride(0), a.stride(1), a.stride(1) <= a.stride(0),
                                            trifold::data<T>(b), b.stride(1), b.stride(0), b.stride(0) < b.stride(1),
                                            trifold::mutable_data<T>(out), rows, columns, inner);
    trifold::check_launch();
  });
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&matmul_tiled>(m, "matmul_tiled");
}
