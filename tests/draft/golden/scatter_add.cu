#include <trifold/launch_functions.h>

#include "scatter_add.cuh"

namespace {

using trifold::Tensor;

constexpr int MOST_LANES = 32;
constexpr int BLOCK = 256;
constexpr int MOST_BLOCKS_DOWN = 65535;

Tensor scatter_add(const Tensor& source, const Tensor& index, int64_t size) {
  trifold::check_floating("scatter_add", source, "source");
  trifold::check(source.dim() == 2, "scatter_add: source must have two dimensions, not the shape ",
                 trifold::Shape{source}, "; flatten what is in a row with source.flatten(1)");
  trifold::check(trifold::same_device(index, source),
                 "scatter_add: source and index must be on the same device, but source is on ", trifold::Place{source},
                 " and index is on ", trifold::Place{index}, "; move one with index.to(source.device)");
  trifold::check(index.scalar_type() == trifold::ScalarType::Long, "scatter_add: index must be int64, not torch.",
                 trifold::Dtype{index}, "; convert it with index.long()");
  trifold::check(index.dim() == 1, "scatter_add: index must have one dimension, not the shape ", trifold::Shape{index},
                 "; flatten it with index.reshape(-1)");
  const int64_t rows = source.size(0);
  const int64_t columns = source.size(1);
  trifold::check(index.size(0) == rows,
                 "scatter_add: index must have one number for each row of source, but source is ",
                 trifold::Shape{source}, " and index is ", trifold::Shape{index},
                 "; pass the row of the result that each row of source is added to");
  trifold::check(size >= 0, "scatter_add: size must not be negative, but is ", size, "; pass 0 or more");
  const Tensor out = trifold::empty_contiguous(source, {size, columns});
  const Tensor sums = trifold::dtype_code(source) == trifold::compute_dtype(source)
                          ? out
                          : trifold::empty_contiguous(out, out.sizes(), trifold::compute_dtype(source));
  const int64_t n = out.numel();
  const int64_t blocks = trifold::ceil_div(n, trifold::threads_per_block);
  if (blocks > 0) {
    trifold::dispatch_floating(source.scalar_type(), [&]<class T>() {
      const Tensor sums_argument = torch::stable::reshape(sums, {-1});
      const trifold::OnDevice device(source);
      trifold::launch<scatter_add_zero_kernel<trifold::compute_t<T>>>(
          device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0,
          trifold::mutable_data<trifold::compute_t<T>>(sums_argument), n);
      trifold::check_launch();
    });
  }
  if (n > 0) {
    const int64_t lanes =
        std::min<int64_t>(int64_t{1} << trifold::bit_length(std::max<int64_t>(columns - 1, 0)), MOST_LANES);
    const int64_t apart = trifold::floor_div(BLOCK, lanes);
    const int64_t down = std::min<int64_t>(trifold::ceil_div(rows, apart * ROWS_A_THREAD), MOST_BLOCKS_DOWN);
    const int64_t grid_0 = trifold::ceil_div(columns, lanes);
    if (grid_0 > 0 && down > 0) {
      trifold::dispatch_floating(source.scalar_type(), [&]<class T>() {
        const Tensor index_argument = trifold::without_gaps(index);
        const trifold::OnDevice device(source);
        trifold::launch<scatter_add_kernel<T>>(
            device.stream(), trifold::extents(grid_0, down), trifold::extents(lanes, apart), 0,
            trifold::data<T>(source), source.stride(0), source.stride(1), trifold::data<int64_t>(index_argument),
            trifold::mutable_data<trifold::compute_t<T>>(sums), sums.stride(0), rows, columns, size);
        trifold::check_launch();
      });
    }
  }
  if (!trifold::same_memory(sums, out)) {
    const int64_t threads = trifold::ceil_div(n, NUMBERS_A_THREAD);
    const int64_t blocks2 = trifold::ceil_div(threads, trifold::threads_per_block);
    if (blocks2 > 0) {
      trifold::dispatch_floating(source.scalar_type(), [&]<class T>() {
        if constexpr (sizeof(T) == 2) {
          const Tensor sums_argument = trifold::without_gaps(torch::stable::reshape(sums, {-1}));
          const Tensor out_argument = torch::stable::reshape(out, {-1});
          const trifold::OnDevice device(source);
          trifold::launch<scatter_add_round_kernel<T>>(
              device.stream(), trifold::extents(blocks2), dim3(trifold::threads_per_block), 0,
              trifold::data<trifold::compute_t<T>>(sums_argument), trifold::mutable_data<T>(out_argument), n);
          trifold::check_launch();
        }
      });
    }
  }
  return out;
}

Tensor scatter_add_backward(const Tensor& grad, const Tensor& index) {
  trifold::check_floating("scatter_add_backward", grad, "grad");
  trifold::check(grad.dim() == 2, "scatter_add_backward: grad must have two dimensions, not the shape ",
                 trifold::Shape{grad}, "; flatten what is in a row with grad.flatten(1)");
  trifold::check(trifold::same_device(index, grad),
                 "scatter_add_backward: grad and index must be on the same device, but grad is on ",
                 trifold::Place{grad}, " and index is on ", trifold::Place{index},
                 "; move one with index.to(grad.device)");
  trifold::check(index.scalar_type() == trifold::ScalarType::Long,
                 "scatter_add_backward: index must be int64, not torch.", trifold::Dtype{index},
                 "; convert it with index.long()");
  trifold::check(index.dim() == 1, "scatter_add_backward: index must have one dimension, not the shape ",
                 trifold::Shape{index}, "; flatten it with index.reshape(-1)");
  const int64_t rows = index.size(0);
  const int64_t size = grad.size(0);
  const int64_t columns = grad.size(1);
  const Tensor grad_source = trifold::row_output(trifold::empty_contiguous(grad, {rows, columns}));
  const int64_t lanes =
      std::min<int64_t>(int64_t{1} << trifold::bit_length(std::max<int64_t>(columns - 1, 0)), MOST_LANES);
  const int64_t apart = trifold::floor_div(BLOCK, lanes);
  const int64_t down = std::min<int64_t>(trifold::ceil_div(rows, apart * ROWS_A_THREAD), MOST_BLOCKS_DOWN);
  const int64_t grid_0 = trifold::ceil_div(columns, lanes);
  if (grid_0 > 0 && down > 0) {
    trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
      const Tensor index_argument = trifold::without_gaps(index);
      const trifold::OnDevice device(grad);
      trifold::launch<scatter_add_backward_kernel<T>>(
          device.stream(), trifold::extents(grid_0, down), trifold::extents(lanes, apart), 0, trifold::data<T>(grad),
          grad.stride(0), grad.stride(1), trifold::data<int64_t>(index_argument), trifold::mutable_data<T>(grad_source),
          grad_source.stride(0), rows, columns, size);
      trifold::check_launch();
    });
  }
  return grad_source;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&scatter_add>(m, "scatter_add");
  trifold::implement<&scatter_add_backward>(m, "scatter_add_backward");
}
