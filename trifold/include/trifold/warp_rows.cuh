// Whole rows of a warp, for kernels that keep sums over rows in registers (row_stream.cuh; sm_90 on): how they come to
// shared memory in bulk copies, and how the warps of a block add up what they have.
#pragma once

#include <trifold/row_stream.cuh>

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

// Two matrices whose rows stream through shared memory, as a RowStream's do. One lane asks for a row, with two bulk
// copies, in place of each lane for its pieces.
template <class T, class Shape>
class WarpRowStream {
  static_assert(Shape::threads == warp_threads && Shape::chunks == 1, "a row is a warp's");
  static constexpr int size = Vector<T>::size, across = Shape::threads * size;

 public:
  // Mailbox::ready() has to follow.
  __device__ __forceinline__ WarpRowStream(unsigned char* memory, const StreamPlace& at, int end, const T* a,
                                           int64_t a_jump, const T* b, int64_t b_jump, int rows)
      : a_(a),
        b_(b),
        a_jump_(a_jump),
        b_jump_(b_jump),
        come_(come(at.team)),
        rows_(rows),
        end_(end - at.thread * size),
        bytes_(end * static_cast<int>(sizeof(T))),
        lane_(at.thread),
        begin_(shared_address(memory) + at.team * Shape::slots * Shape::slot_bytes) {
    asm("" : "+r"(begin_));  // is not made anew
    if (lane_ < Shape::slots) come_[lane_].init(1);
    // What is behind a row is never copied there.
#pragma unroll
    for (int piece = 0; piece < 2 * Shape::slots * Shape::pieces; ++piece)
      if (!has(piece % Shape::pieces)) store_shared(own(0) + piece * Shape::pitch, {});
  }

  // Asks for as many rows as are ahead.
  __device__ __forceinline__ void begin() {
    __syncwarp();  // all mailboxes are there
#pragma unroll
    for (int slot = 0; slot < Shape::slots - 1; ++slot) fetch(slot);
  }

  // Whether the thread has this piece of a row.
  __device__ __forceinline__ bool has(int piece) const { return piece * across < end_; }

  // Waits for the next row.
  __device__ __forceinline__ void wait(int) { come_[head_].wait(turn_); }

  // With each row that is read, another one is asked for, where the one before it was.
  __device__ __forceinline__ void refill(int) {
    __syncwarp();  // all lanes have read that
    fetch(head_ == 0 ? Shape::slots - 1 : head_ - 1);
  }

  __device__ __forceinline__ uint4 head_a(int piece) const { return shared_piece(own(head_) + piece * Shape::pitch); }
  __device__ __forceinline__ uint4 head_b(int piece) const {
    return shared_piece(own(head_) + of_b + piece * Shape::pitch);
  }
  __device__ __forceinline__ unsigned head() const { return own(head_); }
  __device__ __forceinline__ void advance_head() {
    head_ = head_ == Shape::slots - 1 ? 0 : head_ + 1;
    if (head_ == 0) turn_ ^= 1;
  }

  // As a RowStream's; there are no edges.
  template <class Make>
  __device__ __forceinline__ void store(bool there, T* row, int, Make make) const {
#pragma unroll
    for (int k = 0; k < Shape::pieces; ++k) {
      const uint4 piece = make(k, k);
      write_if<T>(there && has(k), row + k * across, {{piece.x, piece.y, piece.z, piece.w}});
    }
  }
  __device__ __forceinline__ int edge() const { return -1; }
  __device__ __forceinline__ T* edge_in(T* row) const { return row; }
  template <class Use>
  __device__ __forceinline__ void with_edge(int, unsigned, Use) const {}

  // All rows that were asked for have been waited for.
  __device__ __forceinline__ void end() {}

 private:
  static constexpr int of_b = Shape::pieces * Shape::pitch;

  const T *a_, *b_;
  int64_t a_jump_, b_jump_;
  Mailbox* come_;
  int rows_, end_, bytes_, lane_, head_ = 0, turn_ = 0;
  unsigned begin_;  // in shared memory

  // The mailboxes of a team's slots.
  static __device__ __forceinline__ Mailbox* come(int team) {
    __shared__ Mailbox of_teams[Shape::teams][Shape::slots];
    return known_address(of_teams[team]);
  }

  __device__ __forceinline__ unsigned own(int slot) const {
    return begin_ + slot * Shape::slot_bytes + lane_ * vector_bytes;
  }

  __device__ __forceinline__ void fetch(int slot) {
    if (rows_ > 0 && lane_ == 0) {
      const unsigned to = begin_ + slot * Shape::slot_bytes, mailbox = shared_address(&come_[slot].barrier);
      come_[slot].arrive_and_expect(2 * bytes_);
      copy_bulk(to, a_, bytes_, mailbox);
      copy_bulk(to + of_b, b_, bytes_, mailbox);
      a_ += a_jump_;
      b_ += b_jump_;
      --rows_;
    }
  }
};

// Adds up what the warps of a block have of each column, for each of N parameters: two by two, then pairs of these, and
// so on. Of two, the one that comes first leaves its sums in shared memory, where its rows were, and the second one
// adds them: nobody waits for a warp that has still rows to read, and since a + b is b + a, the result does not depend
// on who comes when.
template <class Shape, int N, int size>
class WarpPairs {
  static constexpr int warps = Shape::block / warp_threads, region = Shape::slots * Shape::slot_bytes;
  static_assert(Shape::threads == warp_threads && warps <= 32);
  static_assert(region >= N * Shape::pieces * size / 4 * Shape::pitch, "a warp's rows leave room for its sums");

 public:
  // Behind it a barrier of the block is needed.
  static __device__ __forceinline__ void begin() {
    for (int i = static_cast<int>(threadIdx.x); i < most_pairs; i += Shape::block) pair(i) = {};
  }

  // By a warp that has read its rows. Whether its sums are now those of the block.
  static __device__ __forceinline__ bool add(unsigned char* rows, Pack<float, size> (&sums)[N][Shape::pieces]) {
    const int warp = static_cast<int>(threadIdx.x) / warp_threads, lane = static_cast<int>(threadIdx.x) % warp_threads;
    const unsigned begin = shared_address(rows) + lane * vector_bytes;
    int number = warp, left = warps, pairs_before = 0;
#pragma unroll
    for (int step = 0; (1 << step) < warps; ++step) {
      if ((number ^ 1) < left) {
        Pair& own = pair(pairs_before + number / 2);
        int before = 0;
        if (lane == 0) before = atomicAdd(&own.come, 1);
        before = of_first_lane(before);
        const unsigned there = shared_address(&own.there);
        if (before == 0) {
          each_four(sums, begin + warp * region, [](unsigned at, float* four) {
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(four[0]), "f"(four[1]), "f"(four[2]),
                         "f"(four[3])
                         : "memory");
          });
          __syncwarp();
          if (lane == 0) asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(there), "r"(warp + 1) : "memory");
          return false;
        }
        int other;
        do {
          asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(other) : "r"(there) : "memory");
        } while (other == 0);
        each_four(sums, begin + (other - 1) * region, [](unsigned at, float* four) {
          float of_other[4];
          asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                       : "=f"(of_other[0]), "=f"(of_other[1]), "=f"(of_other[2]), "=f"(of_other[3])
                       : "r"(at)
                       : "memory");
#pragma unroll
          for (int e = 0; e < 4; ++e) four[e] += of_other[e];
        });
      }
      pairs_before += left / 2;
      number /= 2;
      left = (left + 1) / 2;
    }
    return true;
  }

 private:
  static constexpr int most_pairs = warps - 1;
  struct Pair {
    int come, there;  // how many of the two; the warp, from 1, whose sums are there
  };
  static __device__ __forceinline__ Pair& pair(int number) {
    __shared__ Pair pairs[most_pairs];
    return pairs[number];
  }

  // use(address, four) of each four of a lane's sums: those of all lanes follow one another.
  template <class Use>
  static __device__ __forceinline__ void each_four(Pack<float, size> (&sums)[N][Shape::pieces], unsigned at, Use use) {
#pragma unroll
    for (int i = 0; i < N * Shape::pieces * size / 4; ++i)
      use(at + i * Shape::pitch,
          sums[i / (Shape::pieces * size / 4)][i / (size / 4) % Shape::pieces].value + i % (size / 4) * 4);
  }
};

}  // namespace trifold

#endif
