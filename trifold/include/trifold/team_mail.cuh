// What the warps of a team tell each other in kernels whose rows stream through shared memory (sm_90 on), and how such
// kernels are cut.
//
// Copies from global to shared memory run some rows ahead, so that memory never waits for a team. What its warps tell
// each other about a row is taken one row later, so that nobody waits for that either: in the round in which row n is
// read, row n - 1 is finished. There is no barrier of all threads in the loop.
#pragma once

#include <trifold/async_copies.cuh>
#include <trifold/row_parts.cuh>

namespace trifold {

// How a kernel streams rows: `pieces` a thread, of `slots` rows in shared memory at once; blocks have `threads` threads
// at most, and so many of them fit on a multiprocessor, as far as registers go; `most_blocks` are a team.
template <int pieces_, int slots_, int threads_, int blocks_, int most_blocks_ = most_blocks_a_cluster>
struct StreamChoice {
  static constexpr int pieces = pieces_, slots = slots_, threads = threads_, blocks = blocks_;
  static constexpr int most_blocks = most_blocks_;

  // Of dynamic shared memory, for a block of so many threads.
  static constexpr int bytes(int block) { return slots * pieces * block * vector_bytes; }
};

// How the teams of a grid share a matrix's rows. Those of a class, every `classes`-th one, begin alike, as seen from
// boundaries so many bytes apart. A team begins with fixed rows of its class, and goes on with others that are counted
// out: by `counters`, one for each class, 0 at first; or, where these are null and each team has a class of its own, by
// itself.
struct StreamedRows {
  int* counters;
  int rows, classes, boundary;
};

}  // namespace trifold

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

// What the warps of a team (the blocks of a cluster) tell each other of one row after the other: `give` row n's, then
// `take` those of row n - 1. The first warp also tells a number of each row, in the end of that round.
//
// Four rows can be under way: who gives row n has taken n - 2, for which all warps have given n - 2, having taken n
// - 4.
template <class Post, int threads>
class TeamMail {
 public:
  struct Memory {
    Post of_warp[4][threads / warp_threads * most_blocks_a_cluster];
    int of_leader[4];
    Mailbox given[4];
  };

  // Behind it a barrier of the cluster is needed.
  __device__ __forceinline__ explicit TeamMail(Memory& memory)
      : memory_(memory), warps_(static_cast<int>(blockDim.x) / warp_threads), posts_(warps_) {
    const auto blocks = static_cast<int>(cluster_blocks());
    alone_ = blocks == 1;
    posts_ *= blocks;
    if (threadIdx.x == 0) init_mailboxes(memory.given, 4, alone_ ? warps_ + 1 : 1);
    Mailbox::ready();
    own_ = static_cast<int>(cluster_rank()) * warps_ + static_cast<int>(threadIdx.x) / warp_threads;
  }

  // Whether this is the team's first warp, which also tells a number.
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
  // By the first warp: behind give(), and before it gives the next row's.
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
  // What the team's first warp told of row n, which has been taken.
  __device__ __forceinline__ int of_leader(int n) const { return memory_.of_leader[n % 4]; }

 private:
  Memory& memory_;
  int warps_, posts_, own_;
  bool alone_;
};

}  // namespace trifold

#endif
