// The forward pass of a norm whose rows stream through shared memory (row_stream.cuh): for rows too long for registers,
// or so long that each would wait for its parameters, which stay in registers here.
#pragma once

#include "moments.cuh"
#include "norm_rows.cuh"
#include "row_stream.cuh"

namespace trifold {

#ifdef TRIFOLD_CLUSTERS

// A warp's message about a row: the moments of its numbers; or Σ x², if the norm is not `centred`.
template <bool centred, class T, Cut cut, int V>
__device__ __forceinline__ auto message(RowPart<T, cut, V> (&part)[1], const RowCut<T, cut>& at) {
  if constexpr (centred)
    return warp_moments(part, at);
  else
    return Pack<float, 1>{warp_sum(sum_of_squares(part[0], at))};
}

// The row's moments from these messages; a mean of 0 if the norm is not centred.
template <class T, int most_warps>
__device__ __forceinline__ Moments moments_of(const Posts<Pack<WarpMoments, 1>>& posts, const Count& columns) {
  return close_combine<T, most_warps>(posts, columns);
}
template <class T, int most_warps>
__device__ __forceinline__ Moments moments_of(const Posts<Pack<float, 1>>& posts, const Count&) {
  return {0, sum_of(posts).value[0]};
}

#endif

// layer_norm if `centred`, otherwise rms_norm. Rows of a team have the same offset from a boundary, in x and in y.
template <class T, class Shape, bool centred, Cut cut>
__global__ void __launch_bounds__(Shape::block, Shape::resident)
    norm_stream_kernel(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y, float* mean, float* rstd,
                       int64_t rows, int columns, float eps, int share, int boundary) {
#ifdef TRIFOLD_CLUSTERS
  static_assert(Shape::teams == 1 && Shape::chunks == 1 && Shape::matrices == 1);
  constexpr int V = Shape::pieces, most_warps = Shape::warps * most_blocks_a_cluster;
  using Post = Pack<std::conditional_t<centred, WarpMoments, float>, 1>;
  using Mail = RowMail<Shape, Post>;
  __shared__ typename Mail::Memory memory;
  const StreamPlace place = stream_place<Shape>();
  const int lead = cut == Cut::whole ? 0 : static_cast<int>(place.first_row * columns % boundary);
  const int first = place.rank * share - lead, end = min(columns, first + share);
  const int count = place.rows_from(place.first_row, rows);
  Mail mail(&memory, place);
  RowStream<T, Shape, cut != Cut::whole> stream(dynamic_shared_lines<unsigned char>(), place, lead, end - first,
                                                {x + place.first_row * x_stride + first}, {place.teams * x_stride},
                                                count);
  Mailbox::ready();
  cluster_arrive_with_mailboxes();
  wait_for_earlier_kernels();
  stream.begin();
  let_later_kernels_begin();
  cluster_wait();

  const RowCut<T, cut> at(first + place.thread * Vector<T>::size, Shape::threads * Vector<T>::size, end,
                          stream.edge() < 0 ? -1 : first + stream.edge());
  const SharedByRows<T, cut, V, true> weights(weight, at, T(1.0f));
  const SharedByRows<T, cut, V, centred> biases(bias, at, T(0.0f));
  const float edge_weight = at.edge < 0 ? 1.0f : weights.number(at.edge);
  const float edge_bias = at.edge < 0 ? 0.0f : biases.number(at.edge);
  const Count of_row(columns);
  T* out = y + place.first_row * columns + at.first;
  for (int i = 0; i <= count; ++i) {
    if (i < count) {  // row i is summed up
      stream.wait(0);
      RowPart<T, cut, V> part[1];
#pragma unroll
      for (int k = 0; k < V; ++k) {
        part[0].piece[k] = stream.head(0, k);
        if (cut == Cut::streamed && !at.within(k)) part[0].piece[k] = Packed<T>::all(T(0.0f));
      }
      stream.with_edge(0, stream.head(), [&](const Pack<float, 1>& edge) { part[0].edge = T(edge.value[0]); });
      stream.advance_head();
      mail.send(message<centred>(part, at), i);
    }
    if (i > 0) {  // row i - 1 is written
      const Moments all = moments_of<T, most_warps>(mail.receive(i - 1), of_row);
      const float r = close_rsqrt<T>(all.squares / of_row + eps);
      const Normalised<T> normalised(all.mean, r);
      stream.store(true, out, 0, [&](int, int k) {
        if constexpr (centred)
          return made<T>(stream.tail(0, k), normalised, weights.piece(k, at), biases.piece(k, at));
        else
          return made<T>(stream.tail(0, k), ScaledBy{r}, weights.piece(k, at));
      });
      stream.with_edge(0, stream.tail(), [&](const Pack<float, 1>& edge) {
        const float x = edge.value[0];
        *stream.edge_in(out) = T(centred ? normalised(x, edge_weight, edge_bias) : ScaledBy{r}(x, edge_weight));
      });
      stream.advance_tail();
      if (place.thread == 0 && place.rank == 0) {
        const int64_t row = place.first_row + (i - 1) * place.teams;
        if constexpr (centred) mean[row] = all.mean;
        rstd[row] = r;
      }
      out += place.teams * columns;
    }
    stream.refill(0);
  }
  stream.end();
  mail.end();
#endif
}

}  // namespace trifold
