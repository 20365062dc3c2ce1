// Whole rows of a warp, for kernels that keep sums over rows in registers (row_stream.cuh; sm_90 on): how they come to
// shared memory in bulk copies, and how the warps of a block add up what they have.
#pragma once

#include "row_stream.cuh"

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

// Two matrices whose rows stream through shared memory, as a RowStream's do. One lane asks for a row, with two bulk
// copies, in place of each lane for its pieces.
//
// In shared memory a row begins as far behind a line as in global memory: else a copy takes a quarter longer. It does
// so in all slots alike, since rows of a team are whole lines apart.
template <class T, class Shape>
class WarpRowStream {
  static_assert(Shape::threads == warp_threads && Shape::chunks == 1, "a row is a warp's");
  static_assert(Shape::teams * vector_bytes % line_bytes == 0, "teams times a multiple of 16 bytes are lines");
  static constexpr int size = Vector<T>::size, across = Shape::threads * size;

 public:
  // Mailbox::ready() has to follow.
  __device__ __forceinline__ WarpRowStream(unsigned char* memory, const StreamPlace& at, int end, const T* a,
                                           int64_t a_jump, const T* b, int64_t b_jump, int rows)
      : a_(of_lane(a, 0)),
        b_(of_lane(b, 0)),
        a_jump_(a_jump),
        b_jump_(b_jump),
        come_(come(at.team)),
        rows_(rows),
        end_(end - at.thread * size),
        bytes_(end * static_cast<int>(sizeof(T))),
        lane_(at.thread),
        to_a_(of_first_lane(begin_of(memory, at) + behind_line(a))),
        to_b_(of_first_lane(begin_of(memory, at) + bytes_of_a + behind_line(b))),
        own_a_(to_a_ + at.thread * vector_bytes),
        own_b_(to_b_ + at.thread * vector_bytes),
        mailboxes_(of_first_lane(shared_address(come_))) {
    asm("" : "+r"(own_a_), "+r"(own_b_));  // are not made anew
    if (lane_ == 0) init_mailboxes(come_, Shape::slots, 1);
    // What is behind a row is never copied there.
#pragma unroll
    for (int i = 0; i < Shape::slots * Shape::pieces; ++i) {
      const int piece = i % Shape::pieces, at = i / Shape::pieces * Shape::slot_bytes + piece * Shape::pitch;
      if (!has(piece)) {
        store_shared(own_a_ + at, {});
        store_shared(own_b_ + at, {});
      }
    }
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
    fence_before_bulk_copies();
    __syncwarp();  // all lanes have read that
    fetch(head_ == 0 ? Shape::slots - 1 : head_ - 1);
  }

  __device__ __forceinline__ uint4 head_a(int piece) const { return shared_piece(head() + piece * Shape::pitch); }
  __device__ __forceinline__ uint4 head_b(int piece) const {
    return shared_piece(own_b_ + head_ * Shape::slot_bytes + piece * Shape::pitch);
  }
  __device__ __forceinline__ unsigned head() const { return own_a_ + head_ * Shape::slot_bytes; }
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
  static constexpr int bytes_of_a = Shape::slot_bytes / 2;

  const T *a_, *b_;
  int64_t a_jump_, b_jump_;
  Mailbox* come_;
  int rows_, end_, bytes_, lane_, head_ = 0, turn_ = 0;
  unsigned to_a_, to_b_;    // where rows begin in the first slot; known to be the same for all lanes
  unsigned own_a_, own_b_;  // and where the lane's pieces of them do
  unsigned mailboxes_;      // of the slots; the same for all lanes

  // The mailboxes of a team's slots.
  static __device__ __forceinline__ Mailbox* come(int team) {
    __shared__ Mailbox of_teams[Shape::teams][Shape::slots];
    return known_address(of_teams[team]);
  }

  // Where the team's slots are.
  static __device__ __forceinline__ unsigned begin_of(unsigned char* memory, const StreamPlace& at) {
    return shared_address(memory) + at.team * Shape::slots * Shape::slot_bytes;
  }
  static __device__ __forceinline__ unsigned behind_line(const T* row) {
    return static_cast<unsigned>(reinterpret_cast<uintptr_t>(row) % line_bytes);
  }

  // By a lane that the hardware picks, with addresses that the compiler knows to be the same for all of them. Of others
  // it makes a loop over the lanes for each copy: 20 instructions a row, and registers.
  __device__ __forceinline__ void fetch(int slot) {
    if (rows_ > 0) {
      if (is_elected()) {
        const unsigned mailbox = mailboxes_ + slot * int{sizeof(Mailbox)};
        Mailbox::arrive_and_expect(mailbox, 2 * bytes_);
        copy_bulk(to_a_ + slot * Shape::slot_bytes, a_, bytes_, mailbox);
        copy_bulk(to_b_ + slot * Shape::slot_bytes, b_, bytes_, mailbox);
      }
      __syncwarp();
      a_ += a_jump_;
      b_ += b_jump_;
      --rows_;
    }
  }
};

// Adds up what the warps of a block have of each column, for each of N parameters, by way of shared memory, where their
// rows were. Of two warps, each gives the other one half of its sums, and adds the half that it is given to its own
// one; then it does so with a warp of another two, and so on, until each has the block's sums of some columns. A warp
// waits for no other one than that. Since a + b is b + a, the result does not depend on who comes when.
template <class Shape, int N, int size>
class WarpHalves {
  static constexpr int warps = Shape::block / warp_threads, region = Shape::slots * Shape::slot_bytes;
  static constexpr int fours = N * Shape::pieces * size / 4;  // of a lane's sums: those of all lanes follow one another
  static_assert(Shape::threads == warp_threads && warps <= 8 && (warps & (warps - 1)) == 0 && fours % warps == 0);
  static_assert(region >= fours * Shape::pitch, "a warp's rows leave room for its sums");

 public:
  // By all warps, once they have read their rows. The sums of parameter n go to `to` + n·stride.
  static __device__ __forceinline__ void store(unsigned char* rows, const Pack<float, size> (&sums)[N][Shape::pieces],
                                               int columns, float* to, int64_t stride) {
    float own[fours * 4];
#pragma unroll
    for (int i = 0; i < fours * 4; ++i)
      own[i] = sums[i / (Shape::pieces * size)][i / size % Shape::pieces].value[i % size];
    __syncwarp();  // all lanes have read the last row, which is overwritten
    add<0>(shared_address(rows), own, 0, columns, to, stride);
  }

 private:
  // `first`: the number, of all fours, of the first one in `own`.
  template <int step, int count>
  static __device__ __forceinline__ void add(unsigned rows, const float (&own)[count], int first, int columns,
                                             float* to, int64_t stride) {
    const int warp = static_cast<int>(threadIdx.x) / warp_threads, lane = static_cast<int>(threadIdx.x) % warp_threads;
    if constexpr (1 << step == warps) {
#pragma unroll
      for (int i = 0; i < count; i += 4) {
        const int four = first + i / 4, piece = four / (size / 4);
        const int column = (piece % Shape::pieces * warp_threads + lane) * size + four % (size / 4) * 4;
        float4* const there = reinterpret_cast<float4*>(to + piece / Shape::pieces * stride + column);
        if (column < columns) *there = {own[i], own[i + 1], own[i + 2], own[i + 3]};
      }
    } else {
      constexpr int half = count / 2;
      const bool upper = (warp >> step & 1) != 0;
      // Behind what was given before: that may still be read.
      const unsigned given = rows + (fours - count / 4) * Shape::pitch + lane * vector_bytes;
      const unsigned here = given + warp * region, there = given + (warp ^ 1 << step) * region;
      float kept[half];
#pragma unroll
      for (int i = 0; i < half; i += 4) {
        float four[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          four[e] = upper ? own[i + e] : own[half + i + e];
          kept[i + e] = upper ? own[half + i + e] : own[i + e];
        }
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(here + i / 4 * Shape::pitch), "f"(four[0]),
                     "f"(four[1]), "f"(four[2]), "f"(four[3])
                     : "memory");
      }
      // A barrier of the two: __syncthreads is number 0.
      const int pair = (warp >> (step + 1) << step) | (warp & ((1 << step) - 1));
      asm volatile("bar.sync %0, %1;" ::"r"(1 + step * (warps / 2) + pair), "n"(2 * warp_threads) : "memory");
#pragma unroll
      for (int i = 0; i < half; i += 4) {
        float four[4];
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(four[0]), "=f"(four[1]), "=f"(four[2]), "=f"(four[3])
                     : "r"(there + i / 4 * Shape::pitch)
                     : "memory");
#pragma unroll
        for (int e = 0; e < 4; ++e) kept[i + e] += four[e];
      }
      add<step + 1>(rows, kept, first + (upper ? half / 4 : 0), columns, to, stride);
    }
  }
};

}  // namespace trifold

#endif
