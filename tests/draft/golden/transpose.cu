#include <trifold/launch_functions.h>

#include "transpose.cuh"

namespace {

using trifold::Tensor;

constexpr int MOST_BLOCKS = 2147483647;

constexpr std::pair<int64_t, trifold::ScalarType> INTEGERS[] = {{1, trifold::ScalarType::Byte},
                                                                {2, trifold::ScalarType::Short},
                                                                {4, trifold::ScalarType::Int},
                                                                {8, trifold::ScalarType::Long}};

Tensor transpose(const Tensor& x) {
  trifold::check(x.dim() >= 2, "transpose: x must have two dimensions or more, but is of shape ", trifold::Shape{x},
                 "; pass a row as x[None]");
  trifold::check(trifold::has_entry(INTEGERS, x.element_size()),
                 "transpose: x must have elements of 1, 2, 4 or 8 bytes, but is ", trifold::Dtype{x},
                 "; of a complex tensor pass torch.view_as_real(x).movedim(-1, 0), as two");
  const int64_t rows = x.size(-2);
  const int64_t columns = x.size(-1);
  const Tensor y = trifold::empty_contiguous(x, trifold::sizes(trifold::sizes_of(x, 0, -2), columns, rows));
  if (y.numel() == 0) {
    return y;
  }
  const int64_t count = trifold::count_of(x, 0, -2);
  const Tensor elements = torch::stable::contiguous(
      torch::stable::reshape(trifold::view_as(x, trifold::entry(INTEGERS, x.element_size())), {-1}));
  const Tensor turned = torch::stable::reshape(trifold::view_as(y, elements.scalar_type()), {-1});
  const int64_t pack = 4 / static_cast<int64_t>(x.element_size());
  const bool whole = pack > 1 && rows % pack == 0 && columns % pack == 0 && elements.storage_offset() % pack == 0;
  if (whole && trifold::address(elements) % 4 == 0) {
    const Tensor words = trifold::view_as(elements, trifold::ScalarType::Int);
    const Tensor turned2 = trifold::view_as(turned, trifold::ScalarType::Int);
    const int64_t tiles =
        count * trifold::ceil_div(rows / pack, TILE_EDGE) * trifold::ceil_div(columns / pack, TILE_EDGE);
    const int64_t grid = std::min<int64_t>(tiles, MOST_BLOCKS);
    const Tensor x2 = torch::stable::reshape(words, {count, -1, columns / pack});
    const Tensor y2 = torch::stable::reshape(turned2, {count, -1, rows / pack});
    if (grid > 0) {
      const Tensor x_argument = trifold::without_gaps(x2);
      const trifold::OnDevice device(x);
      trifold::launch<transpose_words_kernel>(device.stream(), trifold::extents(grid), dim3(TILE_EDGE, TILE_HEIGHT), 0,
                                              trifold::data<int>(x_argument), x_argument.stride(0),
                                              x_argument.stride(1), trifold::mutable_data<int>(y2), y2.stride(0),
                                              y2.stride(1), rows / pack, columns / pack, tiles, pack);
      trifold::check_launch();
    }
  } else {
    const int64_t tiles2 = count * trifold::ceil_div(rows, TILE_EDGE) * trifold::ceil_div(columns, TILE_EDGE);
    const int64_t grid2 = std::min<int64_t>(tiles2, MOST_BLOCKS);
    const Tensor x3 = torch::stable::reshape(elements, {count, -1, columns});
    const Tensor y3 = torch::stable::reshape(turned, {count, -1, rows});
    if (grid2 > 0) {
      trifold::dispatch_sizes<uint8_t, int16_t, int, int64_t>(x.element_size(), [&]<class T>() {
        const Tensor x_argument = trifold::without_gaps(x3);
        const trifold::OnDevice device(x);
        trifold::launch<transpose_kernel<T>>(device.stream(), trifold::extents(grid2), dim3(TILE_EDGE, TILE_HEIGHT), 0,
                                             trifold::data<T>(x_argument), x_argument.stride(0), x_argument.stride(1),
                                             trifold::mutable_data<T>(y3), y3.stride(0), y3.stride(1), rows, columns,
                                             tiles2);
        trifold::check_launch();
      });
    }
  }
  return y;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&transpose>(m, "transpose");
}
