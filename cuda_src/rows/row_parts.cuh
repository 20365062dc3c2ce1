// The part of a row that a thread of a team (row_teams.cuh) holds, in pieces of 16 bytes.
//
// Thread t of a team of n holds the pieces t, t + n, t + 2n, … of its row, at most V. If all rows begin and end at
// 16-byte boundaries, they consist of whole pieces. Otherwise a row is cut at the 16-byte boundaries of its result. It
// is either ragged: its first and last piece may extend beyond it. Or it consists of whole, inner pieces, and of single
// elements before and after them, its edges, each held by a different thread: then no thread has much more to do than
// the others, which would have to wait for it.
//
//     const RowCut<T, cut> at(place, y + row * columns, columns);
//     RowPart<T, cut, V> part;
//     part.load(x, row, rows, x_stride, at, T(0));                 // 0 stands for elements beyond the row
//     part.become([&](int k, int i) { return 2 * part.piece[k][i]; });
//     part.store(y + row * columns, at);
#pragma once

#include <trifold/packed.cuh>

#include "row_teams.cuh"

namespace trifold {

// `streamed`: ragged, but pieces that are not whole are 0, and their elements are edges (row_stream.cuh).
enum class Cut { whole, ragged, inner, streamed };

// Whether a ragged row's first and last piece may be read as a whole, including what is outside the row in the same 16
// bytes. Harmless on a GPU; the checks on the CPU would report it.
#ifdef TRIFOLD_GPU_ARCH
inline constexpr bool reads_neighbours = true;
#else
inline constexpr bool reads_neighbours = false;
#endif

// The columns of a thread's pieces in a row of `columns` elements.
template <class T, Cut cut>
struct RowCut {
  static constexpr int size = Packed<T>::size;
  int first, step, columns;  // the first piece begins at column `first`, the next one `step` columns after it
  int edge = -1;             // the column of the thread's edge, or -1

  // Pieces that begin at these columns, and an edge.
  __device__ __forceinline__ RowCut(int first, int step, int columns, int edge)
      : first(first), step(step), columns(columns), edge(edge) {}

  // `result` points to the row's result. With edges, the row has more than one piece, and the team, a block or a
  // cluster, more threads than edges; `columns` becomes the end of the last piece.
  __device__ __forceinline__ RowCut(const TeamPlace& at, const T* result, int columns)
      : first(at.thread * size), step(at.threads * size), columns(columns) {
    if (cut == Cut::ragged && columns > 0)
      first -= static_cast<int>(reinterpret_cast<uintptr_t>(result) % vector_bytes / sizeof(T));
    if constexpr (cut == Cut::inner) {
      const int before = elements_to_boundary(result), after = (columns - before) % size;
      first += before;
      this->columns -= after;
      if (at.thread < before + after) edge = at.thread < before ? at.thread : this->columns + at.thread - before;
    }
  }

  __device__ __forceinline__ int column(int k) const { return first + k * step; }
  // Whether any element of piece k is in the row.
  __device__ __forceinline__ bool touches(int k) const { return column(k) < columns; }
  // Whether all elements are.
  __device__ __forceinline__ bool within(int k) const {
    const bool whole_pieces = cut == Cut::whole || cut == Cut::inner;
    return whole_pieces ? touches(k) : column(k) >= 0 && column(k) + size <= columns;
  }
  // Whether piece k can be read as a whole; `last`: the tensor ends with this row.
  __device__ __forceinline__ bool readable(int k, bool last) const {
    return cut != Cut::ragged || (reads_neighbours && !last) ||
           (column(k) + size <= columns && (reads_neighbours || within(k)));
  }
  __device__ __forceinline__ bool has(int k, int i) const {
    const bool whole_pieces = cut == Cut::whole || cut == Cut::inner;
    return whole_pieces ? touches(k) : static_cast<unsigned>(column(k) + i) < static_cast<unsigned>(columns);
  }
  // Whether this column is in one of the thread's V pieces.
  template <int V>
  __device__ __forceinline__ bool mine(int column) const {
    bool found = false;
#pragma unroll
    for (int k = 0; k < V; ++k) found |= static_cast<unsigned>(column - first - k * step) < static_cast<unsigned>(size);
    return found;
  }
  // Whether one of the V pieces extends beyond the row: true for at most two threads.
  template <int V>
  __device__ __forceinline__ bool at_edge() const {
    bool edge = false;
#pragma unroll
    for (int k = 0; k < V; ++k) edge |= touches(k) && !within(k);
    return edge;
  }
  // The number of the row's elements that the warp holds in V pieces per thread, and edges. Called by all 32 lanes.
  template <int V>
  __device__ __forceinline__ int of_warp() const {
    const int begin = first - static_cast<int>(threadIdx.x) % warp_threads * size;
    int count = 0;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const int from = begin + k * step, to = from + warp_threads * size;
      const int inside = (to < columns ? to : columns) - (from > 0 ? from : 0);
      count += inside > 0 ? inside : 0;
    }
    if constexpr (cut == Cut::inner) count += __popc(__ballot_sync(0xffffffffu, edge >= 0));
    return count;
  }
};

// The part of a row that a thread holds: V pieces.
template <class T, Cut cut, int V>
struct RowPart {
  using Place = RowCut<T, cut>;
  static constexpr int size = Packed<T>::size;
  Packed<T> piece[V];
  T edge;  // the thread's edge, in a row that has edges; or the value that replaces elements beyond the row

  // Loads row `row` of `rows`, which start `stride` elements apart. Elements beyond the row become `otherwise`.
  __device__ __forceinline__ void load(const T* first_row, int64_t row, int64_t rows, int64_t stride, const Place& at,
                                       T otherwise) {
    const T* const own = first_row + row * stride;
    load_from(own, row + 1 >= rows || stride < size, at, otherwise);
    if constexpr (cut == Cut::inner) edge = at.edge >= 0 ? own[at.edge] : otherwise;
  }

  __device__ __forceinline__ void store(T* row, const Place& at) const {
    T* const own = row + at.first;
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (at.within(k)) write(own + k * at.step, piece[k]);
    if constexpr (cut == Cut::inner)
      if (at.edge >= 0) row[at.edge] = edge;
    store_ends(row, at);
  }
  // Stores the elements within the row, of pieces that extend beyond it.
  __device__ __forceinline__ void store_ends(T* row, const Place& at) const {
    if (cut == Cut::ragged && at.template at_edge<V>()) {
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (!at.within(k))
#pragma unroll
          for (int i = 0; i < size; ++i)
            if (at.has(k, i)) row[at.column(k) + i] = piece[k].get(i);
    }
  }

  // Calls f(element, k, i) for element i of piece k, also for those beyond the row.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
#pragma unroll
    for (int k = 0; k < V; ++k)
#pragma unroll
      for (int i = 0; i < size; ++i) f(piece[k][i], k, i);
  }

  // Each element becomes f(k, i), rounded.
  template <class F>
  __device__ __forceinline__ void become(F f) {
#pragma unroll
    for (int k = 0; k < V; ++k) piece[k] = pack<T>([&](int i) { return f(k, i); });
  }

  // Elements beyond the row become `otherwise`.
  __device__ __forceinline__ void mend(const Place& at, T otherwise) {
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (!at.within(k))
#pragma unroll
        for (int i = 0; i < size; ++i)
          if (!at.has(k, i)) piece[k].set(i, otherwise);
  }

  __device__ __forceinline__ void stay() {
#pragma unroll
    for (Packed<T>& each : piece) each.stay();
  }

  // Loads the elements of piece k from an array that all rows share; null: each is `otherwise`.
  static __device__ __forceinline__ Packed<T> shared(const T* of_columns, int k, const Place& at, T otherwise) {
    Packed<T> all = Packed<T>::all(otherwise);
    if (of_columns == nullptr) return all;
    const T* const from = of_columns + at.column(k);
    if constexpr (cut == Cut::whole) {
      if (at.touches(k)) all = read(from);
    } else if (cut == Cut::inner && reads_neighbours) {
      if (at.touches(k)) all = elements_to_boundary(from) == 0 ? read(from) : read_across(from);
    } else if (at.column(k) >= size && at.column(k) + 2 * size <= at.columns) {
      all = read_across(from);
    } else {
#pragma unroll
      for (int i = 0; i < size; ++i)
        if (at.has(k, i)) all.set(i, from[i]);
    }
    return all;
  }

 private:
  // `last`: memory after the row's end, in the same 16 bytes, may be outside the tensor.
  __device__ __forceinline__ void load_from(const T* row, bool last, const Place& at, T otherwise) {
    const T* const own = row + at.first;
    const bool aligned = cut == Cut::whole || elements_to_boundary(own) == 0;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      piece[k] = Packed<T>::all(otherwise);
      if (aligned && at.touches(k) && at.readable(k, last)) piece[k] = read_once(own + k * at.step);
    }
    if constexpr (cut == Cut::inner) {
      if (!aligned)
#pragma unroll
        for (int k = 0; k < V; ++k)
          if (at.touches(k))
#pragma unroll
            for (int i = 0; i < size; ++i) piece[k].set(i, own[k * at.step + i]);
    } else if (cut == Cut::ragged && (!aligned || at.template at_edge<V>())) {
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (!aligned || !at.readable(k, last))
#pragma unroll
          for (int i = 0; i < size; ++i)
            if (at.has(k, i)) piece[k].set(i, row[at.column(k) + i]);
      mend(at, otherwise);
    }
  }
};

// A thread's columns of an array that all rows share: `held` in registers from the start, or read at each use.
template <class T, Cut cut, int V, bool held>
class SharedByRows {
 public:
  __device__ __forceinline__ SharedByRows(const T* of_columns, const RowCut<T, cut>& at, T otherwise)
      : of_columns_(of_columns), otherwise_(otherwise) {
    if constexpr (held) {
#pragma unroll
      for (int k = 0; k < V; ++k) pieces_[k] = RowPart<T, cut, V>::shared(of_columns, k, at, otherwise);
    }
  }
  __device__ __forceinline__ Packed<T> piece(int k, const RowCut<T, cut>& at) const {
    if constexpr (held) {
      Packed<T> own = pieces_[k];
      own.stay();
      return own;
    }
    return RowPart<T, cut, V>::shared(of_columns_, k, at, otherwise_);
  }
  __device__ __forceinline__ void wait() const {}
  __device__ __forceinline__ float number(int column) const {
    return float(of_columns_ == nullptr ? otherwise_ : of_columns_[column]);
  }

 private:
  const T* of_columns_;
  T otherwise_;
  Packed<T> pieces_[held ? V : 1];
};

}  // namespace trifold
