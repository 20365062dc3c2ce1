// What a thread of a team (row_teams.cuh) holds of a row, in pieces of 16 bytes.
//
// Thread t of a team of n has the pieces t, t + n, t + 2n, … of its row, V at most. Where all rows begin and end at
// 16-byte boundaries, they are cut at their beginning: into whole pieces. Else a row is cut where its result has such
// boundaries, and its first and last piece may stick out of it: it is ragged. Or it is cut there into whole pieces, its
// inner ones, and of the elements before and behind these, its edges, each is one of another thread: then nobody has
// more to do than others, for whom they would wait.
#pragma once

#include <trifold/packed.cuh>
#include <trifold/row_teams.cuh>

namespace trifold {

enum class Cut { whole, ragged, inner };

// Whether a ragged row's first and last piece may be read as a whole: with what is not of the row, but in the same 16
// bytes. No GPU minds; the checks on the CPU would.
#ifdef TRIFOLD_GPU_ARCH
inline constexpr bool reads_neighbours = true;
#else
inline constexpr bool reads_neighbours = false;
#endif

// Where a thread's pieces stand in a row of `columns` elements.
template <class T, Cut cut>
struct RowCut {
  static constexpr int size = Packed<T>::size;
  int first, step, columns;  // the first piece begins at column `first`, the next one `step` columns behind it
  int edge = -1;             // the column of the thread's edge, where there is one

  // `result` is where the row's result goes. With edges it has more than a piece, and the team more threads than edges:
  // it is a block or a cluster, and `columns` becomes where the last piece ends.
  __device__ __forceinline__ RowCut(const TeamPlace& at, const T* result, int columns)
      : first(at.thread * size), step(at.threads * size), columns(columns) {
    if (cut == Cut::ragged && columns > 0)
      first -= static_cast<int>(reinterpret_cast<uintptr_t>(result) % vector_bytes / sizeof(T));
    if constexpr (cut == Cut::inner) {
      const int before = elements_to_boundary(result), behind = (columns - before) % size;
      first += before;
      this->columns -= behind;
      if (at.thread < before + behind) edge = at.thread < before ? at.thread : this->columns + at.thread - before;
    }
  }

  __device__ __forceinline__ int column(int k) const { return first + k * step; }
  // Whether any element of piece k is in the row.
  __device__ __forceinline__ bool touches(int k) const { return column(k) < columns; }
  // Whether all are.
  __device__ __forceinline__ bool within(int k) const {
    return cut != Cut::ragged ? touches(k) : column(k) >= 0 && column(k) + size <= columns;
  }
  // Whether piece k can be read as a whole, of a row behind whose end the tensor goes on, or not: `last`.
  __device__ __forceinline__ bool readable(int k, bool last) const {
    return cut != Cut::ragged || (reads_neighbours && !last) ||
           (column(k) + size <= columns && (reads_neighbours || within(k)));
  }
  __device__ __forceinline__ bool has(int k, int i) const {
    return cut != Cut::ragged ? touches(k) : static_cast<unsigned>(column(k) + i) < static_cast<unsigned>(columns);
  }
  // Whether this column is in one of V pieces.
  template <int V>
  __device__ __forceinline__ bool mine(int column) const {
    bool found = false;
#pragma unroll
    for (int k = 0; k < V; ++k) found |= static_cast<unsigned>(column - first - k * step) < static_cast<unsigned>(size);
    return found;
  }
  // Whether one of V pieces sticks out of the row: that of two threads.
  template <int V>
  __device__ __forceinline__ bool at_edge() const {
    bool edge = false;
#pragma unroll
    for (int k = 0; k < V; ++k) edge |= touches(k) && !within(k);
    return edge;
  }
  // How many elements of the row the calling thread's warp has in V pieces a thread, and edges. All 32 lanes call it.
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

// What a thread holds of a row, V pieces of it.
template <class T, Cut cut, int V>
struct RowPart {
  using Place = RowCut<T, cut>;
  static constexpr int size = Packed<T>::size;
  Packed<T> piece[V];
  T edge;  // of a row with edges: the thread's, or what stands for an element beyond the row

  // Row number `row` of `rows`, which begin `stride` elements apart. Elements beyond the row become `otherwise`.
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
  // Of pieces that stick out of the row, what is in it.
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

  // f(element, k, i) for element i of piece k, also those beyond the row.
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

  // Of what all rows share, the elements of piece k; null: each is `otherwise`.
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
  // `last`: what is behind the row's end in the same 16 bytes need not be of the tensor.
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

// What all rows share, of a thread's columns: `held` in registers from the beginning, or read where it is used.
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
