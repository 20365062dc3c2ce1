#include <trifold/launch_functions.h>

#include "cross_entropy.cuh"

namespace {

using trifold::Tensor;

constexpr int NONE = 0;
constexpr int MEAN = 1;
constexpr int SUM = 2;

std::tuple<Tensor, Tensor, Tensor> cross_entropy(const Tensor& logits, const Tensor& target, int64_t ignore_index,
                                                 double label_smoothing, int64_t reduction, bool with_gradient) {
  trifold::check_floating("cross_entropy", logits, "logits");
  trifold::check(target.scalar_type() == trifold::ScalarType::Long, "cross_entropy: target must be int64, not torch.",
                 trifold::Dtype{target}, "; use target.long()");
  trifold::check(trifold::same_device(target, logits),
                 "cross_entropy: logits and target must be on the same device, but logits is on ",
                 trifold::Place{logits}, " and target is on ", trifold::Place{target},
                 "; move one with target.to(logits.device)");
  trifold::check(
      (logits.dim() == 1 || logits.dim() == 2) &&
          trifold::same_sizes(target.sizes(), trifold::sizes(trifold::sizes_of(logits, 0, -1))),
      "cross_entropy: logits and target must have the shapes (N, C) and (N,), or (C,) and (), but logits is ",
      trifold::Shape{logits}, " and target is ", trifold::Shape{target},
      "; of more dimensions move the classes last, and flatten the others");
  trifold::check(logits.size(-1) > 0, "cross_entropy: logits must have a class, but is of shape ",
                 trifold::Shape{logits}, "; pass a column");
  const bool known = reduction == NONE || reduction == MEAN || reduction == SUM;
  trifold::check(known, "cross_entropy: reduction must be 0, 1 or 2, but is ", reduction,
                 "; 0 is none, 1 the mean, 2 the sum");
  const Tensor x = trifold::rows(logits);
  const int64_t count_of_rows = x.size(0);
  const Tensor targets = torch::stable::reshape(target, {-1});
  const Tensor loss = trifold::empty_contiguous(
      logits, reduction == NONE ? trifold::sizes(trifold::sizes_of(target, 0, 0)) : trifold::sizes());
  const Tensor residual = with_gradient ? trifold::row_output(logits) : trifold::empty_contiguous(logits, {0});
  const Tensor count = trifold::empty_contiguous(target, {reduction == MEAN ? 1 : 0});
  const Tensor losses = torch::stable::reshape(loss, {-1});
  const Tensor losses2 = trifold::empty_contiguous(logits, {count_of_rows}, trifold::compute_dtype(logits));
  const Tensor gradient = with_gradient ? trifold::rows(residual) : trifold::empty_contiguous(logits, {0, 1});
  const Tensor divisor =
      with_gradient && logits.scalar_type() != trifold::ScalarType::Half ? count : trifold::slice(count, 0, 0);
  if (divisor.numel() > 0) {
    const int64_t block = trifold::threads_for(count_of_rows);
    {
      const Tensor targets_argument = trifold::without_gaps(targets);
      const trifold::OnDevice device(logits);
      trifold::launch<cross_entropy_count_kernel>(device.stream(), dim3(1), trifold::extents(block), 0,
                                                  trifold::data<int64_t>(targets_argument), ignore_index,
                                                  trifold::mutable_data<int64_t>(divisor), count_of_rows);
      trifold::check_launch();
    }
  }
  const int64_t count2 = x.size(0);
  const int64_t columns = x.size(1);
  if (columns != 0) {
    const int64_t least = trifold::ceil_div(columns, ELEMENTS_PER_THREAD);
    const int64_t team = least <= 4 ? 4 : least <= 32 ? 32 : trifold::threads_per_block;
    if (x.scalar_type() == trifold::ScalarType::Double || columns > team * ELEMENTS_PER_THREAD) {
      if (reduction == NONE) {
        if (count2 > 0) {
          trifold::dispatch_floating(logits.scalar_type(), [&]<class T>() {
            const Tensor logits_argument = trifold::without_gaps(x);
            const Tensor targets_argument = trifold::without_gaps(targets);
            const Tensor count_argument = trifold::without_gaps(divisor);
            const trifold::OnDevice device(logits);
            trifold::launch<cross_entropy_kernel<T, T>>(
                device.stream(), trifold::extents(count2), trifold::extents(trifold::threads_for(columns)), 0,
                trifold::data<T>(logits_argument), logits_argument.stride(0), trifold::data<int64_t>(targets_argument),
                ignore_index, trifold::mutable_data<T>(losses), trifold::mutable_data<T>(gradient), gradient.stride(0),
                gradient.size(0), trifold::data<int64_t>(count_argument), count_argument.size(0), count2, columns,
                label_smoothing);
            trifold::check_launch();
          });
        }
      } else {
        if (count2 > 0) {
          trifold::dispatch_floating(logits.scalar_type(), [&]<class T>() {
            const Tensor logits_argument = trifold::without_gaps(x);
            const Tensor targets_argument = trifold::without_gaps(targets);
            const Tensor count_argument = trifold::without_gaps(divisor);
            const trifold::OnDevice device(logits);
            trifold::launch<cross_entropy_kernel<T, trifold::compute_t<T>>>(
                device.stream(), trifold::extents(count2), trifold::extents(trifold::threads_for(columns)), 0,
                trifold::data<T>(logits_argument), logits_argument.stride(0), trifold::data<int64_t>(targets_argument),
                ignore_index, trifold::mutable_data<trifold::compute_t<T>>(losses2), trifold::mutable_data<T>(gradient),
                gradient.stride(0), gradient.size(0), trifold::data<int64_t>(count_argument), count_argument.size(0),
                count2, columns, label_smoothing);
            trifold::check_launch();
          });
        }
      }
    } else {
      const int64_t grid = trifold::ceil_div(count2 * team, trifold::threads_per_block);
      if (reduction == NONE) {
        if (grid > 0) {
          trifold::dispatch_floating(logits.scalar_type(), [&]<class T>() {
            if constexpr (!std::is_same_v<T, double>) {
              const Tensor logits_argument = trifold::without_gaps(x);
              const Tensor targets_argument = trifold::without_gaps(targets);
              const Tensor count_argument = trifold::without_gaps(divisor);
              const trifold::OnDevice device(logits);
              trifold::launch<cross_entropy_rows_kernel<T, T>>(
                  device.stream(), trifold::extents(grid), dim3(trifold::threads_per_block), 0,
                  trifold::data<T>(logits_argument), logits_argument.stride(0),
                  trifold::data<int64_t>(targets_argument), ignore_index, trifold::mutable_data<T>(losses),
                  trifold::mutable_data<T>(gradient), gradient.stride(0), gradient.size(0),
                  trifold::data<int64_t>(count_argument), count_argument.size(0), count2, columns, label_smoothing,
                  team);
              trifold::check_launch();
            }
          });
        }
      } else {
        if (grid > 0) {
          trifold::dispatch_floating(logits.scalar_type(), [&]<class T>() {
            if constexpr (!std::is_same_v<T, double>) {
              const Tensor logits_argument = trifold::without_gaps(x);
              const Tensor targets_argument = trifold::without_gaps(targets);
              const Tensor count_argument = trifold::without_gaps(divisor);
              const trifold::OnDevice device(logits);
              trifold::launch<cross_entropy_rows_kernel<T, trifold::compute_t<T>>>(
                  device.stream(), trifold::extents(grid), dim3(trifold::threads_per_block), 0,
                  trifold::data<T>(logits_argument), logits_argument.stride(0),
                  trifold::data<int64_t>(targets_argument), ignore_index,
                  trifold::mutable_data<trifold::compute_t<T>>(losses2), trifold::mutable_data<T>(gradient),
                  gradient.stride(0), gradient.size(0), trifold::data<int64_t>(count_argument), count_argument.size(0),
                  count2, columns, label_smoothing, team);
              trifold::check_launch();
            }
          });
        }
      }
    }
  }
  if (reduction != NONE) {
    trifold::dispatch_floating(logits.scalar_type(), [&]<class T>() {
      const Tensor targets_argument = trifold::without_gaps(targets);
      const Tensor loss_argument = torch::stable::reshape(loss, {1});
      const trifold::OnDevice device(logits);
      trifold::launch<cross_entropy_total_kernel<T>>(
          device.stream(), dim3(1), trifold::extents(trifold::threads_for(count_of_rows)), 0,
          trifold::data<trifold::compute_t<T>>(losses2), trifold::data<int64_t>(targets_argument), ignore_index,
          trifold::mutable_data<T>(loss_argument), trifold::mutable_data<int64_t>(count), count.numel(), count_of_rows);
      trifold::check_launch();
    });
  }
  return {loss, residual, count};
}

Tensor cross_entropy_backward(const Tensor& grad_loss, const Tensor& residual, const Tensor& target,
                              const Tensor& count, int64_t ignore_index) {
  const Tensor grad_logits = trifold::row_output(residual);
  trifold::check_floating("cross_entropy_backward", residual, "residual");
  trifold::check(target.scalar_type() == trifold::ScalarType::Long,
                 "cross_entropy_backward: target must be int64, not torch.", trifold::Dtype{target},
                 "; use target.long()");
  trifold::check(trifold::same_device(target, residual),
                 "cross_entropy_backward: residual and target must be on the same device, but residual is on ",
                 trifold::Place{residual}, " and target is on ", trifold::Place{target},
                 "; move one with target.to(residual.device)");
  trifold::check((residual.dim() == 1 || residual.dim() == 2) &&
                     trifold::same_sizes(target.sizes(), trifold::sizes(trifold::sizes_of(residual, 0, -1))),
                 "cross_entropy_backward: residual and target must have the shapes (N, C) and (N,), or (C,) and (), "
                 "but residual is ",
                 trifold::Shape{residual}, " and target is ", trifold::Shape{target},
                 "; of more dimensions move the classes last, and flatten the others");
  trifold::check(residual.size(-1) > 0, "cross_entropy_backward: residual must have a class, but is of shape ",
                 trifold::Shape{residual}, "; pass a column");
  const bool right =
      trifold::same_dtype(grad_loss, residual) &&
      (trifold::same_sizes(grad_loss.sizes(), target.sizes()) || trifold::same_sizes(grad_loss.sizes(), {}));
  trifold::check(right, "cross_entropy_backward: grad_loss must be like the result; pass its gradient");
  trifold::check(trifold::dtype_code(count) == trifold::dtype_code(trifold::ScalarType::Long),
                 "cross_entropy_backward: count must be of the dtype that the forward function gives it, not ",
                 trifold::Dtype{count});
  trifold::check(count.dim() == 1, "cross_entropy_backward: count must have 1 dimension, but is of shape ",
                 trifold::Shape{count});
  const Tensor x = trifold::rows(residual);
  const int64_t count_of_rows = x.size(0);
  const int64_t columns = x.size(1);
  const Tensor divisor = residual.scalar_type() == trifold::ScalarType::Half ? count : trifold::slice(count, 0, 0);
  trifold::check_same_device("cross_entropy_backward", residual, "residual", grad_loss, "grad_loss");
  trifold::check_same_device("cross_entropy_backward", residual, "residual", count, "count");
  if (count_of_rows > 0) {
    trifold::dispatch_floating(residual.scalar_type(), [&]<class T>() {
      const Tensor grad_loss_argument = trifold::without_gaps(torch::stable::reshape(grad_loss, {-1}));
      const Tensor residual_argument = trifold::without_gaps(x);
      const Tensor targets_argument = trifold::without_gaps(torch::stable::reshape(target, {-1}));
      const Tensor count_argument = trifold::without_gaps(divisor);
      const Tensor grad_logits_argument = trifold::rows(grad_logits);
      const trifold::OnDevice device(residual);
      trifold::launch<cross_entropy_backward_kernel<T>>(
          device.stream(), trifold::extents(count_of_rows), trifold::extents(trifold::threads_for(columns)), 0,
          trifold::data<T>(grad_loss_argument), grad_loss_argument.size(0), trifold::data<T>(residual_argument),
          residual_argument.stride(0), trifold::data<int64_t>(targets_argument), ignore_index,
          trifold::data<int64_t>(count_argument), count_argument.size(0),
          trifold::mutable_data<T>(grad_logits_argument), grad_logits_argument.stride(0), count_of_rows, columns);
      trifold::check_launch();
    });
  }
  return grad_logits;
}

void cross_entropy_backward_(const Tensor& grad_loss, const Tensor& residual, const Tensor& target, const Tensor& count,
                             int64_t ignore_index) {
  trifold::check_floating("cross_entropy_backward", residual, "residual");
  trifold::check(target.scalar_type() == trifold::ScalarType::Long,
                 "cross_entropy_backward: target must be int64, not torch.", trifold::Dtype{target},
                 "; use target.long()");
  trifold::check(trifold::same_device(target, residual),
                 "cross_entropy_backward: residual and target must be on the same device, but residual is on ",
                 trifold::Place{residual}, " and target is on ", trifold::Place{target},
                 "; move one with target.to(residual.device)");
  trifold::check((residual.dim() == 1 || residual.dim() == 2) &&
                     trifold::same_sizes(target.sizes(), trifold::sizes(trifold::sizes_of(residual, 0, -1))),
                 "cross_entropy_backward: residual and target must have the shapes (N, C) and (N,), or (C,) and (), "
                 "but residual is ",
                 trifold::Shape{residual}, " and target is ", trifold::Shape{target},
                 "; of more dimensions move the classes last, and flatten the others");
  trifold::check(residual.size(-1) > 0, "cross_entropy_backward: residual must have a class, but is of shape ",
                 trifold::Shape{residual}, "; pass a column");
  const bool right =
      trifold::same_dtype(grad_loss, residual) &&
      (trifold::same_sizes(grad_loss.sizes(), target.sizes()) || trifold::same_sizes(grad_loss.sizes(), {}));
  trifold::check(right, "cross_entropy_backward: grad_loss must be like the result; pass its gradient");
  trifold::check(trifold::dtype_code(count) == trifold::dtype_code(trifold::ScalarType::Long),
                 "cross_entropy_backward_: count must be of the dtype that the forward function gives it, not ",
                 trifold::Dtype{count});
  trifold::check(count.dim() == 1, "cross_entropy_backward_: count must have 1 dimension, but is of shape ",
                 trifold::Shape{count});
  const Tensor x = trifold::rows(residual);
  const int64_t count_of_rows = x.size(0);
  const int64_t columns = x.size(1);
  const Tensor divisor = residual.scalar_type() == trifold::ScalarType::Half ? count : trifold::slice(count, 0, 0);
  trifold::check_same_device("cross_entropy_backward_", residual, "residual", grad_loss, "grad_loss");
  trifold::check_same_device("cross_entropy_backward_", residual, "residual", count, "count");
  if (count_of_rows > 0) {
    trifold::dispatch_floating(residual.scalar_type(), [&]<class T>() {
      const Tensor grad_loss_argument = trifold::without_gaps(torch::stable::reshape(grad_loss, {-1}));
      const Tensor residual_argument = trifold::without_gaps(x);
      const Tensor targets_argument = trifold::without_gaps(torch::stable::reshape(target, {-1}));
      const Tensor count_argument = trifold::without_gaps(divisor);
      const Tensor grad_logits_argument = trifold::rows(residual);
      const trifold::OnDevice device(residual);
      trifold::launch<cross_entropy_backward_kernel<T>>(
          device.stream(), trifold::extents(count_of_rows), trifold::extents(trifold::threads_for(columns)), 0,
          trifold::data<T>(grad_loss_argument), grad_loss_argument.size(0), trifold::data<T>(residual_argument),
          residual_argument.stride(0), trifold::data<int64_t>(targets_argument), ignore_index,
          trifold::data<int64_t>(count_argument), count_argument.size(0),
          trifold::mutable_data<T>(grad_logits_argument), grad_logits_argument.stride(0), count_of_rows, columns);
      trifold::check_launch();
    });
  }
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&cross_entropy>(m, "cross_entropy");
  trifold::implement<&cross_entropy_backward>(m, "cross_entropy_backward");
  trifold::implement<&cross_entropy_backward_>(m, "cross_entropy_backward_");
}
