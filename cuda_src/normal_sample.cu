#include <trifold/binding.h>

#include "normal_sample.cuh"

namespace {

using trifold::Tensor;

constexpr const char* name = "normal_sample";
constexpr const char* backward_name = "normal_sample_backward";

// Threads of a grid that walks the samples: 8 blocks on each multiprocessor of the largest GPU of today.
constexpr int64_t resident_blocks = 8 * 160;
// Rows that one thread of shared noise serves, once the grid fills the GPU.
constexpr int64_t rows_a_thread = 32;
constexpr int64_t index_limit = int64_t{1} << 31;
constexpr int64_t grid_y_limit = 65535;

void check_state(const char* op, const std::optional<Tensor>& state, const Tensor& like, const char* like_name) {
  if (!state) return;
  trifold::check(state->scalar_type() == trifold::ScalarType::Long && state->numel() == 1, op,
                 ": state must be an int64 tensor of one element, not ", trifold::dtype_name(state->scalar_type()),
                 " of shape ", trifold::shape_name(*state), "; draw it with torch.randint");
  trifold::check_same_device(op, like, like_name, *state, "state");
}

const int64_t* pointer(const std::optional<Tensor>& state) {
  return state ? trifold::data<int64_t>(*state) : nullptr;
}

// How a group of threads is spread over the rows and columns of shared noise.
struct SharedLaunch {
  dim3 grid, block;
  unsigned row_step;
};

SharedLaunch shared_launch(int64_t rows, int64_t vectors) {
  int64_t width = 32;
  while (width < vectors && width < trifold::threads_per_block) width *= 2;
  const int64_t height = trifold::threads_per_block / width;
  const int64_t across = trifold::ceil_div(vectors, width);
  const int64_t most = trifold::ceil_div(rows, height);
  const int64_t enough = std::max(trifold::ceil_div(resident_blocks, across), trifold::ceil_div(most, rows_a_thread));
  const int64_t down = std::min({most, enough, grid_y_limit});
  return {dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)),
          dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)), static_cast<unsigned>(down * height)};
}

template <class T>
void launch_samples(const Tensor& mean, const Tensor& std, const Tensor& samples, bool shared_noise, int64_t seed,
                    int64_t offset, const int64_t* state) {
  using trifold::data, trifold::mutable_data, trifold::threads_per_block, trifold::ceil_div;
  const int64_t rows = samples.size(0), columns = samples.size(1), total = rows * columns;
  const trifold::OnDevice device(samples);
  constexpr int64_t size = SampleVector<T>::size;
  const bool indexed = rows < index_limit && columns < index_limit && total / 4 < index_limit;
  const bool aligned = trifold::elements_to_boundary(data<T>(samples)) == 0;
  if (columns < 4 * size || !indexed || !aligned) {
    const dim3 grid(static_cast<unsigned>(ceil_div(total, threads_per_block)));
    trifold::launch<normal_sample_kernel<T>>(device.stream(), grid, threads_per_block, 0, data<T>(mean), data<T>(std),
                                             mutable_data<T>(samples), rows, columns, shared_noise, seed, offset,
                                             state);
  } else if (shared_noise) {
    const auto [grid, block, row_step] = shared_launch(rows, ceil_div(columns, size));
    trifold::launch<normal_sample_shared_kernel<T>>(device.stream(), grid, block, 0, data<T>(mean), data<T>(std),
                                                    mutable_data<T>(samples), rows, static_cast<uint32_t>(columns),
                                                    row_step, seed, offset, state);
  } else {
    const int64_t blocks = std::min(ceil_div(ceil_div(total, size), threads_per_block), resident_blocks);
    const int64_t step = blocks * threads_per_block * size;
    trifold::launch<normal_sample_vector_kernel<T>>(
        device.stream(), dim3(static_cast<unsigned>(blocks)), threads_per_block, 0, data<T>(mean), data<T>(std),
        mutable_data<T>(samples), rows, static_cast<uint32_t>(columns), static_cast<uint32_t>(step / columns),
        static_cast<uint32_t>(step % columns), seed, offset, state);
  }
  trifold::check_launch();
}

Tensor normal_sample(const Tensor& mean, const Tensor& std, int64_t num_samples, bool shared_noise, int64_t seed,
                     int64_t offset, std::optional<Tensor> state) {
  trifold::check_alike(name, mean, "mean", std, "std");
  trifold::check(mean.dim() == 1, name, ": mean and std must have one dimension, not the shape ",
                 trifold::shape_name(mean), "; flatten them with mean.reshape(-1) and std.reshape(-1)");
  trifold::check(num_samples >= 0, name, ": num_samples must not be negative, but is ", num_samples,
                 "; pass 0 or more");
  check_state(name, state, mean, "mean");
  const Tensor samples = trifold::empty_strided(mean, {mean.size(0), num_samples}, {std::max<int64_t>(num_samples, 1), 1});
  if (samples.numel() == 0) return samples;
  const Tensor dense_mean = torch::stable::contiguous(mean), dense_std = torch::stable::contiguous(std);
  trifold::dispatch_floating(mean.scalar_type(), [&]<class T>() {
    launch_samples<T>(dense_mean, dense_std, samples, shared_noise, seed, offset, pointer(state));
  });
  return samples;
}

std::tuple<Tensor, Tensor> normal_sample_backward(const Tensor& grad, bool shared_noise, int64_t seed, int64_t offset,
                                                  std::optional<Tensor> state) {
  trifold::check_floating(backward_name, grad, "grad");
  trifold::check(grad.dim() == 2, backward_name, ": grad must have two dimensions, not the shape ",
                 trifold::shape_name(grad), "; it is the gradient of normal_sample's result, of shape (d, num_samples)");
  check_state(backward_name, state, grad, "grad");
  const int64_t rows = grad.size(0), columns = grad.size(1);
  const Tensor grad_mean = trifold::empty_strided(grad, {rows}, {1}), grad_std = trifold::empty_strided(grad, {rows}, {1});
  if (rows > 0)
    trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
      using trifold::data, trifold::mutable_data;
      const trifold::OnDevice device(grad);
      constexpr int block = 64;  // rows are few: small blocks reach more multiprocessors
      trifold::launch<normal_sample_backward_kernel<T>>(
          device.stream(), dim3(static_cast<unsigned>(trifold::ceil_div(rows, block))), block, 0, data<T>(grad),
          grad.stride(0), grad.stride(1), mutable_data<T>(grad_mean), mutable_data<T>(grad_std), rows, columns,
          shared_noise, seed, offset, pointer(state));
      trifold::check_launch();
    });
  return {grad_mean, grad_std};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&normal_sample>(m, "normal_sample");
  trifold::implement<&normal_sample_backward>(m, "normal_sample_backward");
}
