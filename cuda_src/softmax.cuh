// softmax: y = exp(x - max x) / Σ exp(x - max x) along each of `rows` rows of `columns` numbers.
//
// Rows of x begin `x_stride` elements apart; those of y are contiguous. Forward must read x and write y once:
// 2·sizeof(T) bytes an element; backward, d x = y·(d y - Σ d y·y), 3·sizeof(T).
//
// The maximum is subtracted so that no exp overflows: the largest is exp(0) = 1. As in torch, a row with nan or +inf,
// or of -inf alone, is nan throughout.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/reduce.cuh>
#include <trifold/sums.cuh>

#include "rows/exp_sums.cuh"
#include "rows/row_parts.cuh"
#include "rows/row_stream.cuh"

inline constexpr int softmax_block = trifold::threads_per_block;

// A block a row, in three passes over it: the maximum, the sum, the quotients.
template <class T>
__global__ void softmax_kernel(const T* x, int64_t x_stride, T* y, int64_t rows, int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * x_stride;
    T* out = y + row * columns;
    C largest = -C(INFINITY);
    for (int64_t i = threadIdx.x; i < columns; i += softmax_block) largest = trifold::Max{}(largest, C(in[i]));
    largest = trifold::block_max<softmax_block>(largest);
    const C sum = trifold::block_sum_of<softmax_block, C>(columns, [&](int64_t i) { return exp(C(in[i]) - largest); });
    for (int64_t i = threadIdx.x; i < columns; i += softmax_block) out[i] = T(exp(C(in[i]) - largest) / sum);
  }
}

// One block per row, in two passes: Σ d y·y, and the products.
template <class T>
__global__ void softmax_backward_kernel(const T* grad_y, int64_t grad_stride, const T* y, int64_t y_stride, T* grad_x,
                                        int64_t rows, int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* grad = grad_y + row * grad_stride;
    const T* result = y + row * y_stride;
    T* out = grad_x + row * columns;
    const C sum =
        trifold::block_sum_of<softmax_block, C>(columns, [&](int64_t i) { return C(grad[i]) * C(result[i]); });
    for (int64_t i = threadIdx.x; i < columns; i += softmax_block) out[i] = T(C(result[i]) * (C(grad[i]) - sum));
  }
}

// softmax_kernel with a row in a team's registers (row_teams.cuh).
template <class T, trifold::Cut cut, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    softmax_rows_kernel(const T* x, int64_t x_stride, T* y, int64_t rows, int columns) {
  const trifold::TeamPlace place = trifold::begin_in_team<Choice::team, trifold::WarpExps>();
  if (place.template done<Choice::team>(rows)) return;
  T* const out = y + place.row * columns;
  const trifold::RowCut<T, cut> at(place, out, place.template columns<Choice::team>(rows, columns));
  trifold::RowPart<T, cut, Choice::pieces> part;
  part.load(x, place.row, rows, x_stride, at, T(-INFINITY));
  trifold::Exps<T, Choice::pieces> exps;
  exps.template compute<Choice::team>(part, at, false);
  if constexpr (trifold::keeps_exps<T, Choice::pieces>) {
    const float factor = trifold::row_exps<T, Choice::team>(exps.warp, false).template factor<T>(exps.warp.max);
    part.become([&](int k, int i) { return exps.e[k][i] * factor; });
    if constexpr (cut == trifold::Cut::inner) part.edge = T(exps.edge * factor);
  } else {
    part.stay();
    const trifold::RowExps row = trifold::row_exps<T, Choice::team>(exps.warp, false);
    const trifold::ExpQuotient<T> quotient(row.max, row.sum);
    part.become([&](int k, int i) { return quotient(part.piece[k][i]); });
    if constexpr (cut == trifold::Cut::inner) part.edge = T(quotient(float(part.edge)));
  }
  part.store(out, at);
}

// softmax_backward_kernel with a row in a team's registers.
template <class T, trifold::Cut cut, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks)
    softmax_backward_rows_kernel(const T* grad_y, int64_t grad_stride, const T* y, int64_t y_stride, T* grad_x,
                                 int64_t rows, int columns) {
  const trifold::TeamPlace place = trifold::begin_in_team<Choice::team, float>();
  if (place.template done<Choice::team>(rows)) return;
  T* const out = grad_x + place.row * columns;
  const trifold::RowCut<T, cut> at(place, out, place.template columns<Choice::team>(rows, columns));
  trifold::RowPart<T, cut, Choice::pieces> grad, result;
  grad.load(grad_y, place.row, rows, grad_stride, at, T(0.0f));
  result.load(y, place.row, rows, y_stride, at, T(0.0f));
  float sum = 0;
  grad.each([&](float g, int k, int i) { sum += g * result.piece[k][i]; });
  if constexpr (cut == trifold::Cut::inner) sum += float(grad.edge) * float(result.edge);
  sum = trifold::team_reduce<Choice::team>(sum, 0.0f, trifold::Sum{});
  grad.become([&](int k, int i) { return result.piece[k][i] * (grad.piece[k][i] - sum); });
  if constexpr (cut == trifold::Cut::inner) grad.edge = T(float(result.edge) * (float(grad.edge) - sum));
  grad.store(out, at);
}

// softmax_backward_kernel with rows that stream through shared memory (row_stream.cuh), in whole pieces: for rows so
// long that in registers they would leave room for one block per multiprocessor, with no other to run while it waits. A
// block of a cluster has `share` columns.
template <class T, class Shape>
__global__ void __launch_bounds__(Shape::block, 1)
    softmax_backward_stream_kernel(const T* grad_y, int64_t grad_stride, const T* y, int64_t y_stride, T* grad_x,
                                   int64_t rows, int columns, int share) {
#ifdef TRIFOLD_CLUSTERS
  static_assert(Shape::teams == 1, "a team is the blocks of a cluster");
  using Mail = trifold::RowMail<Shape, trifold::Pack<float, 1>>;
  using Floats = trifold::Pack<float, trifold::Vector<T>::size>;
  __shared__ typename Mail::Memory memory;
  const trifold::StreamPlace at = trifold::stream_place<Shape>();
  const int count = at.rows_from(at.first_row, rows), first = at.rank * share;
  Mail mail(&memory, at);
  trifold::RowStream<T, Shape, false> stream(
      trifold::dynamic_shared_lines<unsigned char>(), at, 0, min(columns - first, share),
      {y + at.first_row * y_stride + first, grad_y + at.first_row * grad_stride + first},
      {at.teams * y_stride, at.teams * grad_stride}, count);
  trifold::Mailbox::ready();
  trifold::cluster_arrive_with_mailboxes();
  trifold::wait_for_earlier_kernels();
  stream.begin();
  trifold::cluster_wait();

  // Row i is summed up, and row i - 1 is written.
  T* out = grad_x + at.first_row * columns + first + at.thread * trifold::Vector<T>::size;
  for (int i = 0; i <= count; ++i) {
    float own = 0, sum = 0;
#pragma unroll
    for (int q = 0; q < Shape::chunks; ++q) {
      if (i < count) {
        stream.wait(q);
#pragma unroll
        for (int j = 0; j < Shape::chunk; ++j) {
          const Floats result = trifold::floats_of<T>(stream.head(0, j)),
                       grad = trifold::floats_of<T>(stream.head(1, j));
#pragma unroll
          for (int e = 0; e < trifold::Vector<T>::size; ++e) own += grad.value[e] * result.value[e];
        }
        stream.advance_head();
        if (q == Shape::chunks - 1) mail.send({trifold::warp_sum(own)}, i);
      }
      if (i > 0) {
        if (q == 0) sum = trifold::sum_of(mail.receive(i - 1)).value[0];
        stream.store(true, out, q, [&](int j, int) {
          const Floats result = trifold::floats_of<T>(stream.tail(0, j)),
                       grad = trifold::floats_of<T>(stream.tail(1, j));
          return trifold::pack<T>([&](int e) { return result.value[e] * (grad.value[e] - sum); });
        });
        stream.advance_tail();
        if (q == Shape::chunks - 1) out += at.teams * columns;
      }
      stream.refill(q);
    }
  }
  stream.end();
  mail.end();
#endif
}
