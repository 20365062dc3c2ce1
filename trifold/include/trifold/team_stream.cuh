// Rows that stream through shared memory, for teams that take many rows, one after the other (sm_90 on).
//
// Each warp asks for its own part of a row, and reads it from there. Copies run some rows ahead, and what the warps
// tell each other about a row is taken one row later (team_mail.cuh). Which rows a team has is told with that, too:
// where shares are fixed, all wait for the slowest multiprocessor. It is asked for as late as possible: a slow team
// that has many rows to come keeps the others waiting in the end. All rows of a team begin equally far behind a
// boundary in memory, also where they are ragged: a thread has the same columns of each, whose parameters stay in its
// registers.
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

// One matrix, whose rows the teams of a grid take. Rows of x begin x_stride apart, those of y follow one
// another; both begin equally far behind a 16-byte boundary, and those of y of a team equally far behind one of
// `boundary` bytes, where they are cut: where a warp's pieces end in the middle of a sector of memory, two write it.
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
    // Pieces that are in no row, or not as a whole, are never copied there.
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

  // The numbers of the thread's columns: those that are asked for first, 0, and next, 1. Best behind the first row's
  // sums: the loop behind it waits until they are there.
  __device__ __forceinline__ ColumnNumbers<T, cut, V> numbers(const T* of_columns, T otherwise, int which) const {
    return {of_columns, at_, otherwise, edge_in(0), edge_place(slots + which)};
  }

  // A round: a row is at the head; the one before it, which was there in the round before, at the tail.
  __device__ __forceinline__ bool more() const { return has_head() || has_tail(); }
  __device__ __forceinline__ bool has_head() const { return row_[1] < shares_.rows; }
  __device__ __forceinline__ bool has_tail() const { return row_[0] < shares_.rows; }
  __device__ __forceinline__ int tail_row() const { return row_[0]; }
  __device__ __forceinline__ bool first_thread() const { return mail_.leads() && threadIdx.x == 0; }

  __device__ __forceinline__ const At& at() const { return at_; }
  // What the thread holds of the row at the head, `beyond` where a piece is not in the row as a whole; and what sticks
  // out.
  __device__ __forceinline__ Part head() const {
    wait_for_head();
    Part part;
#pragma unroll
    for (int k = 0; k < V; ++k) part.piece[k] = slot(head_)[k * warp_threads];
    return part;
  }
  // Its elements, of whole pieces, become f(k, i), rounded: at the tail they are these.
  template <class F>
  __device__ __forceinline__ void replace_head(F f) {
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (at_.within(k)) slot(head_)[k * warp_threads] = pack<T>([&](int i) { return f(k, i); });
  }
  // Sums of its elements that the thread has; and how many these are.
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

  // Tells the team what the thread's warp has of the row at the head; and what its warps had of that at the tail.
  __device__ __forceinline__ void give(const Post& own) {
    mail_.give(own, n_);
    if (first_thread()) ask();
  }
  __device__ __forceinline__ Posts<Post> take() {
    const Posts<Post> posts = mail_.take(n_ - 1);
    row_[slots] = mail_.of_leader(n_ - 1);
    return posts;
  }

  // Writes the row at the tail, whose elements become make(element, number...).
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

  // Ends the round, and tells which row the team gets for it. The tail's memory is that of another one.
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
  // Tells the warp that its part of a row is in a slot.
  static __device__ __forceinline__ Mailbox& arrived(int slot) {
    __shared__ Mailbox of_warp[slots][Choice::threads / warp_threads];
    return of_warp[slot][threadIdx.x / warp_threads];
  }

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % warp_threads; }
  // The pieces of a warp follow one another.
  static __device__ __forceinline__ TeamPlace place() {
    const int before = static_cast<int>(cluster_rank() * blockDim.x + threadIdx.x) - lane();
    return {0, before * V + lane(), warp_threads};
  }
  static __device__ __forceinline__ int team() { return static_cast<int>(cluster_number()); }
  static __device__ __forceinline__ int teams() { return static_cast<int>(cluster_count()); }

  __device__ __forceinline__ int tail() const { return (head_ == 0 ? slots : head_) - 1; }

  // 0 where it is called. Of one address for all lanes, the compiler makes one atomicAdd for all of them, and waits for
  // it at once.
  static __device__ __forceinline__ int lane_number() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
  }
  __device__ __forceinline__ int of_class() const { return team() % shares_.classes; }
  // By the team's first thread: of the rows of its class beyond those that all teams begin with, the number of one that
  // nobody else has; it may be too large.
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

  // Where a slot has, or beyond them a parameter, what sticks out of a row: for the front, or for the back.
  __device__ __forceinline__ Packed<T>* edge_place(int slot) const {
    __shared__ Packed<T> places[slots + parameters][2];
    return &places[slot][at_.column(0) < 0 && edge_ == 0 ? 0 : 1];
  }
  __device__ __forceinline__ EdgePiece<T> edge_in(int slot) const {
    if (cut == Cut::whole || edge_ < 0) return {nullptr, 0, 0};
    return {edge_place(slot), at_.column(edge_), at_.columns};
  }

  // Of a row, what is in the warp's whole pieces, which follow one another.
  struct Span {
    int begin, bytes;
  };
  __device__ __forceinline__ Span of_warp() const {
    const int row_begin = cut == Cut::whole ? 0 : (size + at_.first % size) % size;
    const int row_end = at_.columns - (at_.columns - row_begin) % size;
    const int begin = max(at_.first, row_begin);
    return {begin, max(0, min(at_.first + V * across, row_end) - begin) * static_cast<int>(sizeof(T))};
  }

  // Has L2 read what is needed first, while earlier kernels end: two rows, and numbers of columns.
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

  // Asks for a row, where there is one.
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
