#include <trifold/binding.h>

#include "normal_sample.cuh"

#include <bit>

namespace {

using trifold::Tensor;

constexpr const char* name = "normal_sample";
constexpr const char* backward_name = "normal_sample_backward";

// Blocks resident on a large GPU: 8 on each of 132 multiprocessors.
constexpr int64_t resident_blocks = 8 * 132;
constexpr int64_t block_size = 256;
constexpr int64_t many_rows = 4 * resident_blocks;
constexpr int64_t index_limit = int64_t{1} << 31;
constexpr int64_t grid_y_limit = 65535;

void check_state(const char* op, const std::optional<Tensor>& state, const Tensor& like, const char* like_name) {
  if (!state) return;
  trifold::check(state->scalar_type() == trifold::ScalarType::Long && state->numel() == 1, op,
                 ": state must be an int64 tensor of one element, not ", trifold::Dtype{*state}, " of shape ",
                 trifold::Shape{*state}, "; draw it with torch.randint");
  trifold::check_same_device(op, like, like_name, *state, "state");
}

const int64_t* pointer(const std::optional<Tensor>& state) {
  return state ? trifold::data<int64_t>(*state) : nullptr;
}

// `x`, or a contiguous copy. torch's own contiguous() costs microseconds even if there is nothing to do.
Tensor dense(const Tensor& x) {
  return x.is_contiguous() ? x : torch::stable::contiguous(x);
}

template <class T, bool shared_noise>
void launch_rows(trifold::Stream stream, const Tensor& mean, const Tensor& std, const Tensor& samples, int64_t seed,
                 int64_t offset, const int64_t* state) {
  using trifold::ceil_div, trifold::data;
  const int64_t rows = samples.size(0), columns = samples.size(1);
  const int64_t vectors = ceil_div(columns, Noise<T>::size);
  constexpr int64_t width = block_width, height = block_height;
  const int64_t across = ceil_div(vectors, width);
  const int64_t blocks = across * ceil_div(rows, height);  // with one row per thread
  const int64_t needed = ceil_div(rows, height * grid_y_limit);
  // Measured on an H200 from 2^10 to 2^30 samples. More rows per thread save set-up, but leave units idle if there are
  // few blocks; with shared noise and many blocks, writes are fastest if a block's rows are close together.
  const bool fills = 2 * blocks > 5 * resident_blocks, floods = blocks > 64 * resident_blocks;
  const int64_t most = shared_noise ? (floods ? 4 : 8) : floods ? 64 : fills ? 8 : 4;
  const auto spread = static_cast<uint64_t>(std::clamp<int64_t>(ceil_div(blocks, resident_blocks / 4), 1, most));
  const int64_t rows_a_thread = std::max(needed, static_cast<int64_t>(std::bit_floor(spread)));
  const int64_t down = ceil_div(rows, height * rows_a_thread);
  trifold::launch_early<normal_sample_rows_kernel<T, shared_noise>>(
      stream, dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)), dim3(width, height), 0, data<T>(mean),
      data<T>(std), trifold::mutable_data<T>(samples), static_cast<uint32_t>(rows), static_cast<uint32_t>(columns),
      static_cast<uint32_t>(rows_a_thread), seed, offset, state);
}

template <class T>
void launch_samples(const Tensor& mean, const Tensor& std, const Tensor& samples, bool shared_noise, int64_t seed,
                    int64_t offset, const int64_t* state) {
  using trifold::data, trifold::mutable_data, trifold::ceil_div;
  const int64_t rows = samples.size(0), columns = samples.size(1), total = rows * columns;
  const trifold::OnDevice device(samples);
  constexpr int64_t size = Noise<T>::size;
  const bool indexed = rows < index_limit && columns < index_limit && total / 4 < index_limit;
  const bool aligned = trifold::elements_to_boundary(data<T>(samples)) == 0;
  if (columns < 4 * size || !indexed || !aligned) {
    const dim3 grid(static_cast<unsigned>(ceil_div(total, block_size)));
    trifold::launch<normal_sample_kernel<T>>(device.stream(), grid, block_size, 0, data<T>(mean), data<T>(std),
                                             mutable_data<T>(samples), rows, columns, shared_noise, seed, offset,
                                             state);
  } else if (shared_noise) {
    launch_rows<T, true>(device.stream(), mean, std, samples, seed, offset, state);
  } else if (columns % size == 0) {
    launch_rows<T, false>(device.stream(), mean, std, samples, seed, offset, state);
  } else {
    const int64_t blocks = std::min(ceil_div(ceil_div(total, size), block_size), resident_blocks);
    const int64_t step = blocks * block_size * size;
    trifold::launch_early<normal_sample_vector_kernel<T>>(
        device.stream(), dim3(static_cast<unsigned>(blocks)), block_size, 0, data<T>(mean), data<T>(std),
        mutable_data<T>(samples), rows, static_cast<uint32_t>(columns), static_cast<uint32_t>(step / columns),
        static_cast<uint32_t>(step % columns), seed, offset, state);
  }
  trifold::check_launch();
}

Tensor normal_sample(const Tensor& mean, const Tensor& std, int64_t num_samples, bool shared_noise, int64_t seed,
                     int64_t offset, std::optional<Tensor> state) {
  trifold::check_alike(name, mean, "mean", std, "std");
  trifold::check(mean.dim() == 1, name, ": mean and std must have one dimension, not the shape ", trifold::Shape{mean},
                 "; flatten them with mean.reshape(-1) and std.reshape(-1)");
  trifold::check(num_samples >= 0, name, ": num_samples must not be negative, but is ", num_samples,
                 "; pass 0 or more");
  check_state(name, state, mean, "mean");
  const Tensor samples =
      trifold::empty_strided(mean, {mean.size(0), num_samples}, {std::max<int64_t>(num_samples, 1), 1});
  if (samples.numel() == 0) return samples;
  trifold::dispatch_floating(mean.scalar_type(), [&]<class T>() {
    launch_samples<T>(dense(mean), dense(std), samples, shared_noise, seed, offset, pointer(state));
  });
  return samples;
}

// The arguments of a backward kernel.
template <class T>
struct Backward {
  const Tensor &grad, &grad_mean, &grad_std;
  bool shared_noise;
  int64_t seed, offset;
  const int64_t* state;
  trifold::Stream stream;
  int64_t rows = grad.size(0), columns = grad.size(1);

  void launch_plain() const {
    using trifold::data, trifold::mutable_data;
    const dim3 grid(static_cast<unsigned>(std::min(rows, index_limit - 1)));
    trifold::launch<normal_sample_backward_kernel<T>>(
        stream, grid, backward_block, 0, data<T>(grad), grad.stride(0), grad.stride(1), mutable_data<T>(grad_mean),
        mutable_data<T>(grad_std), rows, columns, shared_noise, seed, offset, state);
  }

  // Whether each group of four normals belongs to four elements that one load reads.
  bool in_groups() const {
    constexpr int64_t alignment = alignof(GroupGradients<T>);
    const auto address = reinterpret_cast<uintptr_t>(trifold::data<T>(grad));
    return columns >= 4 && columns % 4 == 0 && grad.stride(1) == 1 && address % alignment == 0 &&
           grad.stride(0) * static_cast<int64_t>(sizeof(T)) % alignment == 0 && rows < index_limit &&
           columns < index_limit && rows * (columns / 4) < index_limit;
  }

  // `lanes` threads per row: as many as it has groups, a warp, or a block.
  template <bool shared>
  void launch_groups() const {
    constexpr int together = shared ? 8 : 1;  // rows that share one computation of the noise
    const int64_t groups = columns / 4;
    if (groups <= 8) return launch_lanes<shared, 4, 1>();
    // A warp adds its threads' sums with fewer instructions than a block, but needs many rows to fill a GPU.
    if (groups <= 128 || (!shared && groups <= 512 && rows >= many_rows)) return launch_lanes<shared, 32, together>();
    launch_lanes<shared, backward_block, together>();
  }

  template <bool shared, int lanes, int rows_a_thread>
  void launch_lanes() const {
    using trifold::ceil_div, trifold::data, trifold::mutable_data;
    using Sums = RowSums<trifold::compute_t<T>>;
    const int64_t blocks = ceil_div(rows, int64_t{backward_block / lanes * rows_a_thread});
    // If blocks are few, several share a row, as long as each thread has a group.
    const int64_t most = std::min(ceil_div(resident_blocks, blocks), ceil_div(columns / 4, int64_t{lanes}));
    const auto parts = static_cast<unsigned>(std::max<int64_t>(most, 1));
    Tensor scratch = grad_mean;  // unused with one part
    if (parts > 1) {
      const auto words = static_cast<int64_t>(rows * parts * sizeof(Sums) / sizeof(T));
      scratch = trifold::empty_strided(grad, {words}, {1});
    }
    auto* const sums = parts > 1 ? reinterpret_cast<Sums*>(mutable_data<T>(scratch)) : nullptr;
    trifold::launch<normal_sample_backward_vector_kernel<T, shared, lanes, rows_a_thread>>(
        stream, dim3(static_cast<unsigned>(blocks), parts), backward_block, 0, data<T>(grad), grad.stride(0),
        mutable_data<T>(grad_mean), mutable_data<T>(grad_std), sums, static_cast<uint32_t>(rows),
        static_cast<uint32_t>(columns), seed, offset, state);
    if (parts > 1)
      trifold::launch<normal_sample_backward_parts_kernel<T>>(
          stream, dim3(static_cast<unsigned>(ceil_div(rows, int64_t{block_height}))), dim3(block_width, block_height),
          0, sums, mutable_data<T>(grad_mean), mutable_data<T>(grad_std), static_cast<uint32_t>(rows), parts);
  }
};

std::tuple<Tensor, Tensor> normal_sample_backward(const Tensor& grad, bool shared_noise, int64_t seed, int64_t offset,
                                                  std::optional<Tensor> state) {
  trifold::check_floating(backward_name, grad, "grad");
  trifold::check(grad.dim() == 2, backward_name, ": grad must have two dimensions, not the shape ",
                 trifold::Shape{grad}, "; it is the gradient of normal_sample's result, of shape (d, num_samples)");
  check_state(backward_name, state, grad, "grad");
  const int64_t rows = grad.size(0);
  const Tensor grad_mean = trifold::empty_strided(grad, {rows}, {1}),
               grad_std = trifold::empty_strided(grad, {rows}, {1});
  if (rows > 0)
    trifold::dispatch_floating(grad.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(grad);
      const Backward<T> backward{grad, grad_mean, grad_std,       shared_noise,
                                 seed, offset,    pointer(state), device.stream()};
      if (!backward.in_groups()) {
        backward.launch_plain();
      } else if (shared_noise) {
        backward.template launch_groups<true>();
      } else {
        backward.template launch_groups<false>();
      }
      trifold::check_launch();
    });
  return {grad_mean, grad_std};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&normal_sample>(m, "normal_sample");
  trifold::implement<&normal_sample_backward>(m, "normal_sample_backward");
}
