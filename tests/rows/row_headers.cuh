// Kernels that use one header of the row library each.
#pragma once

#include "rows/moments.cuh"
#include "rows/row_stream.cuh"
#include "rows/tensor_cores.cuh"

// Each thread holds one number of its team's row, and gets the sum of the row.
template <trifold::Team team>
__global__ void team_sum_kernel(const float* x, float* sums) {
  const trifold::TeamPlace at = trifold::begin_in_team<team, float>();
  const int64_t i = at.row * at.threads + at.thread;
  sums[i] = trifold::team_reduce<team>(x[i], 0.0f, trifold::Sum{});
}

// A team that is a block copies each row of x to y, and the row's own sum is added to its elements.
template <class Shape, bool edges>
__global__ void __launch_bounds__(Shape::block) ring_kernel(const float* x, float* y, int64_t rows, int columns) {
#ifdef TRIFOLD_CLUSTERS
  using Mail = trifold::RowMail<Shape, trifold::Pack<float, 1>>;
  __shared__ typename Mail::Memory memory;
  const trifold::StreamPlace at = trifold::stream_place<Shape>();
  const int count = at.rows_from(at.first_row, rows);
  const int lead = edges ? static_cast<int>(at.first_row * columns % 4) : 0;
  Mail mail(&memory, at);
  trifold::RowStream<float, Shape, edges> stream(trifold::dynamic_shared_lines<unsigned char>(), at, lead,
                                                 columns + lead, {x + at.first_row * columns - lead},
                                                 {at.teams * columns}, count);
  trifold::Mailbox::ready();
  trifold::cluster_arrive_with_mailboxes();
  trifold::wait_for_earlier_kernels();
  stream.begin();
  trifold::cluster_wait();
  float* out = y + at.first_row * columns - lead + at.thread * 4;
  for (int i = 0; i <= count; ++i) {
    if (i < count) {
      stream.wait(0);
      float own = 0;
#pragma unroll
      for (int k = 0; k < Shape::pieces; ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e) own += stream.head(0, k)[e];
      stream.advance_head();
      mail.send({trifold::warp_sum(own)}, i);
    }
    if (i > 0) {
      const float sum = trifold::sum_of(mail.receive(i - 1)).value[0];
      stream.store(true, out, 0,
                   [&](int, int k) { return trifold::pack<float>([&](int e) { return stream.tail(0, k)[e] + sum; }); });
      stream.with_edge(0, stream.tail(),
                       [&](const trifold::Pack<float, 1>& edge) { *stream.edge_in(out) = edge.value[0] + sum; });
      stream.advance_tail();
      out += at.teams * columns;
    }
    stream.refill(0);
  }
  stream.end();
#endif
}

// A warp that holds a row in its registers, ragged: the row's mean, and the sum of squared differences from it.
__global__ inline void moments_kernel(const float* x, float* out, int columns) {
  const trifold::RowCut<float, trifold::Cut::ragged> at({0, static_cast<int>(threadIdx.x), 32}, x, columns);
  trifold::RowPart<float, trifold::Cut::ragged, 2> part[1];
  part[0].load(x, 0, 1, columns, at, 0.0f);
  const auto own = trifold::lane_moments<32>(part, at, trifold::Count(columns));
  if (threadIdx.x == 0) {
    out[0] = own.value[0].mean;
    out[1] = own.value[0].squares;
  }
}

// One warp: the sums of x and of its squares, of a half type, by tensor cores.
template <class T>
__global__ void tensor_sums_kernel(const T* x, float* sums, float* squares, int64_t n) {
  using Piece = trifold::Packed<T>;
  trifold::TensorSums<T> all;
  for (int64_t i = threadIdx.x; i < n / Piece::size; i += trifold::warp_threads)
    all.add(reinterpret_cast<const Piece*>(x)[i]);
  sums[threadIdx.x] = trifold::warp_sum(all.sum());
  squares[threadIdx.x] = trifold::warp_sum(all.squares());
}
