#include <trifold/binding.h>

#include "matmul_tiled.cuh"

#include <algorithm>

namespace {

using trifold::ceil_div, trifold::Tensor;

constexpr const char* name = "matmul_tiled";

int64_t tiles_of(int64_t rows, int64_t columns, int64_t tile) {
  return ceil_div(rows, tile) * ceil_div(columns, tile);
}

// Large tiles read less, provided that each multiprocessor gets one. Short sums take little longer than a launch with
// either size: they use large tiles too, so that small calls check these on any GPU.
bool has_large_tiles(int64_t rows, int64_t columns, int64_t inner) {
  constexpr int64_t short_sum = 40;
  return std::min(rows, columns) > small_tile &&
         (inner <= short_sum || tiles_of(rows, columns, large_tile) >= trifold::multiprocessors());
}

// `size` and `stride` are those of a factor's rows, or columns; `inner` and `k_stride` those along k.
template <class T>
Factor<T> factor(const Tensor& x, int64_t size, int64_t stride, int64_t inner, int64_t k_stride, bool along_k) {
  constexpr int64_t piece = trifold::Vector<T>::size;
  const T* const first = trifold::data<T>(x);
  const bool in_pieces = trifold::elements_to_boundary(first) == 0 && (along_k ? k_stride : stride) == 1 &&
                         (along_k ? inner : size) % piece == 0 && (along_k ? stride : k_stride) % piece == 0;
  return {first, size, stride, k_stride, in_pieces};
}

template <class T>
void launch_halves(trifold::Stream stream, const Tensor& a, bool a_along_k, const Tensor& b, bool b_along_k,
                   const Tensor& out) {
  const int64_t rows = a.size(0), columns = b.size(1), inner = a.size(1);
  const auto start = [&]<int tile, bool a_first, bool b_first>() {
    constexpr auto kernel = matmul_halves_kernel<T, tile, a_first, b_first>;
    constexpr std::size_t shared = halves_stages<tile> * sizeof(Stage<T, tile, a_first, b_first>);
    trifold::permit_shared<kernel>(shared);
    trifold::launch_early<kernel>(stream, dim3(static_cast<unsigned>(tiles_of(rows, columns, tile))), halves_threads,
                                  shared, factor<T>(a, rows, a.stride(0), inner, a.stride(1), a_first),
                                  factor<T>(b, columns, b.stride(1), inner, b.stride(0), b_first),
                                  trifold::mutable_data<T>(out), inner);
  };
  const auto choose_layout = [&]<int tile>() {
    if (a_along_k && b_along_k) return start.template operator()<tile, true, true>();
    if (a_along_k) return start.template operator()<tile, true, false>();
    if (b_along_k) return start.template operator()<tile, false, true>();
    start.template operator()<tile, false, false>();
  };
  if (has_large_tiles(rows, columns, inner))
    choose_layout.template operator()<large_tile>();
  else
    choose_layout.template operator()<small_tile>();
}

// double never uses large tiles: a thread has too few registers for its share of one.
template <class T>
void launch_tiles(trifold::Stream stream, const Tensor& a, bool a_along_k, const Tensor& b, bool b_along_k,
                  const Tensor& out) {
  const int64_t rows = a.size(0), columns = b.size(1), inner = a.size(1);
  const auto start = [&]<int tile>() {
    trifold::launch_early<matmul_tiled_kernel<T, tile>>(
        stream, dim3(static_cast<unsigned>(tiles_of(rows, columns, tile))), dim3(matmul_side, matmul_side), 0,
        trifold::data<T>(a), a.stride(0), a.stride(1), a_along_k, trifold::data<T>(b), b.stride(1), b.stride(0),
        b_along_k, trifold::mutable_data<T>(out), rows, columns, inner);
  };
  if constexpr (sizeof(T) == sizeof(float))
    if (has_large_tiles(rows, columns, inner)) return start.template operator()<large_tile>();
  start.template operator()<small_tile>();
}

Tensor matmul_tiled(const Tensor& a, const Tensor& b) {
  trifold::check_same_device(name, a, "a", b, "b");
  trifold::check_floating(name, a, "a");
  trifold::check_same_dtype(name, a, "a", b, "b");
  const bool fits = a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0);
  trifold::check(fits, name, ": a and b must have the shapes (M, K) and (K, N), but a is ", trifold::Shape{a},
                 " and b is ", trifold::Shape{b}, "; multiply a batch matrix by matrix, and reshape a vector to a row");
  const Tensor out = trifold::empty_contiguous(a, {a.size(0), b.size(1)});
  if (out.numel() == 0) return out;
  trifold::dispatch_floating(a.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(a);
    const bool a_along_k = a.stride(1) <= a.stride(0), b_along_k = b.stride(0) < b.stride(1);
    if constexpr (sizeof(T) < sizeof(float))
      launch_halves<T>(device.stream(), a, a_along_k, b, b_along_k, out);
    else
      launch_tiles<T>(device.stream(), a, a_along_k, b, b_along_k, out);
    trifold::check_launch();
  });
  return out;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&matmul_tiled>(m, "matmul_tiled");
}
