#include <trifold/launch_functions.h>

#include "embedding.cuh"

namespace {

using trifold::Tensor;

constexpr int MOST_TILES = 65535;
constexpr int MANY_POSITIONS = 32;

Tensor embedding(const Tensor& indices, const Tensor& weight, bool deterministic) {
  trifold::check_floating("embedding", weight, "weight");
  trifold::check(trifold::same_device(indices, weight),
                 "embedding: weight and indices must be on the same device, but weight is on ", trifold::Place{weight},
                 " and indices is on ", trifold::Place{indices}, "; move one with indices.to(weight.device)");
  trifold::check(indices.scalar_type() == trifold::ScalarType::Long, "embedding: indices must be int64, not ",
                 trifold::Dtype{indices}, "; convert it with indices.long()");
  trifold::check(weight.dim() == 2, "embedding: weight must have two dimensions, (vocabulary, D), not the shape ",
                 trifold::Shape{weight}, "; reshape it with weight.reshape(-1, D)");
  const int64_t positions = indices.numel();
  const int64_t vocabulary = weight.size(0);
  const int64_t columns = weight.size(1);
  const Tensor out = trifold::empty_contiguous(weight, trifold::sizes(trifold::sizes_of(indices, 0, 0), columns));
  if (out.numel() > 0) {
    const int64_t lanes = int64_t{1} << trifold::bit_length(std::min<int64_t>(columns, 32) - 1);
    const int64_t height = trifold::floor_div(trifold::threads_per_block, lanes);
    const int64_t tiles = trifold::ceil_div(columns, lanes * LOADS);
    const int64_t blocks = trifold::ceil_div(positions, height);
    const int64_t grid_1 = std::min<int64_t>(tiles, MOST_TILES);
    const Tensor arguments_0 = torch::stable::reshape(indices, {-1});
    const Tensor arguments_2 = torch::stable::reshape(out, {positions, columns});
    if (blocks > 0 && grid_1 > 0) {
      trifold::dispatch_floating(weight.scalar_type(), [&]<class T>() {
        const Tensor indices_argument = trifold::without_gaps(arguments_0);
        const trifold::OnDevice device(weight);
        trifold::launch<embedding_kernel<T>>(
            device.stream(), trifold::extents(blocks, grid_1), trifold::extents(lanes, height), 0,
            trifold::data<int64_t>(indices_argument), trifold::data<T>(weight), weight.stride(0), weight.stride(1),
            trifold::mutable_data<T>(arguments_2), arguments_2.stride(0), positions, vocabulary, columns);
        trifold::check_launch();
      });
    }
  }
  return out;
}

Tensor embedding_backward(const Tensor& grad, const Tensor& indices, const std::optional<Tensor>& order,
                          int64_t vocabulary) {
  trifold::check_floating("embedding_backward", grad, "grad");
  trifold::check(trifold::same_device(indices, grad),
                 "embedding_backward: grad and indices must be on the same device, but grad is on ",
                 trifold::Place{grad}, " and indices is on ", trifold::Place{indices},
                 "; move one with indices.to(grad.device)");
  trifold::check(indices.scalar_type() == trifold::ScalarType::Long, "embedding_backward: indices must be int64, not ",
                 trifold::Dtype{indices}, "; convert it with indices.long()");
  trifold::check(grad.dim() > 0 && trifold::same_sizes(trifold::sizes(trifold::sizes_of(grad, 0, -1)), indices.sizes()),
                 "embedding_backward: grad must have the shape of indices and a last dimension, but grad is ",
                 trifold::Shape{grad}, " and indices is ", trifold::Shape{indices},
                 "; it is the gradient of embedding's result");
  trifold::check(vocabulary >= 0, "embedding_backward: vocabulary must not be negative, but is ", vocabulary,
                 "; it is the number of rows of embedding's weight");
  if (order.has_value()) {
    trifold::check(trifold::same_device(order.value(), grad),
                   "embedding_backward: grad and order must be on the same device, but grad is on ",
                   trifold::Place{grad}, " and order is on ", trifold::Place{order.value()},
                   "; move one with order.to(grad.device)");
    trifold::check(order.value().scalar_type() == trifold::ScalarType::Long && order.value().numel() == indices.numel(),
                   "embedding_backward: order must be int64, with an element for each of indices, not ",
                   trifold::Dtype{order.value()}, " of shape ", trifold::Shape{order.value()},
                   "; it is indices.flatten().argsort(stable=True)");
  }
  const Tensor grad_weight = trifold::empty_contiguous(grad, {vocabulary, grad.size(-1)});
  if (grad_weight.numel() == 0) {
    return grad_weight;
  }
  if (!order.has_value()) {
    const int64_t positions = indices.numel();
    const int64_t vocabulary2 = grad_weight.size(0);
    const int64_t columns = grad_weight.size(1);
    const int64_t elements = grad_weight.numel();
    const bool rounds = static_cast<int64_t>(grad.element_size()) == 2;
    const Tensor sums = torch::stable::reshape(
        rounds ? trifold::empty_contiguous(grad, {elements}, trifold::dtype_code(trifold::ScalarType::Float))
               : grad_weight,
        {-1});
    const int64_t blocks = trifold::ceil_div(elements, trifold::threads_per_block);
    if (blocks > 0) {
      trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
        const trifold::OnDevice device(grad);
        trifold::launch<embedding_zero_kernel<trifold::compute_t<T>>>(
            device.stream(), trifold::extents(blocks), dim3(trifold::threads_per_block), 0,
            trifold::mutable_data<trifold::compute_t<T>>(sums), elements);
        trifold::check_launch();
      });
    }
    if (positions > 0) {
      const int64_t lanes = int64_t{1} << trifold::bit_length(std::min<int64_t>(columns, 32) - 1);
      const int64_t height = trifold::floor_div(trifold::threads_per_block, lanes);
      const int64_t tiles = trifold::ceil_div(columns, lanes);
      const int64_t blocks2 = trifold::ceil_div(positions, height);
      const int64_t grid_1 = std::min<int64_t>(tiles, MOST_TILES);
      const Tensor arguments_0 = trifold::rows(grad);
      const Tensor arguments_1 = torch::stable::reshape(indices, {-1});
      if (blocks2 > 0 && grid_1 > 0) {
        trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
          const Tensor grad_argument = trifold::without_gaps(arguments_0);
          const Tensor indices_argument = trifold::without_gaps(arguments_1);
          const trifold::OnDevice device(grad);
          trifold::launch<embedding_add_kernel<T>>(
              device.stream(), trifold::extents(blocks2, grid_1), trifold::extents(lanes, height), 0,
              trifold::data<T>(grad_argument), grad_argument.stride(0), trifold::data<int64_t>(indices_argument),
              trifold::mutable_data<trifold::compute_t<T>>(sums), positions, vocabulary2, columns);
          trifold::check_launch();
        });
      }
    }
    if (rounds) {
      const int64_t blocks3 = trifold::ceil_div(elements, trifold::threads_per_block);
      if (blocks3 > 0) {
        trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
          if constexpr (sizeof(T) == 2) {
            const Tensor sums_argument = trifold::without_gaps(sums);
            const Tensor grad_weight_argument = torch::stable::reshape(grad_weight, {-1});
            const trifold::OnDevice device(grad);
            trifold::launch<embedding_round_kernel<T>>(device.stream(), trifold::extents(blocks3),
                                                       dim3(trifold::threads_per_block), 0,
                                                       trifold::data<trifold::compute_t<T>>(sums_argument),
                                                       trifold::mutable_data<T>(grad_weight_argument), elements);
            trifold::check_launch();
          }
        });
      }
    }
  } else {
    const int64_t positions2 = indices.numel();
    const int64_t vocabulary3 = grad_weight.size(0);
    const int64_t columns2 = grad_weight.size(1);
    const Tensor starts = trifold::empty_contiguous(indices, {vocabulary3 + 1});
    const Tensor arguments_02 = torch::stable::reshape(indices, {-1});
    const Tensor arguments_12 = torch::stable::reshape(order.value(), {-1});
    const int64_t blocks4 = trifold::ceil_div(vocabulary3 + 1, trifold::threads_per_block);
    {
      const Tensor indices_argument = trifold::without_gaps(arguments_02);
      const Tensor order_argument = trifold::without_gaps(arguments_12);
      const trifold::OnDevice device(grad);
      trifold::launch<embedding_starts_kernel>(
          device.stream(), trifold::extents(blocks4), dim3(trifold::threads_per_block), 0,
          trifold::data<int64_t>(indices_argument), trifold::data<int64_t>(order_argument),
          trifold::mutable_data<int64_t>(starts), positions2, vocabulary3);
      trifold::check_launch();
    }
    const bool block_a_row = trifold::floor_div(positions2, vocabulary3) >= MANY_POSITIONS;
    const int64_t lanes2 = int64_t{1} << trifold::bit_length(std::min<int64_t>(columns2, 32) - 1);
    const int64_t height2 = trifold::floor_div(trifold::threads_per_block, lanes2);
    const int64_t tiles2 = trifold::ceil_div(columns2, lanes2);
    const int64_t blocks5 = block_a_row ? vocabulary3 : trifold::ceil_div(vocabulary3, height2);
    const int64_t grid_12 = std::min<int64_t>(tiles2, MOST_TILES);
    if (block_a_row) {
      if (blocks5 > 0 && grid_12 > 0) {
        trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
          const Tensor grad_argument = trifold::without_gaps(trifold::rows(grad));
          const Tensor order_argument = trifold::without_gaps(torch::stable::reshape(order.value(), {-1}));
          const trifold::OnDevice device(grad);
          trifold::launch<embedding_long_sum_kernel<T>>(
              device.stream(), trifold::extents(blocks5, grid_12), trifold::extents(lanes2, height2), 0,
              trifold::data<T>(grad_argument), grad_argument.stride(0), trifold::data<int64_t>(order_argument),
              trifold::data<int64_t>(starts), trifold::mutable_data<T>(grad_weight), grad_weight.stride(0), vocabulary3,
              columns2);
          trifold::check_launch();
        });
      }
    } else {
      if (blocks5 > 0 && grid_12 > 0) {
        trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
          const Tensor grad_argument = trifold::without_gaps(trifold::rows(grad));
          const Tensor order_argument = trifold::without_gaps(torch::stable::reshape(order.value(), {-1}));
          const trifold::OnDevice device(grad);
          trifold::launch<embedding_sum_kernel<T>>(
              device.stream(), trifold::extents(blocks5, grid_12), trifold::extents(lanes2, height2), 0,
              trifold::data<T>(grad_argument), grad_argument.stride(0), trifold::data<int64_t>(order_argument),
              trifold::data<int64_t>(starts), trifold::mutable_data<T>(grad_weight), grad_weight.stride(0), vocabulary3,
              columns2);
          trifold::check_launch();
        });
      }
    }
  }
  return grad_weight;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&embedding>(m, "embedding");
  trifold::implement<&embedding_backward>(m, "embedding_backward");
}
