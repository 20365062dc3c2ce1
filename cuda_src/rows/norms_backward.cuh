// The backward pass of a norm in one pass over its inputs: each row is read once, its terms of the gradients of weight
// and bias are added to sums in the registers of its team's threads, and grad_x is written once.
#pragma once

#include <trifold/sums.cuh>

#include "row_stream.cuh"

namespace trifold {

// The arguments of the first kernel.
template <class T>
struct NormBackward {
  const T* grad;
  int64_t grad_stride;
  const T* x;
  int64_t x_stride;
  const T* weight;    // per row; null unless centred
  const float* mean;  // of each row; null unless centred
  const float* rstd;
  T* grad_x;
  // A row of sums per cluster, one sum per column. Null: not wanted. Each row begins at a line of memory, and its last
  // line is padded with numbers that are never read: a line that is written in part is read more slowly.
  float* parts;
  int part_pitch;       // distance between the sums of consecutive clusters
  int64_t part_stride;  // distance between the parts of grad_weight and of grad_bias
  int64_t rows;
  int columns;
  int share;     // columns per block of a cluster, in whole pieces
  int boundary;  // with edges: all rows of a team have the same offset from multiples of this many elements
  bool early;    // whether the next kernel, which adds the parts, is set up while this one runs
  int ahead;     // if a team is a warp: rows to prefetch to L2 before earlier kernels have ended
};

// Whether a thread's registers hold the sums, the weights as floats, the numbers of two rows if they are kept, and the
// rest.
template <class T, class Shape, bool centred>
inline constexpr bool floats_fit =
    ((centred ? 2 : 1) + 1 + (Shape::kept ? 2 : 0)) * Shape::pieces * Vector<T>::size + (Shape::kept ? 40 : 80) <=
    65536 / (Shape::block * Shape::resident);

#ifdef TRIFOLD_CLUSTERS

// The mean and rstd of a team's rows, one after the other.
//
// `gathered`: a warp's lanes load these numbers for many rows at once, and as many more are in flight. Row by row,
// these loads delay short rows: by 12% for layer_norm at 512 columns. Otherwise those of one row are in flight.
//
// `hides`: if the compiler is short of registers and can prove that all threads read the same number of a row, it
// copies it to a uniform register at once, and each row waits for it (a seventh of the time, for half types with
// edges). So the first row includes a term that is 0, which it cannot prove: the XOR of two neighbouring lanes'
// indices, minus 1.
template <class T, bool centred, bool gathered, bool hides>
class StreamStatistics {
  static constexpr int kinds = centred ? 2 : 1, rows_held = warp_threads / kinds;

 public:
  float mean = 0, rstd = 0;

  __device__ __forceinline__ StreamStatistics(const NormBackward<T>& norm, const StreamPlace& at, int count)
      : lane_(at.thread % warp_threads), count_(count), teams_(static_cast<unsigned>(at.teams)) {
    int64_t first_row = at.first_row;
    if constexpr (hides) first_row += (at.thread ^ shuffle_xor(at.thread, 1)) - 1;
    mean_ = norm.mean + first_row;
    rstd_ = norm.rstd + first_row;
    if constexpr (gathered)
      next_rstd_ = gather(0);
    else
      load(0);
  }

  // Advances to row i; called for each row in order.
  __device__ __forceinline__ void advance(int i) {
    if constexpr (gathered) {
      const int place = static_cast<int>(static_cast<unsigned>(i) % rows_held);
      if (place == 0) {
        held_ = next_rstd_;
        next_rstd_ = gather(i + rows_held);
      }
      if constexpr (centred) mean = of_lane(held_, kinds * place);
      rstd = of_lane(held_, kinds * place + kinds - 1);
    } else {
      mean = next_mean_;
      rstd = next_rstd_;
      next_mean_ = next_rstd_ = 0;
      load(i + 1);
    }
  }

 private:
  const float *mean_, *rstd_;
  int lane_, count_;
  unsigned teams_;
  float held_ = 0, next_mean_ = 0, next_rstd_ = 0;

  __device__ __forceinline__ void load(int row) {
    if (row >= count_) return;
    if constexpr (centred) next_mean_ = mean_[static_cast<unsigned>(row) * teams_];
    next_rstd_ = rstd_[static_cast<unsigned>(row) * teams_];
  }
  // The number that this lane loads, for rows from `row` on.
  __device__ __forceinline__ float gather(int row) const {
    row += lane_ / kinds;
    const float* const of_row = centred && lane_ % kinds == 0 ? mean_ : rstd_;
    return row < count_ ? of_row[static_cast<unsigned>(row) * teams_] : 0;
  }
};

// A team that processes its rows: layer_norm if `centred`, otherwise rms_norm. With `edges` rows begin anywhere
// (row_stream.cuh), and those of a team have the same offset from a boundary, in x, in grad and in grad_x. If the shape
// is `kept`, g·weight of a row stays in registers until its sums are known; otherwise the row is read again.
template <class T, class Shape, bool centred, bool edges>
class BackwardTeam {
  static constexpr int size = Vector<T>::size, pieces = Shape::pieces, N = centred ? 2 : 1;
  static constexpr bool alone = Shape::warps == 1, half = sizeof(T) < sizeof(float), kept = Shape::kept;
  using Floats = Pack<float, size>;
  using Sums = Pack<float, N>;
  using Mail = std::conditional_t<alone, NoMail, RowMail<Shape, Sums>>;
  using Ring = RowStream<T, Shape, edges>;

 public:
  struct Memory {
    typename Mail::Memory mail[Shape::teams];
    int leads[Shape::teams];
  };

  __device__ __forceinline__ BackwardTeam(const NormBackward<T>& norm, unsigned char* ring, Memory& memory)
      : norm_(norm),
        at_(stream_place<Shape>()),
        count_(at_.rows_from(at_.first_row, norm.rows)),
        lead_(edges ? static_cast<int>(at_.first_row * norm.columns % norm.boundary) : 0),
        first_(at_.rank * norm.share - lead_),
        x_(norm.x + at_.first_row * norm.x_stride + first_),
        grad_(norm.grad + at_.first_row * norm.grad_stride + first_),
        out_(norm.grad_x + at_.first_row * norm.columns + column(0)),
        mail_(memory.mail, at_),
        stream_(ring, at_, lead_, min(norm.columns - first_, norm.share), {x_, grad_},
                {at_.teams * norm.x_stride, at_.teams * norm.grad_stride}, count_) {
    if (at_.thread == 0) memory.leads[at_.team] = lead_;
    Mailbox::ready();
    cluster_arrive_with_mailboxes();
    if constexpr (alone) prefetch();
    wait_for_earlier_kernels();
    stream_.begin();
    if (norm.early) let_later_kernels_begin();
    cluster_wait();
#pragma unroll
    for (int k = 0; k < pieces; ++k) weight_[k] = weights_at(stream_.has(k), column(k));
    const bool weighted = edges && stream_.edge() >= 0 && norm.weight != nullptr;
    edge_weight_ = weighted ? float(norm.weight[first_ + stream_.edge()]) : 1;
  }

  // grad_x = rstd·(g·weight - mean (g·weight) - x̂·mean(g·weight·x̂)).
  __device__ __forceinline__ void process_rows() {
    StreamStatistics<T, centred, Shape::gathered, (edges && half) || (Shape::chunks > 1)> statistics(norm_, at_,
                                                                                                     count_);
    if constexpr (alone) {
      // The teams of a warp continue together; the first one has the most rows.
      constexpr int others = Shape::teams_a_warp;
      const int64_t first_row = at_.first_row - at_.team % others * (at_.teams / Shape::teams);
      const int steps = others == 1 ? count_ : at_.rows_from(first_row, norm_.rows);
      for (int i = 0; i < steps; ++i) process_at_once(statistics, i);
    } else if constexpr (kept) {
      for (int i = 0; i <= count_; i += 2) {
        process<0>(statistics, i);
        if (i < count_) process<1>(statistics, i + 1);
      }
    } else {
      for (int i = 0; i <= count_; ++i) process<0>(statistics, i);
    }
    stream_.end();
  }

  // Adds the sums of the block's teams for each column, in the shared memory that held their rows.
  __device__ __forceinline__ void store_parts(float* memory, const int* leads) const {
    if (norm_.parts == nullptr) return;
    float* const part = norm_.parts + int64_t{blockIdx.x / at_.blocks} * norm_.part_pitch;
    const bool last = at_.rank == at_.blocks - 1;
    const int end = last ? norm_.part_pitch : min(first_ + norm_.share, norm_.part_pitch);  // of the block's columns
    if constexpr (Shape::teams == 1 && !edges) {
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int k = 0; k < pieces; ++k)
          if (column(k) < end) store_floats(part + n * norm_.part_stride + column(k), of_parameter_[n][k]);
    } else {
      constexpr int pitch = pieces * Shape::threads * size;
      static_assert(Shape::bytes >= N * Shape::teams * pitch * int{sizeof(float)});
      __syncthreads();  // all have read their rows
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int k = 0; k < pieces; ++k)
          store_floats(memory + (n * Shape::teams + at_.team) * pitch + (k * Shape::threads + at_.thread) * size,
                       of_parameter_[n][k]);
      __syncthreads();
      for (int i = max(0, at_.rank * norm_.share - lead_) + static_cast<int>(threadIdx.x); i < end; i += Shape::block) {
        const int column = min(i, norm_.columns - 1) - at_.rank * norm_.share;
#pragma unroll
        for (int n = 0; n < N; ++n) {
          float of_teams[4]{};  // four sums at once
#pragma unroll
          for (int team = 0; team < Shape::teams; ++team)
            of_teams[team % 4] += memory[(n * Shape::teams + team) * pitch + max(0, column + leads[team])];
          part[n * norm_.part_stride + i] = (of_teams[0] + of_teams[1]) + (of_teams[2] + of_teams[3]);
        }
      }
    }
  }

  // Other blocks of the cluster write to this block's memory until all have received the last sums.
  __device__ __forceinline__ void end() const {
    if (at_.blocks == 1) return;
    cluster_arrive();
    cluster_wait();
  }

 private:
  const NormBackward<T>& norm_;
  const StreamPlace at_;
  const int count_, lead_, first_;  // first_: the block's first column, counted from the row's beginning
  const T *const x_, *const grad_;
  T* out_;
  Mail mail_;
  Ring stream_;
  Packed<T> weight_[pieces];
  float edge_weight_;
  Floats of_parameter_[N][pieces]{};  // of weight, and of bias
  Floats kept_[kept ? 2 : 1][pieces];

  __device__ __forceinline__ int column(int piece) const {
    return first_ + (piece * Shape::threads + at_.thread) * size;
  }

  // The weights of a piece that begins at this column, if it is `there`; with edges, those of its columns that exist.
  __device__ __forceinline__ Packed<T> weights_at(bool there, int column) const {
    const T* const weight = norm_.weight;
    if (!edges && there && weight != nullptr) return read(weight + column);
    return pack<T>([&](int e) {
      const int own = column + e;
      return edges && weight != nullptr && own >= 0 && own < norm_.columns ? float(weight[own]) : 1.0f;
    });
  }

  __device__ __forceinline__ void prefetch() const {
    const int i = at_.thread / 2;
    const int bytes = ((norm_.columns - first_) * int{sizeof(T)} + vector_bytes - 1) & -vector_bytes;
    if (i >= norm_.ahead || i >= count_) return;
    const int64_t x_row = i * at_.teams * norm_.x_stride, grad_row = i * at_.teams * norm_.grad_stride;
    prefetch_to_l2(at_.thread % 2 == 0 ? x_ + x_row : grad_ + grad_row, bytes);
  }

  static __device__ __forceinline__ void store_floats(float* to, const Floats& floats) {
#pragma unroll
    for (int e = 0; e < size; e += 4)
      *reinterpret_cast<float4*>(to + e) = {floats.value[e], floats.value[e + 1], floats.value[e + 2],
                                            floats.value[e + 3]};
  }

  // Keeps the compiler from converting the weights to floats once for all rows, if registers cannot hold the floats.
  __device__ __forceinline__ void keep_packed() {
    if constexpr (half && !floats_fit<T, Shape, centred>)
#pragma unroll
      for (Packed<T>& piece : weight_) piece.stay();
  }

  // x̂. For half types, x has so few digits that m·r need not be exact.
  static __device__ __forceinline__ float x_hat_of(float x, float m, float r) {
    return !centred ? x * r : half ? x * r - m * r : (x - m) * r;
  }

  // Adds piece k to the sums of its columns and of its row; x becomes x̂, and g becomes g·weight.
  __device__ __forceinline__ void add(int k, Floats& x, Floats& g, float m, float r, Sums& row) {
    const Floats w = floats_of<T>(weight_[k]);
#pragma unroll
    for (int e = 0; e < size; ++e) {
      float &x_hat = x.value[e], &gw = g.value[e];
      x_hat = x_hat_of(x_hat, m, r);
      of_parameter_[0][k].value[e] += gw * x_hat;
      if constexpr (centred) of_parameter_[1][k].value[e] += gw;
      gw *= w.value[e];
      row.value[0] += gw * x_hat;
      if constexpr (centred) row.value[1] += gw;
    }
  }

  // A warp, or part of one, knows a row's sums early enough to keep the row in registers until then.
  template <class Statistics>
  __device__ __forceinline__ void process_at_once(Statistics& statistics, int i) {
    statistics.advance(i);
    keep_packed();
    const float m = statistics.mean, r = statistics.rstd;
    stream_.wait(0);
    stream_.refill(0);
    Sums row{};
    Floats x[pieces], gw[pieces];
#pragma unroll
    for (int k = 0; k < pieces; ++k) {
      x[k] = floats_of<T>(stream_.head(0, k));
      gw[k] = floats_of<T>(stream_.head(1, k));
      add(k, x[k], gw[k], m, r, row);
    }
    const float inverse = 1.0f / static_cast<float>(norm_.columns);
    const Sums all = lane_sums<Shape::lanes>(row);
    const float factor = -(all.value[0] * inverse) * r, shift = centred ? -(all.value[N - 1] * inverse) * r : 0;
    const auto result = [&](float gw, float x_hat) { return gw * r + (x_hat * factor + shift); };
    stream_.store(i < count_, out_, 0,
                  [&](int, int k) { return pack<T>([&](int e) { return result(gw[k].value[e], x[k].value[e]); }); });
    stream_.with_edge(0, stream_.head(), [&](const Pack<float, 2>& edge) {
      if (i < count_) *stream_.edge_in(out_) = T(result(edge.value[1] * edge_weight_, x_hat_of(edge.value[0], m, r)));
    });
    stream_.advance_head();
    out_ += at_.teams * norm_.columns;
  }

  // Row i is summed up, and row i - 1, whose sums have arrived meanwhile, is read again and written. If g·weight of
  // both is kept, `now` says which of the two buffers is row i's, so that none of it moves.
  template <int now, class Statistics>
  __device__ __forceinline__ void process(Statistics& statistics, int i) {
    const float m_before = statistics.mean, r_before = statistics.rstd;
    statistics.advance(i);
    keep_packed();
    Sums row{};
    float factor = 0, shift = 0;
#pragma unroll
    for (int q = 0; q < Shape::chunks; ++q) {
      if (i < count_) {
        sum_up<now>(q, statistics.mean, statistics.rstd, row);
        if (q == Shape::chunks - 1) mail_.send(lane_sums<warp_threads>(row), i);
      }
      if (i > 0) {
        if (q == 0) {
          const float inverse = 1.0f / static_cast<float>(norm_.columns);
          const Sums all = sum_of(mail_.receive(i - 1));
          factor = -(all.value[0] * inverse) * r_before * r_before;
          if constexpr (centred) shift = -(all.value[1] * inverse) * r_before - (half ? m_before * factor : 0.0f);
        }
        write<1 - now>(q, m_before, r_before, factor, shift);
      }
      stream_.refill(q);
    }
  }

  template <int now>
  __device__ __forceinline__ void sum_up(int q, float m, float r, Sums& row) {
    stream_.wait(q);
#pragma unroll
    for (int j = 0; j < Shape::chunk; ++j) {
      const int k = q * Shape::chunk + j;
      if (edges && k == pieces - 1 && !stream_.has(k)) break;  // most rows end before the last piece
      Floats x = floats_of<T>(stream_.head(0, j)), g = floats_of<T>(stream_.head(1, j));
      add(k, x, g, m, r, row);
      if constexpr (kept) kept_[now][k] = g;
    }
    stream_.advance_head();
  }

  template <int place>
  __device__ __forceinline__ void write(int q, float m, float r, float factor, float shift) {
    const auto result = [&](float gw, float x) { return gw * r + ((centred && !half ? x - m : x) * factor + shift); };
    stream_.store(true, out_, q, [&](int j, int k) {
      const Floats x = floats_of<T>(stream_.tail(0, j));
      Floats gw;
      if constexpr (kept) {
        gw = kept_[place][k];
      } else {
        const Floats w = floats_of<T>(weight_[k]);
        gw = floats_of<T>(stream_.tail(1, j));
#pragma unroll
        for (int e = 0; e < size; ++e) gw.value[e] *= w.value[e];
      }
      return pack<T>([&](int e) { return result(gw.value[e], x.value[e]); });
    });
    stream_.with_edge(q, stream_.tail(), [&](const Pack<float, 2>& edge) {
      *stream_.edge_in(out_) = T(result(edge.value[1] * edge_weight_, edge.value[0]));
    });
    stream_.advance_tail();
    if (q == Shape::chunks - 1) out_ += at_.teams * norm_.columns;
  }
};

#endif

template <class T, class Shape, bool centred, bool edges>
__global__ void __launch_bounds__(Shape::block, Shape::resident) norm_backward_stream_kernel(NormBackward<T> norm) {
#ifdef TRIFOLD_CLUSTERS
  using Team = BackwardTeam<T, Shape, centred, edges>;
  __shared__ typename Team::Memory memory;
  unsigned char* const ring = dynamic_shared_lines<unsigned char>();
  Team team(norm, ring, memory);
  team.process_rows();
  team.store_parts(reinterpret_cast<float*>(ring), memory.leads);
  team.end();
#endif
}

// The sum of `values` as a binary tree: the additions of one level are independent.
template <class V, int N>
__device__ __forceinline__ V sum_by_pairs(V (&values)[N]) {
#pragma unroll
  for (int step = 1; step < N; step *= 2) {
#pragma unroll
    for (int i = 0; i + step < N; i += 2 * step) values[i] = values[i] + values[i + step];
  }
  return values[0];
}

// Adds `count` parts, each with as many numbers as there are columns, four columns per thread. Blocks with blockIdx.y =
// 0 write `first`, those with 1 `second`.
//
// Its blocks are small, so that one fits on a multiprocessor with a block of the kernel above: if set up `early`, they
// begin as soon as that kernel has ended, and the next kernel in the stream may be set up in turn.
inline constexpr int add_parts_block = 128, add_parts_registers = 48, add_parts_columns = 16;
template <class T>
__global__ void __launch_bounds__(add_parts_block, 65536 / (add_parts_registers * add_parts_block))
    add_parts_kernel(const float* parts, int64_t part_pitch, int64_t part_stride, T* first, T* second, int count,
                     int columns, bool early) {
  constexpr int fours = add_parts_columns / 4, threads = add_parts_block / fours, at_once = 5;
  constexpr int warps = add_parts_block / warp_threads;
  using Four = Pack<float, 4>;
  alignas(vector_bytes) __shared__ float of_warps[warps][add_parts_columns];
  if (early) let_later_kernels_begin();
  const int id = static_cast<int>(threadIdx.x), thread = id / fours, four = id % fours;
  const int begin_of_block = static_cast<int>(blockIdx.x) * add_parts_columns, column = begin_of_block + four * 4;
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
  if (id % warp_threads < fours)
    *reinterpret_cast<float4*>(of_warps[warp] + four * 4) = {sum.value[0], sum.value[1], sum.value[2], sum.value[3]};
  __syncthreads();
  if (id < add_parts_columns && begin_of_block + id < columns) {
    float of_column = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) of_column += of_warps[w][id];
    (blockIdx.y == 0 ? first : second)[begin_of_block + id] = T(of_column);
  }
}

}  // namespace trifold
