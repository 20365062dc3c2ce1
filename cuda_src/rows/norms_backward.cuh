// The backward pass of a norm in one pass over its inputs: each row is read once, what it adds to the gradients of
// weight and bias is added to sums that its team's threads keep in registers, and grad_x is written once.
#pragma once

#include <trifold/sums.cuh>

#include "pace.cuh"
#include "row_stream.cuh"
#include "warp_rows.cuh"

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
  // What the clusters have summed up, a row of sums each. Null: it is not wanted. A part has whole lines of memory, of
  // which the last one is filled up with what is never read: a line that is written in part is read more slowly.
  float* parts;
  int part_pitch;       // from a cluster's sums to those of the next one
  int64_t part_stride;  // from the parts of grad_weight to those of grad_bias
  int64_t rows;
  int columns;
  int share;     // of the columns that a block of a cluster has, in whole pieces
  int boundary;  // with edges: rows of a team begin alike, as seen from boundaries so many elements apart
  bool early;    // whether the next kernel, which adds up the parts, is set up while this one runs
  int ahead;     // of a team that is a warp: for so many rows L2 is asked before earlier kernels have ended
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
__device__ __forceinline__ void store_floats(float* to, const float* floats) {
#pragma unroll
  for (int e = 0; e < N; e += 4)
    *reinterpret_cast<float4*>(to + e) = {floats[e], floats[e + 1], floats[e + 2], floats[e + 3]};
}

// Stores numbers of columns of a warp's lanes, each of which has so many from `column` on, at `to` and behind it, where
// column 0 begins at a 16-byte boundary: those of columns from 0 to `end`.
template <int size>
__device__ __forceinline__ void store_columns(float* to, int column, int end, const float (&own)[size]) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int before = -column & 3;  // so many are in a four of the lane before
  float numbers[size + 3];         // behind the lane's own ones those of the next one
#pragma unroll
  for (int e = 0; e < size + 3; ++e) numbers[e] = e < size ? own[e] : of_lane(own[e - size], lane + 1);
#pragma unroll
  for (int shift = 1; shift <= 2; shift *= 2) {
#pragma unroll
    for (int e = 0; e + shift < size + 3; ++e) numbers[e] = (before & shift) != 0 ? numbers[e + shift] : numbers[e];
  }
  const auto store_one = [&](bool there, int column, float number) {
    if (there && column >= 0 && column < end) to[column] = number;
  };
#pragma unroll
  for (int e = 0; e < 3; ++e) store_one(lane == 0 && e < before, column + e, own[e]);
#pragma unroll
  for (int e = 0; e < size; e += 4) {
    const int begin = column + before + e, count = lane == warp_threads - 1 && e + 4 == size ? 4 - before : 4;
    if (count == 4 && begin >= 0 && begin + 4 <= end) {
      store_floats<4>(to + begin, numbers + e);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) store_one(i < count, begin + i, numbers[e + i]);
    }
  }
}

// How a team's numbers of columns stand in shared memory: the two fours of a piece of 8 apart, since a warp that stored
// whole pieces would meet each bank twice, and with 16 numbers between them, since a warp that reads would.
template <class Shape, int size>
struct TeamColumns {
  static constexpr int fours = size / 4, plane = Shape::threads * 4 + (fours > 1 ? 16 : 0);
  static constexpr int pitch = Shape::pieces * fours * plane;

  static __device__ __forceinline__ void store(float* to, int thread, int piece, const Pack<float, size>& floats) {
#pragma unroll
    for (int q = 0; q < fours; ++q)
      store_floats<4>(to + (piece * fours + q) * plane + thread * 4, floats.value + 4 * q);
  }

  static __device__ __forceinline__ int place(int column) {
    const int piece = column / size, four = piece / Shape::threads * fours + column % size / 4;
    return four * plane + piece % Shape::threads * 4 + column % 4;
  }
};

// Adds up what the teams of a block have of each column, for each of N parameters, by way of shared memory. Rows begin
// leads[team] behind what a team holds. The sums of parameter n go to `to` + n·stride.
template <class Shape, bool edges, int N, int size>
__device__ __forceinline__ void add_teams(float* memory, const StreamPlace& at,
                                          const Pack<float, size> (&sums)[N][Shape::pieces], const int* leads,
                                          int columns, float* to, int pitch, int64_t stride) {
  using Columns = TeamColumns<Shape, size>;
  constexpr int teams = Shape::teams;
  static_assert(Shape::bytes >= N * teams * Columns::pitch * int{sizeof(float)});
  __syncthreads();  // all have read their rows
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int k = 0; k < Shape::pieces; ++k)
      Columns::store(memory + (n * teams + at.team) * Columns::pitch, at.thread, k, sums[n][k]);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < pitch; i += Shape::block) {
    const int column = min(i, columns - 1), place = Columns::place(column);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      float of_teams[4]{};  // four sums at once
#pragma unroll
      for (int team = 0; team < teams; ++team)
        of_teams[team % 4] +=
            memory[(n * teams + team) * Columns::pitch + (edges ? Columns::place(column + leads[team]) : place)];
      to[n * stride + i] = (of_teams[0] + of_teams[1]) + (of_teams[2] + of_teams[3]);
    }
  }
}

// Whether a thread's registers hold the sums, the weights as floats, the numbers of two rows that are kept, and others.
template <class T, class Shape, bool centred>
inline constexpr bool floats_fit =
    ((centred ? 2 : 1) + 1 + (Shape::kept ? 2 : 0)) * Shape::pieces * Vector<T>::size + (Shape::kept ? 40 : 80) <=
    65536 / (Shape::block * Shape::resident);

// With `centred` of layer_norm, else of rms_norm. With `edges` the rows begin anywhere (row_stream.cuh), and then rows
// that are as far apart as those of a team begin alike, in x, in grad and in grad_x.
template <class T, class Shape, bool centred, bool edges>
__global__ void __launch_bounds__(Shape::block, Shape::resident) norm_backward_stream_kernel(NormBackward<T> norm) {
#ifdef TRIFOLD_CLUSTERS
  constexpr int size = Vector<T>::size, pieces = Shape::pieces, sums_a_row = centred ? 2 : 1;
  using Sums = std::conditional_t<Shape::pairs, PairSums<Shape>, RowSums<Shape, sums_a_row>>;
  static_assert(!Shape::pairs || centred);
  using Floats = Pack<float, size>;
  unsigned char* const memory = dynamic_shared_lines<unsigned char>();
  __shared__ typename Sums::Memory sums_memory[Shape::teams];

  const StreamPlace at = stream_place<Shape>();
  const auto rows_from = [&](int64_t row) {
    return row < norm.rows ? static_cast<int>((norm.rows - row - 1) / at.teams) + 1 : 0;
  };
  const int count = rows_from(at.first_row);
  constexpr bool bulk = Shape::bulk && !edges;
  // The first one of a warp's teams has the most.
  constexpr int teams_a_warp = Shape::teams_a_warp;
  const int steps =
      teams_a_warp == 1 ? count : rows_from(at.first_row - at.team % teams_a_warp * (at.teams / Shape::teams));
  const int lead = edges ? static_cast<int>(at.first_row * norm.columns % norm.boundary) : 0;
  const int first = at.rank * norm.share - lead, end = min(norm.columns - first, norm.share);
  __shared__ int leads[Shape::teams];
  if (at.thread == 0) leads[at.team] = lead;
  Sums sums(sums_memory, at);
  const T* const x = norm.x + at.first_row * norm.x_stride + first;
  const T* const grad = norm.grad + at.first_row * norm.grad_stride + first;
  const int64_t x_jump = at.teams * norm.x_stride, grad_jump = at.teams * norm.grad_stride;
  auto stream = [&] {
    if constexpr (bulk) {
      return WarpRowStream<T, Shape>(memory, at, end, x, x_jump, grad, grad_jump, count);
    } else {
      return RowStream<T, Shape, edges>(memory, at, lead, end, x, x_jump, grad, grad_jump, count);
    }
  }();
  Mailbox::ready();
  cluster_arrive_with_mailboxes();
  if constexpr (Sums::alone) {
    const int i = at.thread / 2, bytes = (end * int{sizeof(T)} + vector_bytes - 1) & -vector_bytes;
    if (i < norm.ahead && i < count) prefetch_to_l2(at.thread % 2 == 0 ? x + i * x_jump : grad + i * grad_jump, bytes);
  }
  wait_for_earlier_kernels();
  Pace pace(Shape::paced && at.rank == 0 && at.thread == 0, static_cast<int>(at.teams));
  stream.begin();
  if (norm.early) let_later_kernels_begin();
  cluster_wait();

  const auto column = [&](int piece) { return first + (piece * Shape::threads + at.thread) * size; };
  uint4 weight[pieces];
#pragma unroll
  for (int k = 0; k < pieces; ++k) weight[k] = weights_at<T, edges>(norm, stream.has(k), column(k));
  Floats of_parameter[sums_a_row][pieces]{};  // of weight, and of bias

  const bool weighted = edges && stream.edge() >= 0 && norm.weight != nullptr;
  const float edge_weight = weighted ? float(norm.weight[first + stream.edge()]) : 1;

  T* out = norm.grad_x + at.first_row * norm.columns + column(0);
  // Where the compiler is short of registers and sees that all threads read the same number of a row, it copies it to a
  // uniform register, at once, and each row waits for it: of half types with edges, a seventh of the time. It cannot
  // see what is left of lanes' numbers that differ in a bit: 0. Elsewhere that costs registers, and up to 2%.
  constexpr bool hides = (edges && sizeof(T) < sizeof(float)) || Shape::chunks > 1;
  int64_t first_row = at.first_row;
  if constexpr (hides) first_row += (at.thread ^ shuffle_xor(at.thread, 1)) - 1;
  const float *const mean = norm.mean + first_row, *const rstd = norm.rstd + first_row;
  // Gathered, a warp's lanes hold these numbers of so many rows, and those of as many more are under way: asked for row
  // by row, they hold up each short row, and each row of a kernel that waits for little else.
  constexpr bool gathered = Shape::gathered;
  constexpr int rows_held = warp_threads / sums_a_row;
  const auto held_from = [&](int row) {
    const int lane = at.thread % warp_threads;
    row += lane / sums_a_row;
    const float* const of_row = (centred && lane % 2 == 0 ? norm.mean : norm.rstd) + at.first_row;
    return row < count ? of_row[static_cast<unsigned>(row) * static_cast<unsigned>(at.teams)] : 0;
  };
  float held = 0, held_next = 0;
  if constexpr (gathered) held_next = held_from(0);
  const float inverse = 1.0f / static_cast<float>(norm.columns);
  float m = 0, r = 0, m_next = 0, r_next = 0;
  if (!gathered && count > 0) {
    if constexpr (centred) m_next = *mean;
    r_next = *rstd;
  }
  // Goes on to row i.
  const auto next_row = [&](int i) {
    if constexpr (gathered) {
      const int place = static_cast<int>(static_cast<unsigned>(i) % rows_held);
      if (place == 0) {
        held = held_next;
        held_next = held_from(i + rows_held);
      }
      if constexpr (centred) m = of_lane(held, 2 * place);
      r = of_lane(held, sums_a_row * place + sums_a_row - 1);
    } else {
      m = m_next;
      r = r_next;
      m_next = r_next = 0;
      if (i + 1 < count) {
        const unsigned next = static_cast<unsigned>(i + 1) * static_cast<unsigned>(at.teams);
        if constexpr (centred) m_next = mean[next];
        r_next = rstd[next];
      }
    }
    if constexpr (sizeof(T) < sizeof(float) && !floats_fit<T, Shape, centred>) {
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
      stream.store(bulk || i < count, out, 0, [&](int, int k) {
        Floats results;
#pragma unroll
        for (int e = 0; e < size; ++e) results.value[e] = result(gw[k].value[e], x[k].value[e]);
        return piece_of<T>(results);
      });
      stream.with_edge(0, stream.head(), [&](float x, float g) {
        if (i < count) *stream.edge_in(out) = T(result(g * edge_weight, x_hat_of(x)));
      });
      stream.advance_head();
      out += at.teams * norm.columns;
    }
  } else {
    // Row i is summed up, and row i - 1, whose sums have come meanwhile, is read again and written. Where g·weight of
    // both is kept, `now` says which of the two places is row i's, so that none of it moves.
    Floats kept[Shape::kept ? 2 : 1][pieces];
    const auto step = [&]<int now>(int i) {
      const float m_before = m, r_before = r;
      next_row(i);
      row = {};
      float factor = 0, shift = 0;
      Pack<float, sums_a_row> taken;
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
            if constexpr (Shape::kept) kept[now][k] = g;
          }
          stream.advance_head();
          if (q == Shape::chunks - 1) {
            if constexpr (Shape::paced) pace.step(i);
            if constexpr (Shape::pairs)
              taken = sums.give_and_take(row, i);
            else
              sums.give(row, i);
          }
        }
        if (i > 0) {
          if (q == 0) {
            const Pack<float, sums_a_row> whole = Shape::pairs && i < steps ? taken : sums.take(i - 1);
            factor = -(whole.value[0] * inverse) * r_before * r_before;
            if constexpr (centred) {
              shift = -(whole.value[1] * inverse) * r_before;
              if constexpr (sizeof(T) < sizeof(float)) shift -= m_before * factor;
            }
          }
          const auto result = [&](float gw, float x) {
            return gw * r_before + ((centred && sizeof(T) == sizeof(float) ? x - m_before : x) * factor + shift);
          };
          stream.store(true, out, q, [&](int j, int k) {
            const Floats x = floats_of<T>(stream.tail_a(j));
            Floats gw;
            if constexpr (Shape::kept) {
              gw = kept[1 - now][k];
            } else {
              const Floats w = floats_of<T>(weight[k]);
              gw = floats_of<T>(stream.tail_b(j));
#pragma unroll
              for (int e = 0; e < size; ++e) gw.value[e] *= w.value[e];
            }
            Floats results;
#pragma unroll
            for (int e = 0; e < size; ++e) results.value[e] = result(gw.value[e], x.value[e]);
            return piece_of<T>(results);
          });
          stream.with_edge(q, stream.tail(),
                           [&](float x, float g) { *stream.edge_in(out) = T(result(g * edge_weight, x)); });
          stream.advance_tail();
          if (q == Shape::chunks - 1) out += at.teams * norm.columns;
        }
        stream.refill(q);
      }
    };
    if constexpr (Shape::kept) {
      for (int i = 0; i <= steps; i += 2) {
        step.template operator()<0>(i);
        if (i < steps) step.template operator()<1>(i + 1);
      }
    } else {
      for (int i = 0; i <= steps; ++i) step.template operator()<0>(i);
    }
  }

  stream.end();
  if (norm.parts != nullptr) {
    float* const part = norm.parts + int64_t{blockIdx.x / at.blocks} * norm.part_pitch;
    const int part_end = min(first + norm.share, norm.part_pitch);  // of the block
    if constexpr (bulk) {
      WarpHalves<Shape, sums_a_row, size>::store(memory, of_parameter, part_end, part, norm.part_stride);
    } else if constexpr (Shape::teams == 1) {
#pragma unroll
      for (int n = 0; n < sums_a_row; ++n) {
        float* const to = part + n * norm.part_stride;
#pragma unroll
        for (int k = 0; k < pieces; ++k) {
          const auto& own = of_parameter[n][k].value;
          if constexpr (edges)
            store_columns(to, column(k), part_end, own);
          else if (column(k) < part_end)
            store_floats<size>(to + column(k), own);
        }
      }
    } else {
      add_teams<Shape, edges>(reinterpret_cast<float*>(memory), at, of_parameter, leads, norm.columns, part,
                              norm.part_pitch, norm.part_stride);
    }
  }
  if (at.blocks > 1) {  // until all have taken the last sums, others write to this block's memory
    cluster_arrive();
    cluster_wait();
  }
#endif
}

// The sum of `values`, which are added two by two, then these sums, and so on: all additions of a step at once.
template <class V, int N>
__device__ __forceinline__ V sum_by_pairs(V (&values)[N]) {
#pragma unroll
  for (int step = 1; step < N; step *= 2) {
#pragma unroll
    for (int i = 0; i + step < N; i += 2 * step) values[i] = values[i] + values[i + step];
  }
  return values[0];
}

// Adds up `count` parts, each of as many numbers as there are columns, from the beginning of a line of memory on.
// Blocks with blockIdx.y = 0 make `first`, those with 1 make `second`.
//
// Its blocks are small, so that there is room for one of them beside a block of the kernel above: set up `early` they
// begin once that one has ended, and the next kernel in the stream may be set up in its turn.
//
// Threads take fours of columns, so many of them a block. What has been added up is needed no more, but L2 would write
// it to memory: if a block has whole lines of the parts, L2 is told to forget them.
inline constexpr int add_parts_block = 128, add_parts_registers = 48, parts_at_once = 5;
template <class T, int fours>
__global__ void __launch_bounds__(add_parts_block, 65536 / (add_parts_registers * add_parts_block))
    add_parts_kernel(const float* parts, int64_t part_pitch, int64_t part_stride, T* first, T* second, int count,
                     int columns, bool early) {
  constexpr int across = 4 * fours, lines = across * int{sizeof(float)} / line_bytes, at_once = parts_at_once;
  constexpr int threads = add_parts_block / fours, warps = add_parts_block / warp_threads;
  static_assert(fours <= warp_threads);
  using Four = Pack<float, 4>;
  alignas(vector_bytes) __shared__ float of_warps[warps][across];
  if (early) let_later_kernels_begin();
  const int id = static_cast<int>(threadIdx.x), thread = id / fours, four = id % fours;
  const int begin_of_block = static_cast<int>(blockIdx.x) * across, column = begin_of_block + four * 4;
  const float* const own = parts + blockIdx.y * part_stride + column;
  wait_for_earlier_kernels();
  CompensatedSum<float> sums[4]{};
  if (column < columns) {
    for (int begin = thread; begin < count; begin += at_once * threads) {
      Four values[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int part = begin + i * threads;
        values[i] = {};
        if (part < count) {
          const float4 read = __ldcg(reinterpret_cast<const float4*>(own + part * part_pitch));
          values[i] = {read.x, read.y, read.z, read.w};
        }
      }
      const Four of_parts = sum_by_pairs(values);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[e].add(of_parts.value[e]);
    }
  }
  Four sum{sums[0].value(), sums[1].value(), sums[2].value(), sums[3].value()};
#pragma unroll
  for (int distance = warp_threads / 2; distance >= fours; distance /= 2) sum = sum + shuffle_xor(sum, distance);
  const int warp = id / warp_threads;
  if (id % warp_threads < fours) store_floats<4>(of_warps[warp] + four * 4, sum.value);
  __syncthreads();
  if (id < across && begin_of_block + id < columns) {
    float of_column = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) of_column += of_warps[w][id];
    (blockIdx.y == 0 ? first : second)[begin_of_block + id] = T(of_column);
  }
#ifdef TRIFOLD_CLUSTERS
  if constexpr (lines > 0) {
    for (int i = id; i < count * lines; i += add_parts_block) {
      const int begin = begin_of_block + i % lines * (across / lines);
      if (begin < columns) forget_line(parts + blockIdx.y * part_stride + i / lines * part_pitch + begin);
    }
  }
#endif
}

}  // namespace trifold
