// The backward pass of a norm in one pass over its inputs: each row is read once, what it adds to the gradients of
// weight and bias is added to sums that its team's threads keep in registers, and grad_x is written once.
#pragma once

#include <trifold/row_stream.cuh>
#include <trifold/sums.cuh>

#ifdef __CUDACC__

namespace trifold {

// What the kernels take.
template <class T>
struct NormBackward {
  const T* grad;
  int64_t grad_stride;
  const T* x;
  int64_t x_stride;
  const T* weight;    // null: 1
  const float* mean;  // of each row; null unless centred
  const float* rstd;
  T* grad_x;
  float* parts;         // what the clusters have summed up: a row of sums each. Null: it is not wanted.
  int64_t part_stride;  // from the parts of grad_weight to those of grad_bias
  int64_t rows;
  int columns;
  int share;     // of the columns that a block of a cluster has, in whole pieces
  int boundary;  // with edges: rows of a team begin alike, as seen from boundaries so many elements apart
};

// The weights of a piece that begins at this column, if it is `there`; with `edges`, of its columns that are.
template <class T, bool edges>
__device__ __forceinline__ uint4 weights_at(const NormBackward<T>& norm, bool there, int column) {
  if (!edges && there && norm.weight != nullptr) return *reinterpret_cast<const uint4*>(norm.weight + column);
  Pack<float, Vector<T>::size> weights;
#pragma unroll
  for (float& weight : weights.value) {
    weight = edges && norm.weight != nullptr && column >= 0 && column < norm.columns ? float(norm.weight[column]) : 1;
    ++column;
  }
  return piece_of<T>(weights);
}

template <int N>
__device__ __forceinline__ void store_floats(float* to, const Pack<float, N>& floats) {
#pragma unroll
  for (int e = 0; e < N; e += 4)
    *reinterpret_cast<float4*>(to + e) = {floats.value[e], floats.value[e + 1], floats.value[e + 2],
                                          floats.value[e + 3]};
}

// Adds up what the teams of a block have of each column, for each of N parameters, by way of shared memory. The block's
// columns from `first` on are `end`, where a cluster shares a row; else they are all, and a team's begin leads[team]
// behind what it holds. Those of parameter n go to `to` + n·stride.
template <class Shape, bool edges, int N, int size>
__device__ __forceinline__ void add_teams(float* memory, const StreamPlace& at,
                                          const Pack<float, size> (&sums)[N][Shape::pieces], const int* leads,
                                          int first, int end, int columns, float* to, int64_t stride) {
  constexpr int teams = Shape::teams, pitch = Shape::threads * Shape::pieces * size;
  static_assert(Shape::bytes >= N * teams * pitch * int{sizeof(float)});
  __syncthreads();  // all have read their rows
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int k = 0; k < Shape::pieces; ++k)
      store_floats(memory + (n * teams + at.team) * pitch + (k * Shape::threads + at.thread) * size, sums[n][k]);
  }
  __syncthreads();
  const int begin = teams > 1 ? 0 : max(first, 0), behind = teams > 1 ? columns : first + end;
  for (int column = begin + static_cast<int>(threadIdx.x); column < behind; column += Shape::block) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      float of_teams[4]{};  // four sums at once
#pragma unroll
      for (int team = 0; team < teams; ++team)
        of_teams[team % 4] += memory[(n * teams + team) * pitch + column +
                                     (teams == 1 ? -first
                                      : edges    ? leads[team]
                                                 : 0)];
      to[n * stride + column] = (of_teams[0] + of_teams[1]) + (of_teams[2] + of_teams[3]);
    }
  }
}

// With `centred` of layer_norm, else of rms_norm. With `edges` the rows begin anywhere (row_stream.cuh), and then rows
// that are as far apart as those of a team begin alike, in x, in grad and in grad_x.
template <class T, class Shape, bool centred, bool edges>
__global__ void __launch_bounds__(Shape::block, 1) norm_backward_stream_kernel(NormBackward<T> norm) {
#ifdef TRIFOLD_CLUSTERS
  constexpr int size = Vector<T>::size, pieces = Shape::pieces, sums_a_row = centred ? 2 : 1;
  // A thread's registers: the sums, the weights as floats, and 80 more.
  constexpr bool floats_fit = (sums_a_row + 1) * pieces * size + 80 <= 65536 / Shape::block;
  using Sums = RowSums<Shape, sums_a_row>;
  using Floats = Pack<float, size>;
  unsigned char* const memory = dynamic_shared<unsigned char>();
  __shared__ typename Sums::Memory sums_memory[Shape::teams];

  const StreamPlace at = stream_place<Shape>();
  const auto rows_from = [&](int64_t row) {
    return row < norm.rows ? static_cast<int>((norm.rows - row - 1) / at.teams) + 1 : 0;
  };
  const int count = rows_from(at.first_row);
  // The first one of a warp's teams has the most.
  const int steps = rows_from(at.first_row - at.team % Shape::teams_a_warp * (at.teams / Shape::teams));
  const int lead = edges ? static_cast<int>(at.first_row * norm.columns % norm.boundary) : 0;
  const int first = at.rank * norm.share - lead, end = min(norm.columns - first, norm.share);
  __shared__ int leads[Shape::teams];
  if (at.thread == 0) leads[at.team] = lead;
  Sums sums(sums_memory, at);
  RowStream<T, Shape, edges> stream(memory, at, lead, end, norm.x + at.first_row * norm.x_stride + first,
                                    at.teams * norm.x_stride, norm.grad + at.first_row * norm.grad_stride + first,
                                    at.teams * norm.grad_stride, count);
  Mailbox::ready();
  cluster_arrive_with_mailboxes();
  wait_for_earlier_kernels();
  stream.begin();
  cluster_wait();

  const auto column = [&](int piece) { return first + (piece * Shape::threads + at.thread) * size; };
  uint4 weight[pieces];
#pragma unroll
  for (int k = 0; k < pieces; ++k) weight[k] = weights_at<T, edges>(norm, stream.has(k), column(k));
  Floats of_parameter[sums_a_row][pieces]{};  // of weight, and of bias

  const bool weighted = edges && stream.edge() >= 0 && norm.weight != nullptr;
  const float edge_weight = weighted ? float(norm.weight[first + stream.edge()]) : 1;

  T* out = norm.grad_x + at.first_row * norm.columns + column(0);
  const float *mean = norm.mean + at.first_row, *rstd = norm.rstd + at.first_row;
  const float inverse = 1.0f / static_cast<float>(norm.columns);
  float m = 0, r = 0, m_next = 0, r_next = 0;
  if (count > 0) {
    if constexpr (centred) m_next = *mean;
    r_next = *rstd;
  }
  // Goes on to row i.
  const auto next_row = [&](int i) {
    m = m_next;
    r = r_next;
    m_next = r_next = 0;
    if (i + 1 < count) {
      if constexpr (centred) m_next = *(mean += at.teams);
      r_next = *(rstd += at.teams);
    }
    if constexpr (sizeof(T) < sizeof(float) && !floats_fit) {
#pragma unroll
      for (uint4& piece : weight) keep_packed(piece);
    }
  };
  // Of half types x has so few digits that m·r needs not be exact.
  const auto x_hat_of = [&](float x) {
    return !centred ? x * r : sizeof(T) == sizeof(float) ? (x - m) * r : x * r - m * r;
  };
  // Adds piece k to all sums; x becomes x̂, and g becomes g·weight.
  Pack<float, sums_a_row> row;
  const auto add = [&](int k, Floats& x, Floats& g) {
    const Floats w = floats_of<T>(weight[k]);
#pragma unroll
    for (int e = 0; e < size; ++e) {
      float &x_hat = x.value[e], &gw = g.value[e];
      x_hat = x_hat_of(x_hat);
      of_parameter[0][k].value[e] += gw * x_hat;
      if constexpr (centred) of_parameter[1][k].value[e] += gw;
      gw *= w.value[e];
      row.value[0] += gw * x_hat;
      if constexpr (centred) row.value[1] += gw;
    }
  };

  // grad_x = rstd·(g·weight - mean (g·weight) - x̂·mean(g·weight·x̂)).
  if constexpr (Sums::alone) {
    // A warp has a row's sums soon enough to keep the row in registers until then.
    for (int i = 0; i < steps; ++i) {
      next_row(i);
      stream.wait(0);
      stream.refill(0);
      row = {};
      Floats x[pieces], gw[pieces];
#pragma unroll
      for (int k = 0; k < pieces; ++k) {
        x[k] = floats_of<T>(stream.head_a(k));
        gw[k] = floats_of<T>(stream.head_b(k));
        add(k, x[k], gw[k]);
      }
      const Pack<float, sums_a_row> whole = sums.of_warp(row);
      const float factor = -(whole.value[0] * inverse) * r;
      const float shift = centred ? -(whole.value[sums_a_row - 1] * inverse) * r : 0;
      const auto result = [&](float gw, float x_hat) { return gw * r + (x_hat * factor + shift); };
      stream.store(
          i < count, out, 0, stream.head(),
          [&](int, int k) {
            Floats results;
#pragma unroll
            for (int e = 0; e < size; ++e) results.value[e] = result(gw[k].value[e], x[k].value[e]);
            return piece_of<T>(results);
          },
          [&](float x, float g) { return result(g * edge_weight, x_hat_of(x)); });
      stream.advance_head();
      out += at.teams * norm.columns;
    }
  } else {
    // Row i is summed up, and row i - 1, whose sums have come meanwhile, is read again and written.
    for (int i = 0; i <= steps; ++i) {
      const float m_before = m, r_before = r;
      next_row(i);
      row = {};
      float factor = 0, shift = 0;
#pragma unroll
      for (int q = 0; q < Shape::chunks; ++q) {
        if (i < steps) {
          stream.wait(q);
#pragma unroll
          for (int j = 0; j < Shape::chunk; ++j) {
            const int k = q * Shape::chunk + j;
            if (edges && k == pieces - 1 && !stream.has(k)) break;  // most rows end before the last piece
            Floats x = floats_of<T>(stream.head_a(j)), g = floats_of<T>(stream.head_b(j));
            add(k, x, g);
          }
          stream.advance_head();
          if (q == Shape::chunks - 1) sums.give(row, i);
        }
        if (i > 0) {
          if (q == 0) {
            const Pack<float, sums_a_row> whole = sums.take(i - 1);
            factor = -(whole.value[0] * inverse) * r_before * r_before;
            if constexpr (centred) {
              shift = -(whole.value[1] * inverse) * r_before;
              if constexpr (sizeof(T) < sizeof(float)) shift -= m_before * factor;
            }
          }
          const auto result = [&](float gw, float x) {
            return gw * r_before + ((centred && sizeof(T) == sizeof(float) ? x - m_before : x) * factor + shift);
          };
          stream.store(
              true, out, q, stream.tail(),
              [&](int j, int k) {
                const Floats x = floats_of<T>(stream.tail_a(j)), g = floats_of<T>(stream.tail_b(j));
                const Floats w = floats_of<T>(weight[k]);
                Floats results;
#pragma unroll
                for (int e = 0; e < size; ++e) results.value[e] = result(g.value[e] * w.value[e], x.value[e]);
                return piece_of<T>(results);
              },
              [&](float x, float g) { return result(g * edge_weight, x); });
          stream.advance_tail();
          if (q == Shape::chunks - 1) out += at.teams * norm.columns;
        }
        stream.refill(q);
      }
    }
  }

  stream.end();
  if (norm.parts != nullptr) {
    float* const part = norm.parts + blockIdx.x / at.blocks * int64_t{norm.columns};
    if constexpr (Shape::teams == 1 && !edges) {
#pragma unroll
      for (int n = 0; n < sums_a_row; ++n) {
#pragma unroll
        for (int k = 0; k < pieces; ++k)
          if (stream.has(k)) store_floats(part + n * norm.part_stride + column(k), of_parameter[n][k]);
      }
    } else {
      add_teams<Shape, edges>(reinterpret_cast<float*>(memory), at, of_parameter, leads, first, end, norm.columns, part,
                              norm.part_stride);
    }
  }
  if (at.blocks > 1) {  // until all have taken the last sums, others write to this block's memory
    cluster_arrive();
    cluster_wait();
  }
#endif
}

// Adds up `count` parts, each of as many numbers as there are columns. blockDim.y threads share a column's parts.
// Blocks with blockIdx.y = 0 make `first`, those with 1 make `second`.
inline constexpr int most_threads_of_parts = 1024;
template <class T>
__global__ void __launch_bounds__(most_threads_of_parts)
    add_parts_kernel(const float* parts, int64_t part_stride, T* first, T* second, int count, int columns) {
  __shared__ float of_threads[most_threads_of_parts];
  const int across = static_cast<int>(blockDim.x), threads = static_cast<int>(blockDim.y);
  const int thread = static_cast<int>(threadIdx.y), column = static_cast<int>(blockIdx.x) * across + threadIdx.x;
  const float* const own = parts + blockIdx.y * part_stride + column;
  float* const place = of_threads + thread * across + threadIdx.x;
  wait_for_earlier_kernels();
  constexpr int at_once = 16;  // loads under way
  CompensatedSum<float> sum{};
  if (column < columns) {
    for (int begin = thread; begin < count; begin += at_once * threads) {
      float values[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int part = begin + i * threads;
        values[i] = part < count ? own[int64_t{part} * columns] : 0;
      }
#pragma unroll
      for (int half = at_once / 2; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < half; ++i) values[i] += values[i + half];
      }
      sum.add(values[0]);
    }
  }
  *place = sum.value();
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) *place += place[half * across];
  }
  if (thread == 0 && column < columns) (blockIdx.y == 0 ? first : second)[column] = T(*place);
}

}  // namespace trifold

#endif
