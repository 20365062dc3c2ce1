#include <trifold/launch_functions.h>

#include "rope.cuh"

namespace {

using trifold::Tensor;

constexpr int ROPE_BLOCK = 256;

std::tuple<Tensor, Tensor> rope(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin, bool inverse) {
  trifold::check_floating("rope", q, "q");
  trifold::check(trifold::same_device(k, q), "rope: q and k must be on the same device, but q is on ",
                 trifold::Place{q}, " and k is on ", trifold::Place{k}, "; move one with k.to(q.device)");
  trifold::check(trifold::same_dtype(k, q), "rope: q and k must have the same dtype, but q is ", trifold::Dtype{q},
                 " and k is ", trifold::Dtype{k}, "; convert one with k.to(q.dtype)");
  trifold::check(trifold::same_device(cos, q), "rope: q and cos must be on the same device, but q is on ",
                 trifold::Place{q}, " and cos is on ", trifold::Place{cos}, "; move one with cos.to(q.device)");
  trifold::check(trifold::same_dtype(cos, q), "rope: q and cos must have the same dtype, but q is ", trifold::Dtype{q},
                 " and cos is ", trifold::Dtype{cos}, "; convert one with cos.to(q.dtype)");
  trifold::check(trifold::same_device(sin, q), "rope: q and sin must be on the same device, but q is on ",
                 trifold::Place{q}, " and sin is on ", trifold::Place{sin}, "; move one with sin.to(q.device)");
  trifold::check(trifold::same_dtype(sin, q), "rope: q and sin must have the same dtype, but q is ", trifold::Dtype{q},
                 " and sin is ", trifold::Dtype{sin}, "; convert one with sin.to(q.dtype)");
  trifold::check(q.dim() >= 2, "rope: q must have positions and columns as its last two dimensions, but is of shape ",
                 trifold::Shape{q}, "; pass a row as q[None]");
  trifold::check(q.size(-1) % 2 == 0, "rope: q must have an even number of columns, but is of shape ",
                 trifold::Shape{q}, "; its first half is turned with its second half");
  trifold::check(k.dim() >= 2, "rope: k must have positions and columns as its last two dimensions, but is of shape ",
                 trifold::Shape{k}, "; pass a row as k[None]");
  trifold::check(k.size(-1) % 2 == 0, "rope: k must have an even number of columns, but is of shape ",
                 trifold::Shape{k}, "; its first half is turned with its second half");
  trifold::check(q.size(-2) == k.size(-2) && q.size(-1) == k.size(-1),
                 "rope: q and k must have the same last two dimensions, positions and columns, but q is ",
                 trifold::Shape{q}, " and k is ", trifold::Shape{k}, "; other dimensions, the heads, may differ");
  const int64_t positions = q.size(-2);
  const int64_t pairs = q.size(-1) / 2;
  trifold::check(trifold::same_sizes(cos.sizes(), {positions, pairs}), "rope: cos must have the shape (", positions,
                 ", ", pairs, "), positions and half of the columns of q, but is ", trifold::Shape{cos},
                 " for q of shape ", trifold::Shape{q}, "; cut it with cos[:", positions, "]");
  trifold::check(trifold::same_sizes(sin.sizes(), {positions, pairs}), "rope: sin must have the shape (", positions,
                 ", ", pairs, "), positions and half of the columns of q, but is ", trifold::Shape{sin},
                 " for q of shape ", trifold::Shape{q}, "; cut it with sin[:", positions, "]");
  const Tensor q_out = trifold::row_output(q);
  const Tensor k_out = trifold::row_output(k);
  if (q.numel() + k.numel() == 0) {
    return {q_out, k_out};
  }
  const int64_t positions2 = cos.size(0);
  const int64_t pairs2 = cos.size(1);
  const int64_t positions3 = q.size(-2);
  const int64_t columns = q.size(-1);
  const int64_t positions4 = k.size(-2);
  const int64_t columns2 = k.size(-1);
  const Tensor operands_0 =
      torch::stable::reshape(q, {trifold::floor_div(q.numel(), positions3 * columns), positions3, columns});
  const Tensor operands_1 =
      torch::stable::reshape(k, {trifold::floor_div(k.numel(), positions4 * columns2), positions4, columns2});
  const int64_t positions5 = q_out.size(-2);
  const int64_t columns3 = q_out.size(-1);
  const int64_t positions6 = k_out.size(-2);
  const int64_t columns4 = k_out.size(-1);
  const Tensor results_0 =
      torch::stable::reshape(q_out, {trifold::floor_div(q_out.numel(), positions5 * columns3), positions5, columns3});
  const Tensor results_1 =
      torch::stable::reshape(k_out, {trifold::floor_div(k_out.numel(), positions6 * columns4), positions6, columns4});
  const int64_t groups =
      trifold::ceil_div(operands_0.size(0), HEADS_A_THREAD) + trifold::ceil_div(operands_1.size(0), HEADS_A_THREAD);
  const int64_t across = std::min<int64_t>(pairs2, ROPE_BLOCK);
  const int64_t down = std::min<int64_t>(positions2, trifold::floor_div(ROPE_BLOCK, across));
  const int64_t deep = std::min<int64_t>({groups, trifold::floor_div(ROPE_BLOCK, across * down), 64});
  const int64_t grid_0 = trifold::ceil_div(positions2, down);
  const int64_t grid_1 = std::min<int64_t>(trifold::ceil_div(groups, deep), 65535);
  if (grid_0 > 0 && grid_1 > 0) {
    trifold::dispatch_floating(q.scalar_type(), [&]<class T>() {
      const Tensor q_argument = trifold::without_gaps(operands_0);
      const Tensor k_argument = trifold::without_gaps(operands_1);
      const trifold::OnDevice device(q);
      trifold::launch<rope_kernel<T>>(
          device.stream(), trifold::extents(grid_0, grid_1), trifold::extents(across, down, deep), 0,
          trifold::data<T>(q_argument), q_argument.stride(0), q_argument.stride(1), q_argument.size(0),
          trifold::data<T>(k_argument), k_argument.stride(0), k_argument.stride(1), k_argument.size(0),
          trifold::data<T>(cos), cos.stride(0), cos.stride(1), trifold::data<T>(sin), sin.stride(0), sin.stride(1),
          trifold::mutable_data<T>(results_0), results_0.stride(0), results_0.stride(1),
          trifold::mutable_data<T>(results_1), results_1.stride(0), results_1.stride(1), positions2, pairs2, inverse);
      trifold::check_launch();
    });
  }
  return {q_out, k_out};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&rope>(m, "rope");
}
