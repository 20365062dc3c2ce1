#include <trifold/launch_functions.h>

#include "normal_sample.cuh"

namespace {

using trifold::Tensor;

Tensor normal_sample(const Tensor& mean, const Tensor& std, int64_t num_samples, bool shared_noise, int64_t seed,
                     int64_t offset, const std::optional<Tensor>& state) {
  trifold::check_alike("normal_sample", mean, "mean", std, "std");
  trifold::check(mean.dim() == 1,
                 "normal_sample: mean and std must have one dimension; flatten them with mean.reshape(-1)");
  trifold::check(num_samples >= 0, "normal_sample: num_samples must not be negative, but is ", num_samples,
                 "; pass 0 or more");
  Tensor chosen;
  if (!state.has_value()) {
    chosen = trifold::empty_contiguous(mean, {0}, trifold::dtype_code(trifold::ScalarType::Long));
  } else {
    const bool right = state.value().scalar_type() == trifold::ScalarType::Long && state.value().numel() == 1 &&
                       trifold::same_device(state.value(), mean);
    trifold::check(right, "normal_sample: state must be an int64 tensor of one element on ", trifold::Place{mean},
                   "; draw it with torch.randint");
    chosen = torch::stable::reshape(state.value(), {1});
  }
  const int64_t rows = mean.size(0);
  const Tensor samples = trifold::empty_contiguous(mean, {rows, num_samples});
  const int64_t grid = trifold::ceil_div(rows * num_samples, trifold::threads_per_block);
  if (grid > 0) {
    trifold::dispatch_floating(mean.scalar_type(), [&]<class T>() {
      const Tensor mean_argument = trifold::without_gaps(mean);
      const Tensor std_argument = trifold::without_gaps(std);
      const Tensor state_argument = trifold::without_gaps(chosen);
      const trifold::OnDevice device(mean);
      trifold::launch<normal_sample_kernel<T>>(
          device.stream(), trifold::extents(grid), dim3(trifold::threads_per_block), 0, trifold::data<T>(mean_argument),
          trifold::data<T>(std_argument), trifold::mutable_data<T>(samples), samples.stride(0), rows, num_samples,
          shared_noise, seed, offset, trifold::data<int64_t>(state_argument), state_argument.size(0));
      trifold::check_launch();
    });
  }
  return samples;
}

std::tuple<Tensor, Tensor> normal_sample_backward(const Tensor& grad, bool shared_noise, int64_t seed, int64_t offset,
                                                  const std::optional<Tensor>& state) {
  trifold::check_floating("normal_sample_backward", grad, "grad");
  trifold::check(grad.dim() == 2,
                 "normal_sample_backward: grad must have two dimensions; pass the gradient of the samples");
  Tensor chosen;
  if (!state.has_value()) {
    chosen = trifold::empty_contiguous(grad, {0}, trifold::dtype_code(trifold::ScalarType::Long));
  } else {
    const bool right = state.value().scalar_type() == trifold::ScalarType::Long && state.value().numel() == 1 &&
                       trifold::same_device(state.value(), grad);
    trifold::check(right, "normal_sample_backward: state must be an int64 tensor of one element on ",
                   trifold::Place{grad}, "; draw it with torch.randint");
    chosen = torch::stable::reshape(state.value(), {1});
  }
  const int64_t rows = grad.size(0);
  const int64_t columns = grad.size(1);
  const Tensor grad_mean = trifold::empty_contiguous(grad, {rows});
  const Tensor grad_std = trifold::empty_contiguous(grad, {rows});
  const int64_t block = trifold::threads_for(columns / 4 + 2);
  if (rows > 0) {
    trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
      const Tensor state_argument = trifold::without_gaps(chosen);
      const trifold::OnDevice device(grad);
      trifold::launch<normal_sample_backward_kernel<T>>(
          device.stream(), trifold::extents(rows), trifold::extents(block), 0, trifold::data<T>(grad), grad.stride(0),
          grad.stride(1), trifold::mutable_data<T>(grad_mean), trifold::mutable_data<T>(grad_std), rows, columns,
          shared_noise, seed, offset, trifold::data<int64_t>(state_argument), state_argument.size(0));
      trifold::check_launch();
    });
  }
  return {grad_mean, grad_std};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&normal_sample>(m, "normal_sample");
  trifold::implement<&normal_sample_backward>(m, "normal_sample_backward");
}
