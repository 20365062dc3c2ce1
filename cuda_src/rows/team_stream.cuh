// Rows that stream through shared memory, for teams that process many rows, one after the other (sm_90 on).
//
// Each warp copies its own part of a row, and reads it from there. Copies run some rows ahead, and messages
// between warps about a row are read one row later (team_mail.cuh). They also carry the next row of the team:
// with fixed shares, all teams would wait for the slowest multiprocessor. Rows are claimed as late as possible,
// so that a slow team holds few when the others finish. All rows of a team, even ragged ones, have the same
// offset from a boundary in memory: a thread has the same columns of each, whose parameters stay in its
// registers.
#pragma once

#include "norm_rows.cuh"
#include "team_mail.cuh"

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

// The piece of a ragged row that extends beyond it, at the row's front or at its back. Its thread keeps it separately,
// in shared memory.
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

// A number for each column of a thread; `edge` has those of the piece that extends beyond the row.
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

// One matrix, whose rows the teams of a grid process. Rows of x start x_stride apart, those of y are contiguous; both
// have the same offset from a 16-byte boundary, and a team's rows of y the same from one of `boundary` bytes, where
// they are cut: if a warp's pieces end inside a sector of memory, two warps write it.
template <class T, Cut cut, class Choice, class Post>
class TeamStream {
  static constexpr int V = Choice::pieces, slots = Choice::slots, size = Packed<T>::size, parameters = 2;
  static constexpr int across = warp_threads * size;  // columns of a piece of each lane

 public:
  static constexpr int most_warps = Choice::threads / warp_threads * most_blocks_a_cluster;  // of a team
  using Part = RowPart<T, cut, V>;
  using At = RowCut<T, cut>;

  // `of_columns`: what numbers() will be called with.
  template <class... Numbers>
  __device__ __forceinline__ TeamStream(const T* x, int64_t x_stride, T* y, int columns, T beyond,
                                        const StreamedRows& shares, const Numbers*... of_columns)
      : mail_(mail_memory()),
        shares_(shares),
        at_(place(), y + int64_t{team()} * columns, columns),
        x_(x),
        x_stride_(x_stride),
        y_(y),
        own_(dynamic_shared_lines<Packed<T>>() + place().thread % (V * static_cast<int>(blockDim.x))) {
    row_[0] = shares.rows;
#pragma unroll
    for (int i = 0; i < slots; ++i) row_[i + 1] = team() + i * teams();
    if constexpr (cut == Cut::ragged) {
      const auto behind = static_cast<int>(reinterpret_cast<uintptr_t>(y + int64_t{row_[1]} * columns) %
                                           static_cast<unsigned>(shares.boundary));
      at_.first -= behind / vector_bytes * size;
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (at_.touches(k) && !at_.within(k) && at_.column(k) > -size) edge_ = k;
    }
    // Pieces outside the row, or partly outside, are never copied to these places.
#pragma unroll
    for (int k = 0; k < slots * V; ++k)
      if (!at_.within(k % V)) slot(k / V)[k % V * warp_threads] = Packed<T>::all(beyond);
    if (lane() == 0)
      for (int n = 0; n < slots; ++n) arrived(n).init(1);
    Mailbox::ready();
    __syncwarp();
    cluster_arrive_with_mailboxes();
    prefetch(of_columns...);
    wait_for_earlier_kernels();
    let_later_kernels_begin();
#pragma unroll
    for (int n = 0; n < slots - 1; ++n) fetch(n, row_[n + 1]);
    cluster_wait();
  }

  // The numbers of the thread's columns; `which`: 0 for the first array, 1 for the second. Best called after the first
  // row's sums: the loop after it waits for them.
  __device__ __forceinline__ ColumnNumbers<T, cut, V> numbers(const T* of_columns, T otherwise, int which) const {
    return {of_columns, at_, otherwise, edge_in(0), edge_place(slots + which)};
  }

  // A round: one row is at the head; the one that was there in the previous round is at the tail.
  __device__ __forceinline__ bool more() const { return has_head() || has_tail(); }
  __device__ __forceinline__ bool has_head() const { return row_[1] < shares_.rows; }
  __device__ __forceinline__ bool has_tail() const { return row_[0] < shares_.rows; }
  __device__ __forceinline__ int tail_row() const { return row_[0]; }
  __device__ __forceinline__ bool first_thread() const { return mail_.leads() && threadIdx.x == 0; }

  __device__ __forceinline__ const At& at() const { return at_; }
  // The thread's part of the row at the head, with `beyond` in pieces that are not wholly in the row; and the piece
  // that extends beyond it.
  __device__ __forceinline__ Part head() const {
    wait_for_head();
    Part part;
#pragma unroll
    for (int k = 0; k < V; ++k) part.piece[k] = slot(head_)[k * warp_threads];
    return part;
  }
  // Replaces its elements, in whole pieces, by f(k, i), rounded: the values later read at the tail.
  template <class F>
  __device__ __forceinline__ void replace_head(F f) {
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (at_.within(k)) slot(head_)[k * warp_threads] = pack<T>([&](int i) { return f(k, i); });
  }
  // Sums of the thread's elements of it; and their count.
  __device__ __forceinline__ ShiftedSums head_sums() const {
    static_assert(V > 1, "the first piece may stick out of the row");
    wait_for_head();
    ShiftedSums sums{slot(head_)[at_.within(0) ? 0 : warp_threads][0], {}, {}};
    const EdgePiece<T> edge = edge_in(head_);
    if (edge.place != nullptr) sums.shift = edge.column < 0 ? (*edge.place)[size - 1] : (*edge.place)[0];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Packed<T> piece = slot(head_)[k * warp_threads];
      const float shift = at_.within(k) ? sums.shift : 0.0f;
#pragma unroll
      for (int i = 0; i < size; ++i) sums.add(piece[i] - shift, i);
    }
    edge.each([&](float v) { sums.add(v - sums.shift, 0); });
    return sums;
  }
  __device__ __forceinline__ int of_thread() const {
    int count = 0;
#pragma unroll
    for (int k = 0; k < V; ++k) count += at_.within(k) ? size : 0;
    if (const EdgePiece<T> edge = edge_in(0); edge.place != nullptr)
#pragma unroll
      for (int i = 0; i < size; ++i) count += edge.has(i);
    return count;
  }
  __device__ __forceinline__ EdgePiece<T> head_edge() const { return edge_in(head_); }

  // Sends the warp's value for the row at the head; and returns those of all warps for the row at the tail.
  __device__ __forceinline__ void give(const Post& own) {
    mail_.give(own, n_);
    if (first_thread()) ask();
  }
  __device__ __forceinline__ Posts<Post> take() {
    const Posts<Post> posts = mail_.take(n_ - 1);
    row_[slots] = mail_.of_leader(n_ - 1);
    return posts;
  }

  // Writes the row at the tail: each element becomes make(element, number...).
  template <class Make, class... Numbers>
  __device__ __forceinline__ void write_tail(Make make, const Numbers&... numbers) {
    T* const to = y_ + (static_cast<int64_t>(row_[0]) * at_.columns + at_.first);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Packed<T> result = made<T>(slot(tail())[k * warp_threads], make, numbers.piece(k)...);
      write_if(at_.within(k), to + k * across, result);
    }
    if (const EdgePiece<T> edge = edge_in(tail()); edge.place != nullptr) {
      const Packed<T> result = made<T>(*edge.place, make, numbers.edge()...);
#pragma unroll
      for (int i = 0; i < size; ++i)
        if (edge.has(i)) to[edge.column - at_.first + i] = result.get(i);
    }
  }

  // Ends the round, and sends the row that the team claimed in it. The tail's memory is reused for another row.
  __device__ __forceinline__ void next() {
    if (mail_.leads() && has_head())
      mail_.tell(of_class() + slots * teams() + shares_.classes * __shfl_sync(0xffffffffu, next_, 0), n_);
    fence_before_bulk_copies();
    __syncwarp();  // all lanes have read what is overwritten
    fetch(tail(), row_[slots]);
    turn_ ^= head_ == slots - 1;
    head_ = head_ == slots - 1 ? 0 : head_ + 1;
#pragma unroll
    for (int i = 0; i < slots; ++i) row_[i] = row_[i + 1];
    ++n_;
  }

 private:
  TeamMail<Post, Choice::threads> mail_;
  StreamedRows shares_;
  At at_;
  const T* x_;
  int64_t x_stride_;
  T* y_;
  Packed<T>* own_;
  int row_[slots + 1];  // at the tail, at the head, and those to come
  int next_ = -1;       // of the team's first thread
  int n_ = 0, head_ = 0, turn_ = 0;
  int edge_ = -1;  // the piece that sticks out

  static __device__ __forceinline__ typename TeamMail<Post, Choice::threads>::Memory& mail_memory() {
    __shared__ typename TeamMail<Post, Choice::threads>::Memory memory;
    return memory;
  }
  // The mailbox that signals to the warp that its part of a row has arrived in a slot.
  static __device__ __forceinline__ Mailbox& arrived(int slot) {
    __shared__ Mailbox of_warp[slots][Choice::threads / warp_threads];
    return of_warp[slot][threadIdx.x / warp_threads];
  }

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % warp_threads; }
  // The pieces of a warp are contiguous.
  static __device__ __forceinline__ TeamPlace place() {
    const int before = static_cast<int>(cluster_rank() * blockDim.x + threadIdx.x) - lane();
    return {0, before * V + lane(), warp_threads};
  }
  static __device__ __forceinline__ int team() { return static_cast<int>(cluster_number()); }
  static __device__ __forceinline__ int teams() { return static_cast<int>(cluster_count()); }

  __device__ __forceinline__ int tail() const { return (head_ == 0 ? slots : head_) - 1; }

  // 0 in the lane that calls it. For one address in all lanes, the compiler would emit one atomicAdd for the warp, and
  // wait for it at once.
  static __device__ __forceinline__ int lane_number() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
  }
  __device__ __forceinline__ int of_class() const { return team() % shares_.classes; }
  // Called by the team's first thread: claims a row of its class, after the fixed rows with which teams start. Its
  // index may be past the end.
  __device__ __forceinline__ void ask() {
    next_ = shares_.counters == nullptr ? next_ + 1 : atomicAdd(shares_.counters + of_class() + lane_number(), 1);
  }

  __device__ __forceinline__ Packed<T>* slot(int number) const {
    return own_ + number * V * static_cast<int>(blockDim.x);
  }

  __device__ __forceinline__ void wait_for_head() const {
    arrived(head_).wait(turn_);
    if constexpr (cut == Cut::ragged) wait_for_copies<slots - 2>();
  }

  // The place, for each slot, and after them for each parameter, of the piece that extends beyond a row.
  __device__ __forceinline__ Packed<T>* edge_place(int slot) const {
    __shared__ Packed<T> places[slots + parameters][2];
    return &places[slot][at_.column(0) < 0 && edge_ == 0 ? 0 : 1];
  }
  __device__ __forceinline__ EdgePiece<T> edge_in(int slot) const {
    if (cut == Cut::whole || edge_ < 0) return {nullptr, 0, 0};
    return {edge_place(slot), at_.column(edge_), at_.columns};
  }

  // The part of a row that is in the warp's whole pieces, which are contiguous.
  struct Span {
    int begin, bytes;
  };
  __device__ __forceinline__ Span of_warp() const {
    const int row_begin = cut == Cut::whole ? 0 : (size + at_.first % size) % size;
    const int row_end = at_.columns - (at_.columns - row_begin) % size;
    const int begin = max(at_.first, row_begin);
    return {begin, max(0, min(at_.first + V * across, row_end) - begin) * static_cast<int>(sizeof(T))};
  }

  // Prefetches what is needed first to L2, while earlier kernels complete: two rows, and numbers of columns.
  template <class... Numbers>
  __device__ __forceinline__ void prefetch(const Numbers*... of_columns) const {
    const auto [begin, bytes] = of_warp();  // of lane 0
    if (lane() != 0 || bytes == 0) return;
#pragma unroll
    for (int n = 1; n <= 2; ++n)
      if (row_[n] < shares_.rows) prefetch_to_l2(x_ + row_[n] * x_stride_ + begin, bytes);
    const auto early = [=](const T* all) {
      if (all != nullptr) prefetch_to_l2(all + begin, bytes);
    };
    if constexpr (cut == Cut::whole) (early(of_columns), ...);
  }

  // Starts copying a row, if there is one.
  __device__ __forceinline__ void fetch(int number, int row) {
    if (row < shares_.rows) {
      const T* const from = x_ + row * x_stride_;
      if (lane() == 0) {
        const auto [begin, bytes] = of_warp();
        arrived(number).arrive_and_expect(bytes);
        if (bytes > 0)
          copy_bulk(shared_address(slot(number)) + (begin - at_.first) * static_cast<int>(sizeof(T)), from + begin,
                    bytes, shared_address(&arrived(number)));
      }
      if (const EdgePiece<T> edge = edge_in(number); edge.place != nullptr) {
        const int left = (edge.columns - edge.column) * static_cast<int>(sizeof(T));
        copy_async(shared_address(edge.place), from + edge.column, left < vector_bytes ? left : vector_bytes);
      }
    }
    if constexpr (cut == Cut::ragged) commit_copies();
  }
};

}  // namespace trifold

#endif
