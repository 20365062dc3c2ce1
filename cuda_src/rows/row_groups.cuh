// Short rows of the forward norms, several at once: a block processes a group of rows, and a thread has the same
// columns of each. It therefore holds weight and bias once for all of them, their sums are computed together, and the
// statistics saved for backward are written next to each other.
//
// All rows begin and end at 16-byte boundaries.
#pragma once

#include "norm_rows.cuh"

namespace trifold {

// How a kernel's blocks hold groups of rows: `rows` in each, with `pieces` pieces of a row in each thread. A block has
// `warps` warps, and registers are limited so that `blocks` blocks fit on a multiprocessor.
template <int pieces_, int rows_, int warps_, int blocks_>
struct GroupChoice {
  static constexpr int pieces = pieces_, rows = rows_, warps = warps_, blocks = blocks_;
  static constexpr int threads = warps * warp_threads;
  static_assert(warp_threads % rows == 0, "lanes are assigned to each row");
};

// The group of rows that a block holds.
template <class T, class Choice>
class RowGroup {
  static constexpr int V = Choice::pieces, R = Choice::rows, size = Packed<T>::size, lanes_a_row = warp_threads / R;

 public:
  // A thread's columns of an array that rows share.
  struct OfColumns {
    Packed<T> piece[V];
  };

  // Loads the block's group of `rows` rows of x, at a distance of `stride` elements.
  __device__ __forceinline__ RowGroup(const T* x, int64_t stride, int64_t rows, int columns)
      : first_(blockIdx.x * int64_t{R}),
        count_(static_cast<int>(rows - first_ < R ? rows - first_ : R)),
        at_({first_, static_cast<int>(threadIdx.x), Choice::threads}, x, columns) {
    const T* const from = x + first_ * stride + at_.first;
    if (count_ == R)
      load<true>(from, stride);
    else
      load<false>(from, stride);
  }

  // Null: each number is `otherwise`.
  __device__ __forceinline__ OfColumns of_columns(const T* numbers, T otherwise) const {
    OfColumns own;
#pragma unroll
    for (int k = 0; k < V; ++k) own.piece[k] = RowPart<T, Cut::whole, V>::shared(numbers, k, at_, otherwise);
    return own;
  }

  // The moments of each row, in the lanes assigned to it.
  __device__ __forceinline__ Moments moments(const Count& columns) {
    float values[R];
#pragma unroll
    for (int r = 0; r < R; ++r) values[r] = thread_sum(r, [](float v, int) { return v; });
    const float mean = sums<0>(values) / columns;
    stay();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float mean_of_row = of_row(mean, r);
      values[r] = thread_sum(r, [&](float v, int k) {
        const float difference = v - (at_.touches(k) ? mean_of_row : 0.0f);
        return difference * difference;
      });
    }
    stay();
    return {mean, sums<1>(values)};
  }
  __device__ __forceinline__ float sum_of_squares() {
    float values[R];
#pragma unroll
    for (int r = 0; r < R; ++r) values[r] = thread_sum(r, [](float v, int) { return v * v; });
    stay();
    return sums<0>(values);
  }

  // The value in the lanes assigned to row r.
  template <class Value>
  __device__ __forceinline__ Value of_row(Value value, int r) const {
    return of_lane(value, r * lanes_a_row);
  }
  // Calls f(row) in one thread for each row.
  template <class F>
  __device__ __forceinline__ void each_row(F f) const {
    const int thread = static_cast<int>(threadIdx.x), row = thread / lanes_a_row;
    if (thread % lanes_a_row == 0 && row < count_) f(first_ + row);
  }

  // Writes the rows of y: each element of row r becomes make(r)(element, number...), with the numbers of its column.
  template <class Make, class... Numbers>
  __device__ __forceinline__ void write_rows(T* y, Make make, const Numbers&... numbers) const {
    T* out = y + first_ * at_.columns + at_.first;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const auto make_of_row = make(r);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const Packed<T> result = made<T>(piece_[r][k], make_of_row, numbers.piece[k]...);
        if (r < count_ && at_.touches(k)) write(out + k * at_.step, result);
      }
      out += at_.columns;
    }
  }

 private:
  // If not `all` rows exist, missing ones become 0. The address of a row is computed from the previous one: computed
  // separately, they took 100 instructions.
  template <bool all>
  __device__ __forceinline__ void load(const T* from, int64_t stride) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        piece_[r][k] = Packed<T>::all(T(0.0f));
        if ((all || r < count_) && at_.touches(k)) piece_[r][k] = read_once(from + k * at_.step);
      }
      from += stride;
    }
  }

  __device__ __forceinline__ void stay() {
#pragma unroll
    for (auto& row : piece_)
#pragma unroll
      for (Packed<T>& each : row) each.stay();
  }

  // Σ term(x, k) over a thread's elements of row r, where k is the index of the piece. Elements beyond the row are 0.
  template <class Term>
  __device__ __forceinline__ float thread_sum(int r, Term term) const {
    FourSums sums;
    if (at_.touches(0))  // as in moments.cuh: without the branch floats would be kept
#pragma unroll
      for (int k = 0; k < V; ++k)
#pragma unroll
        for (int i = 0; i < size; ++i) {
          const float value = term(piece_[r][k][i], k);
          sums.of[i % 4] = k == 0 && i < 4 ? value : sums.of[i % 4] + value;
        }
    return sums.all();
  }

  // The sums over the block's threads, in the lanes assigned to each row. A kernel calls it once per `number`.
  template <int number>
  __device__ __forceinline__ float sums(const float (&values)[R]) const {
    const float own = sums_apart(values);
    if constexpr (Choice::warps == 1) {
      return own;
    } else {
      __shared__ float of_warp[Choice::warps][R];
      const int lane = static_cast<int>(threadIdx.x) % warp_threads, row = lane / lanes_a_row;
      if (lane % lanes_a_row == 0) of_warp[static_cast<int>(threadIdx.x) / warp_threads][row] = own;
      __syncthreads();
      float all = of_warp[0][row];
#pragma unroll
      for (int warp = 1; warp < Choice::warps; ++warp) all += of_warp[warp][row];
      return all;
    }
  }

  const int64_t first_;  // of the rows
  const int count_;      // number of rows that exist
  const RowCut<T, Cut::whole> at_;
  Packed<T> piece_[R][V];
};

}  // namespace trifold
