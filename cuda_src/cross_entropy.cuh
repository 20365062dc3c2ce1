// cross_entropy: for each of `rows` rows of `columns` logits x and its class t, the loss -Σ q·log p with p = softmax(x)
// and q = (1 - smoothing)·[i = t] + smoothing / columns; that is
//
//   log Σ exp(x - m) - (1 - smoothing)·(x[t] - m) - smoothing·mean(x - m),   with m = max x
//
// and its gradient p - q, which is computed in the same pass where it is needed, without a tensor of probabilities. It
// is stored as the gradient for an upstream gradient of 1, which backward then need not change: for a mean it is
// divided by the number of rows that count, found by an earlier kernel. In float16, however, backward divides: loss
// scaling may rely on an upstream gradient that makes small values large, and a quotient below 6e-8 would be 0.
//
// A row whose class is `ignore_index` has loss 0 and gradient 0; one whose class is outside the columns has nan in
// both. Infinities and nan among the logits have the same effect as in torch.
//
// Least traffic: forward reads x once and writes the gradient once, 2·sizeof(T) bytes an element, or sizeof(T) without
// a gradient. Backward with an upstream gradient other than 1: 2·sizeof(T) more.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/reduce.cuh>
#include <trifold/sums.cuh>

#include "rows/exp_sums.cuh"
#include "rows/row_parts.cuh"

inline constexpr int cross_entropy_block = trifold::threads_per_block, cross_entropy_total_block = 1024;

// Whether backward, instead of forward, divides by the number of rows.
template <class T>
inline constexpr bool divides_late = std::is_same_v<T, __half>;

// The factor of a row's gradient; `count` is null if it is not divided.
template <class C>
__device__ __forceinline__ C share_of(const int64_t* count) {
  return count == nullptr ? C(1) : C(1) / C(*count);
}

// One block per row: the maximum, the sum, then the loss, and the gradient unless `residual` is null. L is the type of
// the losses: T, or the compute type if they are summed later.
template <class T, class L>
__global__ void cross_entropy_kernel(const T* logits, int64_t logits_stride, const int64_t* targets,
                                     int64_t targets_stride, int64_t ignored, L* losses, T* residual,
                                     const int64_t* count, int64_t rows, int64_t columns, double label_smoothing) {
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
    const auto sums = trifold::block_sums<block, C, 2>(columns, [&](int64_t i) {
      const C shifted = C(x[i]) - largest;
      return trifold::Pack{exp(shifted), smoothing > C(0) ? shifted : C(0)};  // avoids -inf · 0 = nan
    });
    const C sum = sums.value[0], plain = sums.value[1];  // of exp(x - m), and of x - m
    const bool known = target >= 0 && target < columns;
    if (threadIdx.x == 0) {
      const C at_target = known ? C(x[target]) - largest : C(NAN);
      const C loss = log(sum) - (C(1) - smoothing) * at_target;
      losses[row] = L(smoothing > C(0) ? loss - smoothing * (plain / C(columns)) : loss);
    }
    if (residual != nullptr) {
      const C everywhere = known ? smoothing / C(columns) : C(NAN), share = share_of<C>(count);
      for (int64_t i = threadIdx.x; i < columns; i += block) {
        const C q = i == target ? everywhere + (C(1) - smoothing) : everywhere;
        residual[row * columns + i] = T((exp(C(x[i]) - largest) / sum - q) * share);
      }
    }
  }
}

// The class of a row.
struct Target {
  int column;   // -1 if the row is ignored or its class is outside the columns
  bool counts;  // the row is not ignored

  __device__ __forceinline__ Target(int64_t target, int64_t ignored, int columns)
      : column(target != ignored && target >= 0 && target < columns ? static_cast<int>(target) : -1),
        counts(target != ignored) {}

  __device__ __forceinline__ bool known() const { return column >= 0; }

  template <class T>
  __device__ __forceinline__ float logit(const T* row) const {
    return known() ? float(row[column]) : NAN;
  }

  template <class T>
  __device__ __forceinline__ float loss(float logit, const trifold::RowExps& row, float smoothing, int columns) const {
    if (!counts) return 0;
    const float plain = row.log_sum<T>() - (1 - smoothing) * (logit - row.max);
    return smoothing > 0 ? plain - smoothing * (row.differences / static_cast<float>(columns)) : plain;
  }
};

// p - q for a thread's part of a row x: q is the same in all columns except the target's, which is written last.
template <class T, trifold::Cut cut, int V>
__device__ __forceinline__ void store_residual(T* row, const T* x, const trifold::RowCut<T, cut>& at,
                                               trifold::RowPart<T, cut, V>& part, const trifold::Exps<T, V>& exps,
                                               const Target& target, const trifold::RowExps& all, float smoothing,
                                               int columns, float share) {
  constexpr bool edges = cut == trifold::Cut::inner;
  const float q = target.known() ? smoothing / static_cast<float>(columns) * share : NAN;
  if constexpr (trifold::keeps_exps<T, V>) {
    const float factor = all.factor<T>(exps.warp.max) * share;
    part.become([&](int k, int i) { return exps.e[k][i] * factor - q; });
    if constexpr (edges) part.edge = T(exps.edge * factor - q);
  } else {
    part.stay();
    const trifold::ExpQuotient<T> p(all.max, all.sum / share);  // p·share, without a product per element
    if (q == 0 && p.is_near())
      part.become([&](int k, int i) { return p.of_near(part.piece[k][i]); });
    else
      part.become([&](int k, int i) { return p(part.piece[k][i]) - q; });
    if constexpr (edges) part.edge = T(p(float(part.edge)) - q);
  }
  if (!target.counts) {
    part.become([](int, int) { return 0.0f; });
    if constexpr (edges) part.edge = T(0.0f);
  }
  part.store(row, at);
  const bool in_piece = target.column < at.columns && at.template mine<V>(target.column);
  if (!target.known() || !(in_piece || (edges && at.edge == target.column))) return;
  const float at_target = trifold::scaled_exp<T>(target.logit(x) - all.max) * trifold::close_reciprocal<T>(all.sum);
  row[target.column] = T((at_target - (1 - smoothing)) * share - q);
}

// cross_entropy_kernel with a row in a team's registers (row_teams.cuh).
template <class T, class L, trifold::Cut cut, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    cross_entropy_rows_kernel(const T* logits, int64_t logits_stride, const int64_t* targets, int64_t targets_stride,
                              int64_t ignored, L* losses, T* residual, const int64_t* count, int64_t rows, int columns,
                              float smoothing) {
  constexpr trifold::Team team = Choice::team;
  constexpr int lanes = trifold::team_lanes(team);
  const trifold::TeamPlace place = trifold::begin_in_team<team, trifold::WarpExps>();
  const int64_t row = place.row;
  if (place.template done<team>(rows)) return;
  const bool smooth = smoothing > 0;
  const T* const x = trifold::known_address(logits + row * logits_stride);
  T* const out = trifold::known_address(residual + row * columns);
  const trifold::RowCut<T, cut> at(place, out, place.template columns<team>(rows, columns));
  // One lane loads the class, another the number of rows, and both are broadcast once they have arrived. If all lanes
  // loaded them, the compiler would wait for the class before it issues the row's loads, and load the number after the
  // row's sums: the latency of a load each.
  const int lane = place.thread % lanes;
  const int64_t* const number = lane == 1 ? count : lane == 0 && row < rows ? targets + row * targets_stride : nullptr;
  const int64_t asked = number != nullptr ? *number : lane == 1 ? 1 : ignored;
  trifold::RowPart<T, cut, Choice::pieces> part;
  part.load(x, 0, rows - row, logits_stride, at, T(-INFINITY));
  trifold::Exps<T, Choice::pieces> exps;
  exps.template compute<team>(part, at, smooth);
  const Target target(trifold::of_first_lane<lanes>(asked), ignored, columns);
  const float logit = place.thread == 0 ? target.logit(x) : NAN;
  const trifold::RowExps all = trifold::row_exps<T, team>(exps.warp, smooth);
  if (place.thread == 0 && row < rows) losses[row] = L(target.template loss<T>(logit, all, smoothing, columns));
  if (residual == nullptr) return;
  const float share = 1 / static_cast<float>(trifold::of_lane<lanes>(asked, 1));
  store_residual(out, x, at, part, exps, target, all, smoothing, columns, share);
}

// Losses alone, for rows that a cluster would hold. As nothing is kept, one block processes the shares of all `parts`
// warps of the cluster one after the other; the losses are the same bit for bit.
template <class T, class L, trifold::Cut cut, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    cross_entropy_losses_kernel(const T* logits, int64_t logits_stride, const int64_t* targets, int64_t targets_stride,
                                int64_t ignored, L* losses, int64_t rows, int columns, float smoothing, int parts) {
  using trifold::warp_threads;
  __shared__ trifold::WarpExps of_part[trifold::most_warps_a_cluster];
  trifold::wait_for_earlier_kernels();
  const bool smooth = smoothing > 0;
  const int64_t row = blockIdx.x;
  const T* const x = trifold::known_address(logits + row * logits_stride);
  // Cuts the row like its gradient, whose tensor begins at a 16-byte boundary.
  const auto* const out = reinterpret_cast<const T*>(row * columns * static_cast<int64_t>(sizeof(T)));
  const int lane = static_cast<int>(threadIdx.x) % warp_threads, warp = static_cast<int>(threadIdx.x) / warp_threads;
#pragma unroll 1
  for (int i = warp; i < parts; i += Choice::threads / warp_threads) {
    const trifold::RowCut<T, cut> at(trifold::TeamPlace{row, i * warp_threads + lane, parts * warp_threads}, out,
                                     columns);
    trifold::RowPart<T, cut, Choice::pieces> part;
    part.load(x, 0, rows - row, logits_stride, at, T(-INFINITY));
    trifold::Exps<T, Choice::pieces> exps;
    exps.template compute<trifold::Team::cluster>(part, at, smooth);
    if (lane == 0) of_part[i] = exps.warp;
  }
  __syncthreads();
  if (warp > 0) return;
  const Target target(targets[row * targets_stride], ignored, columns);
  const float logit = target.logit(x);
  const trifold::RowExps all = trifold::combine<T>(trifold::Posts<trifold::WarpExps>{of_part, parts}, smooth);
  if (lane == 0) losses[row] = L(target.template loss<T>(logit, all, smoothing, columns));
}

// One block: counts the rows that are not ignored.
__global__ void cross_entropy_count_kernel(const int64_t* targets, int64_t targets_stride, int64_t ignored,
                                           int64_t* count, int64_t rows) {
  trifold::wait_for_earlier_kernels();
  int64_t counted = 0;
#pragma unroll 8
  for (int64_t row = threadIdx.x; row < rows; row += cross_entropy_total_block)
    counted += targets[row * targets_stride] != ignored;
  counted = trifold::block_sum<cross_entropy_total_block>(counted);
  if (threadIdx.x == 0) *count = counted;
}

// One block: the sum of the losses, or their mean over the rows that are not ignored, whose number it stores in `count`
// unless that is null. A single block adds them in a fixed order.
template <class T>
__global__ void cross_entropy_total_kernel(const trifold::compute_t<T>* losses, const int64_t* targets,
                                           int64_t targets_stride, int64_t ignored, T* loss, int64_t* count,
                                           int64_t rows) {
  using C = trifold::compute_t<T>;
  trifold::wait_for_earlier_kernels();
  C sum = 0;
  int64_t counted = 0;
#pragma unroll 8
  for (int64_t row = threadIdx.x; row < rows; row += cross_entropy_total_block) {
    sum += losses[row];
    counted += targets[row * targets_stride] != ignored;
  }
  sum = trifold::block_sum<cross_entropy_total_block>(sum);
  counted = trifold::block_sum<cross_entropy_total_block>(counted);
  if (threadIdx.x == 0) {
    *loss = T(count == nullptr ? sum : sum / C(counted));
    if (count != nullptr) *count = counted;
  }
}

// The gradient that forward stored, times an upstream gradient.
template <class T>
struct Upstream {
  const T* grad_loss;  // of row r: grad_loss[r · stride]; stride 0: one number for all rows
  int64_t stride;
  const int64_t* count;  // divisor, or null
  const int64_t* targets;
  int64_t targets_stride, ignored;

  template <class C>
  __device__ __forceinline__ C factor(int64_t row) const {
    const C grad(grad_loss[row * stride]);
    return count == nullptr ? grad : grad / C(*count);
  }
  __device__ __forceinline__ bool skips(int64_t row) const { return targets[row * targets_stride] == ignored; }
  // Whether one number shows that all rows stay unchanged.
  __device__ __forceinline__ bool is_one() const {
    using C = trifold::compute_t<T>;
    return stride == 0 && factor<C>(0) == C(1);
  }
};

// One block per row. `grad_logits` may be the same memory as `residual`.
template <class T>
__global__ void cross_entropy_backward_kernel(const T* grad_loss, int64_t grad_stride, const T* residual,
                                              int64_t residual_stride, const int64_t* targets, int64_t targets_stride,
                                              int64_t ignored, const int64_t* count, T* grad_logits, int64_t rows,
                                              int64_t columns) {
  const Upstream<T> upstream{grad_loss, grad_stride, count, targets, targets_stride, ignored};
  using C = trifold::compute_t<T>;
  const bool in_place = residual == grad_logits;
  if (in_place && upstream.is_one()) return;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const bool skipped = upstream.skips(row);
    const C factor = upstream.template factor<C>(row);
    if (in_place && (skipped || factor == C(1))) continue;
    for (int64_t i = threadIdx.x; i < columns; i += cross_entropy_block)
      grad_logits[row * columns + i] = T(skipped ? C(0) : factor * C(residual[row * residual_stride + i]));
  }
}

inline constexpr int cross_entropy_pieces = 4;  // per thread

// cross_entropy_backward_kernel in pieces of 16 bytes (row_parts.cuh), with `blocks_a_row` blocks per row.
template <class T, trifold::Cut cut>
__global__ void __launch_bounds__(cross_entropy_block)
    cross_entropy_backward_pieces_kernel(const T* grad_loss, int64_t grad_stride, const T* residual,
                                         int64_t residual_stride, const int64_t* targets, int64_t targets_stride,
                                         int64_t ignored, const int64_t* count, T* grad_logits, int64_t rows,
                                         int columns, int blocks_a_row) {
  const Upstream<T> upstream{grad_loss, grad_stride, count, targets, targets_stride, ignored};
  trifold::wait_for_earlier_kernels();
  const bool in_place = residual == grad_logits;
  if (in_place && upstream.is_one()) return;
  for (int64_t share = blockIdx.x; share < rows * blocks_a_row; share += gridDim.x) {
    const int64_t row = share / blocks_a_row;
    const bool skipped = upstream.skips(row);
    const float factor = upstream.template factor<float>(row);
    if (in_place && (skipped || factor == 1)) continue;
    const int block = static_cast<int>(share % blocks_a_row) * cross_entropy_block;
    T* const out = grad_logits + row * columns;
    const trifold::RowCut<T, cut> at(
        trifold::TeamPlace{row, block + static_cast<int>(threadIdx.x), blocks_a_row * cross_entropy_block}, out,
        columns);
    trifold::RowPart<T, cut, cross_entropy_pieces> part;
    part.load(residual, row, rows, residual_stride, at, T(0.0f));
    part.become([&](int k, int i) { return skipped ? 0.0f : factor * part.piece[k][i]; });
    part.store(out, at);
  }
}
