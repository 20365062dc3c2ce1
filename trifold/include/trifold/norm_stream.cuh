// Rows of a norm that stream through shared memory, for teams that take many rows, one after the other (sm_90 on).
//
// Each thread copies and reads its own pieces of a row. Copies run some rows ahead, and what the warps tell each other
// about a row is taken one row later (team_mail.cuh). All rows of a team begin equally far behind a boundary in memory,
// also where they are ragged: a thread has the same columns of each, whose parameters stay in its registers.
#pragma once

#include <trifold/norm_rows.cuh>
#include <trifold/team_mail.cuh>

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

// The piece of a ragged row that sticks out of it: at the row's front or at its back. It is kept apart, in shared
// memory, by the thread that has it.
template <class T>
struct EdgePiece {
  const Packed<T>* place;  // null: the thread has none
  int column, columns;

  __device__ __forceinline__ bool has(int i) const {
    return static_cast<unsigned>(column + i) < static_cast<unsigned>(columns);
  }
  template <class F>
  __device__ __forceinline__ void each(F f) const {
    if (place == nullptr) return;
    const Packed<T> piece = *place;
#pragma unroll
    for (int i = 0; i < Packed<T>::size; ++i)
      if (has(i)) f(piece[i]);
  }
};

// A number for each column of a thread, of which `edge` has those of the piece that sticks out.
template <class T, Cut cut, int V>
class ColumnNumbers {
 public:
  // null: each is `otherwise`.
  __device__ __forceinline__ ColumnNumbers(const T* of_columns, const RowCut<T, cut>& at, T otherwise,
                                           const EdgePiece<T>& row, Packed<T>* edge)
      : edge_(edge) {
#pragma unroll
    for (int k = 0; k < V; ++k) pieces_[k] = RowPart<T, cut, V>::shared(of_columns, k, at, otherwise);
    if (cut == Cut::whole || row.place == nullptr) return;
    *edge = Packed<T>::all(otherwise);
#pragma unroll
    for (int i = 0; i < Packed<T>::size; ++i)
      if (of_columns != nullptr && row.has(i)) edge->set(i, of_columns[row.column + i]);
  }
  __device__ __forceinline__ Packed<T> piece(int k) const {
    Packed<T> own = pieces_[k];
    own.stay();
    return own;
  }
  __device__ __forceinline__ const Packed<T>& edge() const { return *edge_; }

 private:
  Packed<T> pieces_[V], *edge_;
};

// One matrix, whose rows the teams of a grid take in turns. Rows of x begin x_stride apart, those of y follow one
// another; both begin equally far behind a 16-byte boundary, and those of y of a team equally far behind one of
// `boundary` bytes, where they are cut: where a warp's pieces end in the middle of a sector of memory, two write it.
template <class T, Cut cut, class Choice, class Post>
class NormStream {
  static constexpr int V = Choice::pieces, slots = Choice::slots, size = Packed<T>::size, parameters = 2;

 public:
  static constexpr int most_warps = Choice::threads / warp_threads * most_blocks_a_cluster;  // of a team
  using Part = RowPart<T, cut, V>;
  using At = RowCut<T, cut>;

  __device__ __forceinline__ NormStream(const T* x, int64_t x_stride, T* y, int64_t rows, int columns, int boundary)
      : mail_(mail_memory()),
        first_row_(blockIdx.x / cluster_blocks()),
        step_(static_cast<int>(gridDim.x / cluster_blocks())),
        at_(place(), y + first_row_ * columns, columns),
        own_(dynamic_shared<Packed<T>>() + place().thread % (V * static_cast<int>(blockDim.x))) {
    const int64_t left = rows - first_row_;
    left_ = count_ = left > 0 ? static_cast<int>((left + step_ - 1) / step_) : 0;
    const T* const row = y + first_row_ * columns;
    if constexpr (cut == Cut::ragged) {
      const auto behind = static_cast<int>(reinterpret_cast<uintptr_t>(row) % static_cast<unsigned>(boundary));
      at_.first -= behind / vector_bytes * size;
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (at_.touches(k) && !at_.within(k) && at_.column(k) > -size) edge_ = k;
    }
    from_ = x + first_row_ * x_stride + at_.first;
    to_ = y + first_row_ * columns + at_.first;
    x_jump_ = step_ * x_stride;
    y_jump_ = static_cast<int64_t>(step_) * columns;
    // Pieces that are in no row, or not as a whole, are never copied there.
#pragma unroll
    for (int k = 0; k < slots * V; ++k)
      if (!at_.within(k % V)) slot(k / V)[k % V * warp_threads] = Packed<T>::all(T(0.0f));
    cluster_arrive_with_mailboxes();
    wait_for_earlier_kernels();
    let_later_kernels_begin();
#pragma unroll
    for (int n = 0; n < slots - 1; ++n) fetch(n);
    cluster_wait();
  }

  // The numbers of the thread's columns: those that are asked for first, 0, and next, 1.
  __device__ __forceinline__ ColumnNumbers<T, cut, V> numbers(const T* of_columns, T otherwise, int which) const {
    return {of_columns, at_, otherwise, edge_in(0), edge_place(slots + which)};
  }

  // A round: row n is at the head; the row before it, which was there in the round before, at the tail.
  __device__ __forceinline__ bool more() const { return n_ <= count_; }
  __device__ __forceinline__ bool has_head() const { return n_ < count_; }
  __device__ __forceinline__ bool has_tail() const { return n_ > 0; }
  __device__ __forceinline__ int64_t tail_row() const { return first_row_ + static_cast<int64_t>(n_ - 1) * step_; }
  __device__ __forceinline__ bool first_thread() const { return cluster_rank() == 0 && threadIdx.x == 0; }

  __device__ __forceinline__ const At& at() const { return at_; }
  // What the thread holds of the row at the head, 0 where a piece is not in the row as a whole; and what sticks out.
  __device__ __forceinline__ Part head() const {
    wait_for_copies<slots - 2>();
    Part part;
#pragma unroll
    for (int k = 0; k < V; ++k) part.piece[k] = slot(head_)[k * warp_threads];
    return part;
  }
  __device__ __forceinline__ EdgePiece<T> head_edge() const { return edge_in(head_); }

  // Tells the team what the thread's warp has of the row at the head; and what its warps had of that at the tail.
  __device__ __forceinline__ void give(const Post& own) { mail_.give(own, n_); }
  __device__ __forceinline__ Posts<Post> take() { return mail_.take(n_ - 1); }

  // Writes the row at the tail, whose elements become make(element, number...).
  template <class Make, class... Numbers>
  __device__ __forceinline__ void write_tail(Make make, const Numbers&... numbers) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Packed<T> result = made<T>(slot(tail_)[k * warp_threads], make, numbers.piece(k)...);
      if (at_.within(k)) write(to_ + k * warp_threads * size, result);
    }
    if (const EdgePiece<T> edge = edge_in(tail_); edge.place != nullptr) {
      const Packed<T> result = made<T>(*edge.place, make, numbers.edge()...);
#pragma unroll
      for (int i = 0; i < size; ++i)
        if (edge.has(i)) to_[edge.column - at_.first + i] = result.get(i);
    }
    to_ += y_jump_;
  }

  // Ends the round. The tail's memory is that of another row.
  __device__ __forceinline__ void next() {
    fetch(tail_);
    tail_ = head_;
    head_ = head_ == slots - 1 ? 0 : head_ + 1;
    ++n_;
  }

 private:
  TeamMail<Post, Choice::threads> mail_;
  int64_t first_row_;
  int step_;
  At at_;
  Packed<T>* own_;
  int count_, left_, n_ = 0, head_ = 0, tail_ = slots - 1;
  int edge_ = -1;  // the piece that sticks out
  const T* from_;
  T* to_;
  int64_t x_jump_, y_jump_;

  static __device__ __forceinline__ typename TeamMail<Post, Choice::threads>::Memory& mail_memory() {
    __shared__ typename TeamMail<Post, Choice::threads>::Memory memory;
    return memory;
  }

  // The pieces of a warp follow one another.
  static __device__ __forceinline__ TeamPlace place() {
    const int lane = static_cast<int>(threadIdx.x) % warp_threads;
    const int before = static_cast<int>(cluster_rank() * blockDim.x + threadIdx.x) - lane;
    return {0, before * V + lane, warp_threads};
  }

  __device__ __forceinline__ Packed<T>* slot(int number) const {
    return own_ + number * V * static_cast<int>(blockDim.x);
  }

  // Where a slot has, or beyond them a parameter, what sticks out of a row: for the front, or for the back.
  __device__ __forceinline__ Packed<T>* edge_place(int slot) const {
    __shared__ Packed<T> places[slots + parameters][2];
    return &places[slot][at_.column(0) < 0 && edge_ == 0 ? 0 : 1];
  }
  __device__ __forceinline__ EdgePiece<T> edge_in(int slot) const {
    if (cut == Cut::whole || edge_ < 0) return {nullptr, 0, 0};
    return {edge_place(slot), at_.column(edge_), at_.columns};
  }

  __device__ __forceinline__ void fetch(int number) {
    if (left_ > 0) {
      const unsigned to = shared_address(slot(number));
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (at_.within(k))
          copy_async(to + k * warp_threads * vector_bytes, from_ + k * warp_threads * size, vector_bytes);
      if (const EdgePiece<T> edge = edge_in(number); edge.place != nullptr) {
        const int left = (edge.columns - edge.column) * static_cast<int>(sizeof(T));
        copy_async(shared_address(edge.place), from_ + (edge.column - at_.first),
                   left < vector_bytes ? left : vector_bytes);
      }
      from_ += x_jump_;
      --left_;
    }
    commit_copies();
  }
};

}  // namespace trifold

#endif
