#include <trifold/launch_functions.h>

#include "topk.cuh"

namespace {

using trifold::Tensor;

constexpr int MOST = 64;
constexpr int LEAST_VECTORS = 4096;
constexpr int BLOCKS_WANTED = 528;
constexpr int FEW_THREADS = 64;
constexpr int FEWEST_THREADS = 32;
constexpr int BACKWARD_LEAST_VECTORS = 2048;
constexpr int BACKWARD_BLOCKS_WANTED = 4224;

std::tuple<Tensor, Tensor> topk(const Tensor& x, int64_t k) {
  trifold::check_floating("topk", x, "x");
  trifold::check(1 <= k && k <= MOST, "topk: k must be from 1 to 64, but is ", k,
                 "; of more numbers, sort all with torch.sort(x, descending=True)");
  const Tensor matrix = trifold::rows(x);
  const int64_t count = matrix.size(0);
  const int64_t columns = matrix.size(1);
  trifold::check(k <= columns, "topk: k must not exceed the last dimension of x, but is ", k, ", and x is of shape ",
                 trifold::Shape{x}, "; pass a smaller k");
  const std::vector<int64_t> shape = x.dim() != 0 ? trifold::sizes(trifold::sizes_of(x, 0, -1), k) : trifold::sizes();
  const Tensor values = trifold::empty_contiguous(x, shape);
  const Tensor indices = trifold::empty_contiguous(x, shape, trifold::dtype_code(trifold::ScalarType::Long));
  if (count == 0) {
    return {values, indices};
  }
  const int64_t wanted = std::min<int64_t>(trifold::ceil_div(BLOCKS_WANTED, count),
                                           columns / (LEAST_VECTORS * (16 / static_cast<int64_t>(x.element_size()))));
  const int64_t slices = std::max<int64_t>({wanted, trifold::ceil_div(columns, 1073741824), 1});
  const Tensor results_0 = torch::stable::reshape(values, {-1});
  const Tensor results_1 = torch::stable::reshape(indices, {-1});
  const Tensor own = trifold::empty_contiguous(indices, {0, 0});
  if (slices == 1) {
    const int64_t count2 = matrix.size(0);
    const int64_t columns2 = matrix.size(1);
    const int64_t tile = FEW_THREADS * ELEMENTS * (16 / static_cast<int64_t>(matrix.element_size()));
    int64_t capacity2;
    int64_t threads2;
    if (columns2 <= 4 * FEWEST_THREADS && k <= FEWEST_THREADS) {
      capacity2 = 4 * FEWEST_THREADS;
      threads2 = FEWEST_THREADS;
    } else {
      int64_t capacity;
      int64_t threads;
      if (columns2 <= 4 * FEW_THREADS || (k <= FEW_THREADS / 2 && columns2 <= tile)) {
        capacity = 4 * FEW_THREADS;
        threads = FEW_THREADS;
      } else {
        capacity = CAPACITY;
        threads = trifold::threads_per_block;
      }
      capacity2 = capacity;
      threads2 = threads;
    }
    if (count2 > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const Tensor x_argument = trifold::without_gaps(matrix);
        const trifold::OnDevice device(x);
        trifold::launch<topk_kernel<T>>(device.stream(), trifold::extents(count2, 1), trifold::extents(threads2), 0,
                                        trifold::data<T>(x_argument), x_argument.stride(0), trifold::data<int64_t>(own),
                                        own.stride(0), own.numel(), trifold::mutable_data<T>(results_0),
                                        trifold::mutable_data<int64_t>(results_1), count2, columns2, columns2, k,
                                        capacity2);
        trifold::check_launch();
      });
    }
  } else {
    const Tensor parts = trifold::empty_contiguous(x, {count, slices * k});
    const Tensor columns_of = trifold::empty_contiguous(indices, {count, slices * k});
    const int64_t count3 = matrix.size(0);
    const int64_t columns3 = matrix.size(1);
    const int64_t share = columns3 / slices;
    const int64_t tile2 = FEW_THREADS * ELEMENTS * (16 / static_cast<int64_t>(matrix.element_size()));
    int64_t capacity4;
    int64_t threads4;
    if (share <= 4 * FEWEST_THREADS && k <= FEWEST_THREADS) {
      capacity4 = 4 * FEWEST_THREADS;
      threads4 = FEWEST_THREADS;
    } else {
      int64_t capacity3;
      int64_t threads3;
      if (share <= 4 * FEW_THREADS || (k <= FEW_THREADS / 2 && share <= tile2)) {
        capacity3 = 4 * FEW_THREADS;
        threads3 = FEW_THREADS;
      } else {
        capacity3 = CAPACITY;
        threads3 = trifold::threads_per_block;
      }
      capacity4 = capacity3;
      threads4 = threads3;
    }
    if (count3 > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const Tensor x_argument = trifold::without_gaps(matrix);
        const Tensor values_argument = torch::stable::reshape(parts, {-1});
        const Tensor indices_argument = torch::stable::reshape(columns_of, {-1});
        const trifold::OnDevice device(x);
        trifold::launch<topk_kernel<T>>(
            device.stream(), trifold::extents(count3, slices), trifold::extents(threads4), 0,
            trifold::data<T>(x_argument), x_argument.stride(0), trifold::data<int64_t>(own), own.stride(0), own.numel(),
            trifold::mutable_data<T>(values_argument), trifold::mutable_data<int64_t>(indices_argument), count3,
            columns3, share, k, capacity4);
        trifold::check_launch();
      });
    }
    const int64_t count4 = parts.size(0);
    const int64_t columns4 = parts.size(1);
    const int64_t tile3 = FEW_THREADS * ELEMENTS * (16 / static_cast<int64_t>(parts.element_size()));
    int64_t capacity6;
    int64_t threads6;
    if (columns4 <= 4 * FEWEST_THREADS && k <= FEWEST_THREADS) {
      capacity6 = 4 * FEWEST_THREADS;
      threads6 = FEWEST_THREADS;
    } else {
      int64_t capacity5;
      int64_t threads5;
      if (columns4 <= 4 * FEW_THREADS || (k <= FEW_THREADS / 2 && columns4 <= tile3)) {
        capacity5 = 4 * FEW_THREADS;
        threads5 = FEW_THREADS;
      } else {
        capacity5 = CAPACITY;
        threads5 = trifold::threads_per_block;
      }
      capacity6 = capacity5;
      threads6 = threads5;
    }
    if (count4 > 0) {
      trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
        const trifold::OnDevice device(x);
        trifold::launch<topk_kernel<T>>(device.stream(), trifold::extents(count4, 1), trifold::extents(threads6), 0,
                                        trifold::data<T>(parts), parts.stride(0), trifold::data<int64_t>(columns_of),
                                        columns_of.stride(0), columns_of.numel(), trifold::mutable_data<T>(results_0),
                                        trifold::mutable_data<int64_t>(results_1), count4, columns4, columns4, k,
                                        capacity6);
        trifold::check_launch();
      });
    }
  }
  return {values, indices};
}

Tensor topk_backward(const Tensor& grad_values, const Tensor& indices, int64_t columns) {
  trifold::check_floating("topk_backward", grad_values, "grad_values");
  const bool right =
      indices.scalar_type() == trifold::ScalarType::Long && trifold::same_sizes(indices.sizes(), grad_values.sizes());
  trifold::check(right, "topk_backward: indices must be int64, of the shape of grad_values; pass topk's second result");
  const Tensor grad = trifold::rows(grad_values);
  const int64_t count = grad.size(0);
  const int64_t k = grad.size(1);
  trifold::check(columns >= k, "topk_backward: columns must not be less than k, but is ", columns,
                 "; pass that number of x");
  const Tensor grad_x = trifold::empty_contiguous(
      grad_values,
      grad_values.dim() != 0 ? trifold::sizes(trifold::sizes_of(grad_values, 0, -1), columns) : trifold::sizes());
  if (grad.numel() == 0) {
    return grad_x;
  }
  const int64_t wanted =
      std::min<int64_t>(trifold::ceil_div(BACKWARD_BLOCKS_WANTED, count),
                        columns / (BACKWARD_LEAST_VECTORS * (16 / static_cast<int64_t>(grad_x.element_size()))));
  const int64_t slices = std::max<int64_t>({wanted, trifold::ceil_div(columns, 1073741824), 1});
  const int64_t share = columns / slices;
  const int64_t vectors = share / (16 / static_cast<int64_t>(grad_x.element_size()));
  const int64_t team = vectors <= 16 ? 4 : vectors <= 512 ? 32 : trifold::threads_per_block;
  const int64_t blocks_x = trifold::ceil_div(count, trifold::threads_per_block / team);
  trifold::check_same_device("topk_backward", grad_values, "grad_values", indices, "indices");
  if (blocks_x > 0) {
    trifold::dispatch_floating(grad_values.scalar_type(), [&]<class T>() {
      const Tensor grad_values_argument = trifold::without_gaps(grad);
      const Tensor indices_argument = trifold::without_gaps(trifold::rows(indices));
      const Tensor grad_x_argument = trifold::rows(grad_x);
      const trifold::OnDevice device(grad_values);
      trifold::launch<topk_backward_kernel<T>>(
          device.stream(), trifold::extents(blocks_x, slices), dim3(trifold::threads_per_block), 0,
          trifold::data<T>(grad_values_argument), grad_values_argument.stride(0),
          trifold::data<int64_t>(indices_argument), indices_argument.stride(0),
          trifold::mutable_data<T>(grad_x_argument), grad_x_argument.stride(0), count, columns, share, k, team);
      trifold::check_launch();
    });
  }
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&topk>(m, "topk");
  trifold::implement<&topk_backward>(m, "topk_backward");
}
