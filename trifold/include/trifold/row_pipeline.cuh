// Rows that stream through shared memory, for teams that take many rows, one after the other (sm_90 on).
//
// Copies from global to shared memory run some rows ahead, so that memory never waits for a team. What its warps tell
// each other about a row is taken one row later, so that nobody waits for that either: in the round in which row n is
// read, row n - 1 is finished. There is no barrier of all threads in the loop.
#pragma once

#include <trifold/async_copies.cuh>
#include <trifold/row_parts.cuh>

namespace trifold {

// How a kernel streams rows: `pieces` a thread, of `slots` rows in shared memory at once; blocks have `threads` threads
// at most, and so many of them fit on a multiprocessor, as far as registers go.
template <int pieces_, int slots_, int threads_, int blocks_>
struct StreamChoice {
  static constexpr int pieces = pieces_, slots = slots_, threads = threads_, blocks = blocks_;

  // Of dynamic shared memory, for a block of so many threads.
  static constexpr int bytes(int block) { return slots * pieces * block * vector_bytes; }
};

}  // namespace trifold

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

// What the warps of a team (the blocks of a cluster) tell each other of one row after the other: `give` row n's, then
// `take` those of row n - 1.
//
// Four rows can be under way: who gives row n has taken n - 2, for which all warps have given n - 2, having taken n
// - 4.
template <class Post, int threads>
class TeamMail {
 public:
  struct Memory {
    Post of_warp[4][threads / warp_threads * most_blocks_a_cluster];
    Mailbox given[4];
  };

  // Behind it a barrier of the cluster is needed.
  __device__ __forceinline__ explicit TeamMail(Memory& memory)
      : memory_(memory), warps_(static_cast<int>(blockDim.x) / warp_threads), posts_(warps_) {
    const unsigned blocks = cluster_blocks(), lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads;
    alone_ = blocks == 1;
    posts_ *= static_cast<int>(blocks);
    if (threadIdx.x < 4) memory.given[threadIdx.x].init(alone_ ? warps_ : 1);
    Mailbox::ready();
    own_ = static_cast<int>(cluster_rank()) * warps_ + static_cast<int>(warp);
    if (lane < blocks) {
      to_ = address_in(shared_address(memory.of_warp[0] + own_), lane);
      box_ = address_in(shared_address(memory.given), lane);
    }
  }

  __device__ __forceinline__ void give(const Post& own, int n) {
    const int way = n % 4, lane = static_cast<int>(threadIdx.x) % warp_threads;
    __syncwarp();  // all lanes have read what is overwritten once this has been taken
    if (alone_) {
      if (lane == 0) {
        memory_.of_warp[way][own_] = own;
        memory_.given[way].arrive();
      }
    } else {
      if (threadIdx.x == 0) memory_.given[way].arrive_and_expect(posts_ * static_cast<int>(sizeof(Post)));
      if (lane < posts_ / warps_)
        send(own, to_ + way * static_cast<unsigned>(sizeof memory_.of_warp[0]),
             box_ + way * static_cast<unsigned>(sizeof(Mailbox)));
    }
  }

  __device__ __forceinline__ Posts<Post> take(int n) {
    memory_.given[n % 4].wait(n / 4 % 2);
    return {memory_.of_warp[n % 4], posts_};
  }

 private:
  Memory& memory_;
  int warps_, posts_, own_;
  unsigned to_ = 0, box_ = 0;
  bool alone_;
};

// How often a row is read from shared memory: once, and each thread keeps its part in registers until the row is
// finished; or twice, and the row stays there as long.
enum class Reads { once, twice };

// One matrix, whose rows the teams of a grid take in turns. Each thread copies and reads its own pieces of a row, so
// that copies need no barrier.
template <class T, Cut cut, class Choice, class Post, Reads reads>
class RowPipeline {
  static constexpr int V = Choice::pieces, slots = Choice::slots, threads = Choice::threads;
  static constexpr int ahead = reads == Reads::once ? slots : slots - 1;  // rows under way, or at the head

 public:
  using Part = RowPart<T, cut, V>;
  using At = RowCut<T, cut>;

  // Rows of x begin x_stride apart, those of y follow one another; if they are ragged, both begin equally far behind a
  // 16-byte boundary. Elements that are not of the row are `otherwise`.
  __device__ __forceinline__ RowPipeline(const T* x, int64_t x_stride, T* y, int64_t rows, int columns, T otherwise)
      : mail_(mail_memory()),
        place_(team_place<Team::cluster>()),
        step_(static_cast<int>(gridDim.x / cluster_blocks())),
        columns_(columns),
        otherwise_(otherwise),
        begin_(dynamic_shared<Packed<T>>() + threadIdx.x) {
    const int64_t left = rows - place_.row;
    left_ = count_ = left > 0 ? static_cast<int>((left + step_ - 1) / step_) : 0;
    from_ = x + place_.row * x_stride;
    x_jump_ = step_ * x_stride;
    fetched_ = head_row_ = tail_row_ = y + place_.row * columns;
    head_ = begin_;
    tail_ = begin_ + (slots - 1) * V * static_cast<int>(blockDim.x);
    if constexpr (cut == Cut::whole) {
      // Pieces that are in no row are never copied.
      const At at(place_, y, columns);
#pragma unroll
      for (int k = 0; k < slots * V; ++k)
        if (!at.touches(k % V)) begin_[k * static_cast<int>(blockDim.x)] = Packed<T>::all(otherwise);
    }
    cluster_arrive_with_mailboxes();
    wait_for_earlier_kernels();
#pragma unroll
    for (int n = 0; n < ahead; ++n) fetch(begin_ + n * V * static_cast<int>(blockDim.x));
    cluster_wait();
  }

  // A round: row n is at the head; the row before it, which was there in the round before, at the tail.
  __device__ __forceinline__ bool more() const { return n_ <= count_; }
  __device__ __forceinline__ bool has_head() const { return n_ < count_; }
  __device__ __forceinline__ bool has_tail() const { return n_ > 0; }
  __device__ __forceinline__ int64_t row(int behind) const {
    return place_.row + static_cast<int64_t>(n_ - behind) * step_;
  }
  __device__ __forceinline__ bool first_thread() const { return place_.thread == 0; }

  __device__ __forceinline__ At head_at() const { return At(place_, head_row_, columns_); }
  __device__ __forceinline__ At tail_at() const { return At(place_, tail_row_, columns_); }
  __device__ __forceinline__ T* tail_row() const { return tail_row_; }

  // What the thread holds of the row at the head; at the tail of a row that is read twice.
  __device__ __forceinline__ Part head(const At& at) const {
    wait_for_copies<ahead - 1>();
    Part part = read(head_);
    if (cut == Cut::ragged && (at.template at_edge<V>() || !at.touches(V - 1))) part.mend(at, otherwise_);
    return part;
  }
  __device__ __forceinline__ Part tail() const {
    static_assert(reads == Reads::twice);
    return read(tail_);
  }

  // Once the head's part is in registers: tells the team what the thread's warp has of it.
  __device__ __forceinline__ void give(const Post& own) {
    mail_.give(own, n_);
    if constexpr (reads == Reads::once) fetch(head_);
  }
  __device__ __forceinline__ Posts<Post> take() { return mail_.take(n_ - 1); }

  // Ends the round. The memory of a row that will not be read any more is that of another one.
  __device__ __forceinline__ void next() {
    if constexpr (reads == Reads::twice) fetch(tail_);
    tail_ = head_;
    head_ = after(head_);
    tail_row_ = head_row_;
    head_row_ += static_cast<int64_t>(step_) * columns_;
    ++n_;
  }

 private:
  TeamMail<Post, threads> mail_;
  TeamPlace place_;
  int step_, columns_, count_, left_, n_ = 0;
  T otherwise_;
  Packed<T>*const begin_, *head_, *tail_;
  const T* from_;
  T *fetched_, *head_row_, *tail_row_;
  int64_t x_jump_;

  static __device__ __forceinline__ typename TeamMail<Post, threads>::Memory& mail_memory() {
    __shared__ typename TeamMail<Post, threads>::Memory memory;
    return memory;
  }

  __device__ __forceinline__ Packed<T>* after(Packed<T>* slot) const {
    const int size = V * static_cast<int>(blockDim.x);
    return slot == begin_ + (slots - 1) * size ? begin_ : slot + size;
  }

  static __device__ __forceinline__ Part read(const Packed<T>* slot) {
    Part part;
#pragma unroll
    for (int k = 0; k < V; ++k) part.piece[k] = slot[k * static_cast<int>(blockDim.x)];
    return part;
  }

  __device__ __forceinline__ void fetch(Packed<T>* slot) {
    if (left_ > 0) {
      const At at(place_, fetched_, columns_);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (!at.touches(k)) continue;
        const int left = (columns_ - at.column(k)) * static_cast<int>(sizeof(T));
        copy_async(shared_address(slot + k * static_cast<int>(blockDim.x)), from_ + at.column(k),
                   cut == Cut::whole || left > vector_bytes ? vector_bytes : left);
      }
      from_ += x_jump_;
      fetched_ += static_cast<int64_t>(step_) * columns_;
      --left_;
    }
    commit_copies();
  }
};

}  // namespace trifold

#endif
