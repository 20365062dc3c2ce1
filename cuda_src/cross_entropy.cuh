// cross_entropy: for each of `rows` rows of `columns` logits x and its class t, the loss -Σ q·log p with p = softmax(x)
// and q = (1 - smoothing)·[i = t] + smoothing / columns; that is
//
//   log Σ exp(x - m) - (1 - smoothing)·(x[t] - m) - smoothing·mean(x - m),   with m = max x
//
// and its gradient p - q, which is made in the same pass where it is needed: no tensor of probabilities is. It is kept
// without the factor of the loss's own gradient and of the mean, which only backward knows.
//
// A row whose class is `ignore_index` has loss 0 and gradient 0; one whose class is none of the `columns` has nan in
// both. Infinities and nan among the logits give what they give in torch.
//
// The least that must move: forward reads x once, and writes the gradient once: 2·sizeof(T) bytes an element, or
// sizeof(T) without a gradient. Backward multiplies: 2·sizeof(T).
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/reduce.cuh>
#include <trifold/row_teams.cuh>
#include <trifold/scaled_exp.cuh>
#include <trifold/sums.cuh>

inline constexpr int cross_entropy_block = trifold::threads_per_block;

// A block a row: the maximum, the sum, then the loss, and the gradient where `residual` is not null. L is the type of
// the losses: T, or the compute type where they are to be added up.
template <class T, class L>
__global__ void cross_entropy_kernel(const T* logits, int64_t logits_stride, const int64_t* targets,
                                     int64_t targets_stride, int64_t ignored, L* losses, T* residual, int64_t rows,
                                     int64_t columns, double label_smoothing) {
  using C = trifold::compute_t<T>;
  constexpr int block = cross_entropy_block;
  const C smoothing(label_smoothing);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x = logits + row * logits_stride;
    const int64_t target = targets[row * targets_stride];
    if (target == ignored) {
      if (threadIdx.x == 0) losses[row] = L(C(0));
      if (residual != nullptr)
        for (int64_t i = threadIdx.x; i < columns; i += block) residual[row * columns + i] = T(C(0));
      continue;
    }
    C largest = -C(INFINITY);
    for (int64_t i = threadIdx.x; i < columns; i += block) largest = trifold::Max{}(largest, C(x[i]));
    largest = trifold::block_max<block>(largest);
    C sum = 0, plain = 0;  // of exp(x - m), and of x - m
    for (int64_t i = threadIdx.x; i < columns; i += block) {
      const C shifted = C(x[i]) - largest;
      sum += exp(shifted);
      if (smoothing > C(0)) plain += shifted;  // else -inf · 0 would be nan
    }
    sum = trifold::block_sum<block>(sum);
    plain = trifold::block_sum<block>(plain);
    const bool known = target >= 0 && target < columns;
    if (threadIdx.x == 0) {
      const C at_target = known ? C(x[target]) - largest : C(NAN);
      const C loss = log(sum) - (C(1) - smoothing) * at_target;
      losses[row] = L(smoothing > C(0) ? loss - smoothing * (plain / C(columns)) : loss);
    }
    if (residual != nullptr) {
      const C everywhere = known ? smoothing / C(columns) : C(NAN);
      for (int64_t i = threadIdx.x; i < columns; i += block) {
        const C q = i == target ? everywhere + (C(1) - smoothing) : everywhere;
        residual[row * columns + i] = T(exp(C(x[i]) - largest) / sum - q);
      }
    }
  }
}

// The same with a row in a team's registers (row_teams.cuh).
template <class T, class L, int E, int V, trifold::Team team>
__global__ void __launch_bounds__(1024)
    cross_entropy_rows_kernel(const T* logits, int64_t logits_stride, const int64_t* targets, int64_t targets_stride,
                              int64_t ignored, L* losses, T* residual, int64_t rows, int columns, float smoothing) {
  using Part = trifold::RowPart<T, E, V>;
  using trifold::scaled_exp;
  const trifold::TeamPlace at = trifold::begin_in_team<team>();
  if (at.row >= rows) return;
  const T* const x = logits + at.row * logits_stride;
  const int64_t target = targets[at.row * targets_stride];
  Part part;
  part.load(x, columns, at, T(-INFINITY));
  float largest = -INFINITY;
  part.each([&](T v, int, int) { largest = trifold::Max{}(largest, float(v)); });
  largest = trifold::team_reduce<team, 0>(largest, -INFINITY, trifold::Max{});
  trifold::Pack<float, 2> own{{0, 0}};  // the sums of exp(x - m), and of x - m
  part.each([&](T v, int k, int) {
    const float shifted = float(v) - largest;
    own.value[0] += scaled_exp<T>(shifted);
    if (smoothing > 0 && Part::column(k, at) < columns) own.value[1] += shifted;
  });
  const auto [sum, plain] = trifold::team_reduce<team, 1>(own, trifold::Pack<float, 2>{{0, 0}}, trifold::Sum{}).value;
  const bool counts = target != ignored, known = target >= 0 && target < columns;
  if (at.thread == 0) {
    constexpr float log_2 = 0.693147181f;
    const float at_target = known ? float(x[target]) - largest : NAN;
    const float log_sum = log(sum) - trifold::scaled_exp_bits<T>() * log_2;
    const float loss = log_sum - (1 - smoothing) * at_target;
    const float smoothed = smoothing > 0 ? loss - smoothing * (plain / static_cast<float>(columns)) : loss;
    losses[at.row] = L(counts ? smoothed : 0.0f);
  }
  if (residual == nullptr) return;
  const float quotient = 1 / sum;
  const float everywhere = known ? smoothing / static_cast<float>(columns) : NAN;
  part.each([&](T& v, int k, int i) {
    const float q = Part::column(k, at) + i == target ? everywhere + (1 - smoothing) : everywhere;
    v = T(counts ? scaled_exp<T>(float(v) - largest) * quotient - q : 0.0f);
  });
  part.store(residual + at.row * columns, columns, at);
}

// One block: the sum of the losses, or their mean over the rows that are not ignored, whose number it leaves in `count`
// where that is not null. One block, so that the order in which they are added is always the same.
template <class T>
__global__ void cross_entropy_total_kernel(const trifold::compute_t<T>* losses, const int64_t* targets,
                                           int64_t targets_stride, int64_t ignored, T* loss, int64_t* count,
                                           int64_t rows) {
  using C = trifold::compute_t<T>;
  C sum = 0;
  int64_t counted = 0;
  for (int64_t row = threadIdx.x; row < rows; row += cross_entropy_block) {
    sum += losses[row];
    counted += targets[row * targets_stride] != ignored;
  }
  sum = trifold::block_sum<cross_entropy_block>(sum);
  counted = trifold::block_sum<cross_entropy_block>(counted);
  if (threadIdx.x == 0) {
    *loss = T(count == nullptr ? sum : sum / C(counted));
    if (count != nullptr) *count = counted;
  }
}

// A block a row: the residual times the gradient of the row's loss, which stands at grad_loss[row · grad_stride] (0:
// one number for all rows), over `count` where the loss is a mean.
template <class T>
__global__ void cross_entropy_backward_kernel(const T* grad_loss, int64_t grad_stride, const T* residual,
                                              int64_t residual_stride, const int64_t* targets, int64_t targets_stride,
                                              int64_t ignored, const int64_t* count, T* grad_logits, int64_t rows,
                                              int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const bool skipped = targets[row * targets_stride] == ignored;
    const C grad(grad_loss[row * grad_stride]);
    const C factor = count == nullptr ? grad : grad / C(*count);
    for (int64_t i = threadIdx.x; i < columns; i += cross_entropy_block)
      grad_logits[row * columns + i] = T(skipped ? C(0) : factor * C(residual[row * residual_stride + i]));
  }
}
