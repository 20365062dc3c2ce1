// Ragged rows of half types in the registers of teams, for layer_norm (sm_90 on): tensor cores compute sums, and work
// done once per row is distributed over lanes. In norm_rows.cuh each of these takes a third of all instructions. 7 to
// 17% faster than that, from 5,001 to 20,001 columns on an H200 (benchmarks/notes/norms_forward.md).
#pragma once

#include "column_copies.cuh"
#include "tensor_cores.cuh"

namespace trifold {

// Clusters of two teams with two rows each, which fill at least this percentage of the threads' pieces.
template <int pieces, int blocks, int filled_>
struct TensorPair : NormPairWithEdges<pieces, 128, blocks, most_blocks_a_cluster> {
  static constexpr int filled = filled_;
  static constexpr bool by_tensor = true;
};

#ifdef TRIFOLD_CLUSTERS

// The statistics of a row.
struct RowStatistics {
  float mean, rstd;
};

// Sums over the numbers of a row, or over their differences from one number.
struct alignas(8) SumAndSquares {
  float sum, squares;
};

// A thread's part of the rows of a team of Choice, which have the same inner pieces and edges (row_parts.cuh).
template <class T, class Choice>
class TensorRows {
  static constexpr int V = Choice::pieces, R = Choice::rows, size = Packed<T>::size;
  static constexpr int lanes_a_row = warp_threads / R;  // lanes that compute what is needed once per row
  static constexpr int edges_a_row = 2 * size;          // at most

 public:
  // A warp's message to the other warps of its team.
  using Post = Pack<SumAndSquares, R>;

  // The rows of team number `team`, as in RowsOfTeam.
  __device__ __forceinline__ TensorRows(int64_t team, const T* x, int64_t stride, T* y, int64_t rows, int columns,
                                        int apart)
      : first_(std::min(first_of_team<R>(team, apart), rows - 1)),
        apart_(apart),
        rows_(static_cast<int>(std::min(rows - first_, int64_t{R} * apart))),
        columns_(columns),
        y_(y + first_ * columns),
        at_(in_warps<Choice>(team_place<Team::cluster, Choice::mates>()), y_, columns) {
    load(x + first_ * stride, stride);
    if (may_have_edges()) load_edge(x + first_ * stride, stride);
  }

  __device__ __forceinline__ const RowCut<T, Cut::inner>& at() const { return at_; }

  // The parameter of the column of the thread's edge.
  __device__ __forceinline__ T at_edge(const T* of_columns, T otherwise) const {
    return edge_row_ < 0 || of_columns == nullptr ? otherwise : of_columns[edge_column_];
  }

  // The statistics of each row, in the lanes assigned to it.
  __device__ __forceinline__ RowStatistics statistics(const Count& columns, float eps) const {
    float values[2 * R];
    TensorSums<T> of_rows[R];
#pragma unroll
    for (int k = 0; k < V; ++k)
#pragma unroll
      for (int j = 0; j < R; ++j) of_rows[j].add(piece_[j][k]);
#pragma unroll
    for (int j = 0; j < R; ++j) {
      values[2 * j] = of_rows[j].sum();
      values[2 * j + 1] = of_rows[j].squares();
    }
    add_edges(values, 0.0f);
    SumAndSquares own = team_sums<0>(values);
    float mean = own.sum / columns, squares = fmaf(-own.sum, mean, own.squares);
    // If this cancels more than two bits, or squares overflow, again with differences from the mean. All warps of the
    // team decide the same way; a row's results do not depend on whether another row needs it.
    const bool close = squares * 4 >= own.squares && own.squares < INFINITY;
    if (!__all_sync(0xffffffffu, close)) {
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const float shift = of_row(mean, j);
        ShiftedSums all{};
#pragma unroll
        for (int k = 0; k < V; ++k)
          if (at_.touches(k))
#pragma unroll
            for (int i = 0; i < size; ++i) all.add(piece_[j][k][i] - shift, i);
        values[2 * j] = all.sums.all();
        values[2 * j + 1] = all.squares.all();
      }
      add_edges(values, of_edge_row(mean));
      own = team_sums<1>(values);
      const Moments moved = shifted_moments(mean, own.sum, own.squares, columns);
      mean = close ? mean : moved.mean;
      squares = close ? squares : moved.squares;
    }
    return {mean, close_rsqrt<T>(squares / columns + eps)};
  }

  // Writes the rows of y. An element x becomes make(x, weight, bias) with its row's make, held by the lanes assigned to
  // the row; `edge_weight` and `edge_bias` are those of the thread's edge.
  template <class Make, class Numbers, class OtherNumbers>
  __device__ __forceinline__ void write_rows(const Make& make, const Numbers& weights, const OtherNumbers& biases,
                                             T edge_weight, T edge_bias) const {
    weights.wait();
    biases.wait();
    const auto all_weights = weights.pieces();
    const auto all_biases = biases.pieces();
    Make of[R];
    T* to[R];
#pragma unroll
    for (int j = 0; j < R; ++j) {
      of[j] = of_row(make, j);
      to[j] = j == 0 ? y_ + at_.first : to[j - 1] + step(j) * columns_;
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Packed<T> weight = all_weights[k], bias = all_biases[k];
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const Packed<T> result = made<T>(piece_[j][k], of[j], weight, bias);
        if (at_.within(k)) write(to[j] + k * at_.step, result);  // trifold: allow race of writes, all the same
      }
    }
    const Make of_edge = of_edge_row(make);
    if (edge_row_ >= 0) {
      const T result(of_edge(float(edge_), float(edge_weight), float(edge_bias)));
      y_[row_offset(edge_row_) * columns_ + edge_column_] = result;  // trifold: allow race of writes, all the same
    }
  }

  // Calls f(row) for each row, in the first of the lanes assigned to it.
  template <class F>
  __device__ __forceinline__ void each_row(F f) const {
    const int thread = static_cast<int>(threadIdx.x);
    if (in_first_block() && thread < warp_threads && thread % lanes_a_row == 0)
      f(first_ + row_offset(thread / lanes_a_row));
  }

 private:
  // The distance, in rows, from row j - 1 to row j, and from the first one. A row that does not exist is the last one.
  __device__ __forceinline__ int64_t step(int j) const { return j * apart_ < rows_ ? apart_ : 0; }
  __device__ __forceinline__ int64_t row_offset(int j) const { return std::min(j * apart_, (rows_ - 1) & -apart_); }

  // The value in the lanes assigned to row j, or to the row of the thread's edge. All 32 lanes call it.
  template <class Value>
  static __device__ __forceinline__ Value of_row(Value value, int j) {
    return of_lane(value, j * lanes_a_row);
  }
  template <class Value>
  __device__ __forceinline__ Value of_edge_row(Value value) const {
    return of_lane(value, edge_row_ < 0 ? 0 : edge_row_ * lanes_a_row);
  }

  // Numbers beyond a row become 0.
  __device__ __forceinline__ void load(const T* first, int64_t stride) {
    const T* from[R];
    bool aligned = true;
#pragma unroll
    for (int j = 0; j < R; ++j) {
      from[j] = j == 0 ? first + at_.first : from[j - 1] + step(j) * stride;
      aligned = aligned && elements_to_boundary(from[j]) == 0;
    }
    if (aligned && at_.touches(V - 1)) {
      load_pieces(from, true);
      return;
    }
    load_pieces(from, false, aligned);
    if (aligned) return;
#pragma unroll
    for (int j = 0; j < R; ++j)
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (at_.touches(k))
#pragma unroll
          for (int i = 0; i < size; ++i) piece_[j][k].set(i, from[j][k * at_.step + i]);
  }
  // `all`: the thread has all of its pieces.
  __device__ __forceinline__ void load_pieces(const T* const (&from)[R], bool all, bool readable = true) {
#pragma unroll
    for (int j = 0; j < R; ++j)
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (!all) piece_[j][k] = Packed<T>::all(T(0.0f));
        if (all || (readable && at_.touches(k))) piece_[j][k] = read_once(from[j] + k * at_.step);
      }
  }

  // Each edge of a row is held by one thread of the team's first block.
  static __device__ __forceinline__ bool in_first_block() { return ClusterPlace::get<Choice::mates>().rank == 0; }
  static __device__ __forceinline__ bool may_have_edges() { return threadIdx.x < R * edges_a_row && in_first_block(); }
  __device__ __forceinline__ void load_edge(const T* first, int64_t stride) {
    const int thread = static_cast<int>(threadIdx.x), i = thread % edges_a_row, before = at_.first % size;
    edge_column_ = i < before ? i : at_.columns + i - before;
    if (edge_column_ >= columns_) return;
    edge_row_ = thread / edges_a_row;
    edge_ = first[row_offset(edge_row_) * stride + edge_column_];
  }
  __device__ __forceinline__ void add_edges(float (&values)[2 * R], float shift) const {
    if (!may_have_edges()) return;
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const float own = edge_row_ == j ? float(edge_) - shift : 0.0f;
      values[2 * j] += own;
      values[2 * j + 1] = fmaf(own, own, values[2 * j + 1]);
    }
  }

  // The sums over the team's threads of both values of each row, in the lanes assigned to it. Called once in round 0,
  // and once more in round 1.
  template <int round>
  static __device__ __forceinline__ SumAndSquares team_sums(const float (&values)[2 * R]) {
    constexpr int most_blocks = Choice::most_in_cluster / Choice::mates;
    constexpr int most = Choice::threads / warp_threads * most_blocks;
    static_assert(most_blocks <= lanes_a_row, "a lane of a row sends to each block");
    __shared__ Post of_warp[most];
    const int thread = static_cast<int>(threadIdx.x), warp = thread / warp_threads, lane = thread % warp_threads;
    const int row = lane / lanes_a_row, i = lane % lanes_a_row, warps = static_cast<int>(blockDim.x) / warp_threads;
    const ClusterPlace at = ClusterPlace::get<Choice::mates>();
    Mailbox& mailbox = cluster_mailbox<Post>();
    const float own = sums_apart(values), other = shuffle_xor(own, lanes_a_row / 2);
    const bool upper = i >= lanes_a_row / 2;
    if (round > 0 && thread == 0) mailbox.arrive_and_expect(at.blocks * warps * static_cast<int>(sizeof(Post)));
    if (i < at.blocks) {
      const auto there = [&](const void* here) { return address_in(shared_address(here), at.of(at.mate, i)); };
      send(SumAndSquares{upper ? other : own, upper ? own : other}, there(&of_warp[at.rank * warps + warp].value[row]),
           there(&mailbox));
    }
    mailbox.wait(round);
    SumAndSquares all{};
#pragma unroll
    for (int from = 0; from < most; from += lanes_a_row)
      if (from + i < at.blocks * warps) {
        const SumAndSquares other = of_warp[from + i].value[row];
        all.sum += other.sum;
        all.squares += other.squares;
      }
    return {warp_reduce<lanes_a_row>(all.sum, Sum{}), warp_reduce<lanes_a_row>(all.squares, Sum{})};
  }

  const int64_t first_;  // of the rows
  const int apart_, rows_;
  const int columns_;
  T* const y_;  // the first row of it
  const RowCut<T, Cut::inner> at_;
  Packed<T> piece_[R][V];
  int edge_row_ = -1, edge_column_ = 0;
  T edge_ = T(0.0f);
};

#endif

}  // namespace trifold
