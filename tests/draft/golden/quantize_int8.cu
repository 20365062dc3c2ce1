#include <trifold/launch_functions.h>

#include "quantize_int8.cuh"

namespace {

using trifold::Tensor;

constexpr int LONG_ROW = 4096;
constexpr int STRETCH = 1024;
constexpr int MOST_PARTS = 8;

std::tuple<Tensor, Tensor> quantize_int8(const Tensor& x) {
  trifold::check_floating("quantize_int8", x, "x");
  const Tensor q = trifold::empty_contiguous(x, x.sizes(), trifold::dtype_code(trifold::ScalarType::Char));
  const Tensor scale = trifold::empty_contiguous(x, trifold::sizes(trifold::sizes_of(x, 0, -1)),
                                                 trifold::dtype_code(trifold::ScalarType::Float));
  const int64_t columns = x.dim() > 0 ? x.size(-1) : 1;
  const int64_t count = scale.numel();
  const Tensor matrix = torch::stable::reshape(x, {count, columns});
  const Tensor of_q = torch::stable::reshape(q, {count, columns});
  if (columns <= LONG_ROW) {
    const Tensor outputs_1 = torch::stable::reshape(scale, {-1});
    const int64_t block = trifold::threads_for(columns);
    if (count > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const Tensor x_argument = trifold::without_gaps(matrix);
        const trifold::OnDevice device(x);
        trifold::launch<quantize_int8_kernel<T>>(device.stream(), trifold::extents(count), trifold::extents(block), 0,
                                                 trifold::data<T>(x_argument), x_argument.stride(0),
                                                 trifold::mutable_data<int8_t>(of_q), of_q.stride(0),
                                                 trifold::mutable_data<float>(outputs_1), count, columns);
        trifold::check_launch();
      });
    }
    return {q, scale};
  }
  const int64_t parts = std::min<int64_t>(trifold::ceil_div(columns, STRETCH), MOST_PARTS);
  const int64_t stretch = trifold::ceil_div(columns, parts);
  const Tensor largest = trifold::empty_contiguous(x, {count * parts}, trifold::compute_dtype(x));
  const int64_t blocks = count * parts;
  if (blocks > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor x_argument = trifold::without_gaps(matrix);
      const trifold::OnDevice device(x);
      trifold::launch<quantize_int8_max_kernel<T>>(
          device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0, trifold::data<T>(x_argument),
          x_argument.stride(0), trifold::mutable_data<trifold::compute_t<T>>(largest), columns, parts, stretch);
      trifold::check_launch();
    });
  }
  const int64_t blocks2 = count * parts;
  if (blocks2 > 0) {
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const Tensor x_argument = trifold::without_gaps(matrix);
      const Tensor scales_argument = torch::stable::reshape(scale, {-1});
      const trifold::OnDevice device(x);
      trifold::launch<quantize_int8_parts_kernel<T>>(
          device.stream(), trifold::extents(blocks2), dim3(trifold::threads_per_block), 0, trifold::data<T>(x_argument),
          x_argument.stride(0), trifold::data<trifold::compute_t<T>>(largest), trifold::mutable_data<int8_t>(of_q),
          of_q.stride(0), trifold::mutable_data<float>(scales_argument), columns, parts, stretch);
      trifold::check_launch();
    });
  }
  return {q, scale};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&quantize_int8>(m, "quantize_int8");
}
