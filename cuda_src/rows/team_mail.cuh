// The messages between the warps of a team in kernels whose rows stream through shared memory (sm_90 on), and the
// choices for such kernels.
//
// Copies from global to shared memory run some rows ahead, so that memory is always busy. Messages between warps about
// a row are read one row later, so that no warp waits for them: in the round in which row n is read, row n - 1 is
// finished. There is no barrier of all threads in the loop.
#pragma once

#include <trifold/async_copies.cuh>

#include "row_parts.cuh"

namespace trifold {

// How a kernel streams rows: `pieces` a thread, with `slots` rows in shared memory; blocks have at most `threads`
// threads, registers are limited so that `blocks` of them fit on a multiprocessor, and a team has up to `most_blocks`.
template <int pieces_, int slots_, int threads_, int blocks_, int most_blocks_ = most_blocks_a_cluster>
struct StreamChoice {
  static constexpr int pieces = pieces_, slots = slots_, threads = threads_, blocks = blocks_;
  static constexpr int most_blocks = most_blocks_;

  // Dynamic shared memory of a block of that many threads.
  static constexpr int bytes(int block) { return slots * pieces * block * vector_bytes; }
};

// How the teams of a grid share a matrix's rows. The rows of a class, every `classes`-th one, have the same offset
// from a boundary of `boundary` bytes. A team starts with fixed rows of its class, and continues with rows that are
// claimed: from `counters`, one for each class, initially 0; or, if these are null and each team has its own class, in
// order.
struct StreamedRows {
  int* counters;
  int rows, classes, boundary;
};

}  // namespace trifold

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

// Messages between the warps of a team (the blocks of a cluster), one row after the other: `give` that of row n, then
// `take` those of row n - 1. The first warp also sends a number for each row, at the end of that round.
//
// Four rows can be in flight: a warp that gives row n has taken row n - 2. All warps had then given n - 2, and before
// that taken n - 4.
template <class Post, int threads>
class TeamMail {
 public:
  struct Memory {
    Post of_warp[4][threads / warp_threads * most_blocks_a_cluster];
    int of_leader[4];
    Mailbox given[4];
  };

  // A barrier of the cluster must follow.
  __device__ __forceinline__ explicit TeamMail(Memory& memory)
      : memory_(memory), warps_(static_cast<int>(blockDim.x) / warp_threads), posts_(warps_) {
    const auto blocks = static_cast<int>(cluster_blocks());
    alone_ = blocks == 1;
    posts_ *= blocks;
    if (threadIdx.x == 0) init_mailboxes(memory.given, 4, alone_ ? warps_ + 1 : 1);
    Mailbox::ready();
    own_ = static_cast<int>(cluster_rank()) * warps_ + static_cast<int>(threadIdx.x) / warp_threads;
  }

  // Whether this is the team's first warp, which also sends a number.
  __device__ __forceinline__ bool leads() const { return own_ == 0; }

  __device__ __forceinline__ void give(const Post& own, int n) {
    const int way = n % 4, lane = static_cast<int>(threadIdx.x) % warp_threads;
    __syncwarp();  // all lanes have read what is overwritten once this has been taken
    if (alone_) {
      if (lane == 0) {
        memory_.of_warp[way][own_] = own;
        memory_.given[way].arrive();
      }
    } else {
      if (threadIdx.x == 0)
        memory_.given[way].arrive_and_expect(posts_ * static_cast<int>(sizeof(Post)) +
                                             static_cast<int>(sizeof memory_.of_leader[way]));
      if (lane < posts_ / warps_) {
        const auto there = [lane](const void* here) { return address_in(shared_address(here), lane); };
        const unsigned mailbox = there(&memory_.given[way]);
        send(own, there(&memory_.of_warp[way][own_]), mailbox);
      }
    }
  }
  // Called by the first warp, after give() and before it gives the next row.
  __device__ __forceinline__ void tell(int of_leader, int n) {
    const int way = n % 4, lane = static_cast<int>(threadIdx.x) % warp_threads;
    if (alone_) {
      if (lane == 0) {
        memory_.of_leader[way] = of_leader;
        memory_.given[way].arrive();
      }
    } else if (lane < posts_ / warps_) {
      const auto there = [lane](const void* here) { return address_in(shared_address(here), lane); };
      send(of_leader, there(&memory_.of_leader[way]), there(&memory_.given[way]));
    }
  }

  __device__ __forceinline__ Posts<Post> take(int n) {
    memory_.given[n % 4].wait(n / 4 % 2);
    return {memory_.of_warp[n % 4], posts_};
  }
  // The number that the team's first warp sent for row n, after that has been taken.
  __device__ __forceinline__ int of_leader(int n) const { return memory_.of_leader[n % 4]; }

 private:
  Memory& memory_;
  int warps_, posts_, own_;
  bool alone_;
};

}  // namespace trifold

#endif
