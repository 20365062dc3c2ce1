// Rows that a team of threads holds in registers, so that each element is read once and written once.
//
// A team is part of a warp, a warp, a block, or the blocks of a cluster (sm_90 on), depending on the length of the row.
// Each thread holds a RowPart of it (row_parts.cuh). The start and the reduction of a kernel of teams:
//
//     const TeamPlace place = begin_in_team<team, float>();        // after earlier kernels have completed
//     if (place.done<team>(rows)) return;
//     …                                                            // load the thread's part of row place.row
//     const float sum = team_reduce<team>(own, 0.0f, Sum{});       // in all threads of the team
#pragma once

#include <trifold/cluster.cuh>
#include <trifold/cuda.cuh>
#include <trifold/reduce.cuh>

namespace trifold {

enum class Team { part, warp, block, cluster };

// The most arrays that a kernel copies to all teams of a cluster (column_copies.cuh).
inline constexpr int most_copies = 2;

// Threads in a block of a kernel whose teams are warps or parts of them.
inline constexpr int block_of_warps = 128;

// A block of a cluster has at most 512 threads.
inline constexpr int most_warps_a_cluster = most_blocks_a_cluster * 512 / warp_threads;

// The number of lanes of a warp that belong to a team.
__host__ __device__ constexpr int team_lanes(Team team) {
  return team == Team::part ? 8 : warp_threads;
}

// Whether a team has several warps, which must exchange values.
__host__ __device__ constexpr bool has_warps(Team team) {
  return team == Team::block || team == Team::cluster;
}

// How a kernel's teams hold rows: up to `pieces` per thread, in blocks of at most `threads` threads, whose registers
// are limited so that `blocks` of them fit on a multiprocessor. With `edges`, rows that are not whole are cut into
// inner pieces and edges (row_parts.cuh).
template <Team team_, int pieces_, int threads_, int blocks_, bool edges_ = false>
struct TeamChoice {
  static constexpr Team team = team_;
  static constexpr int pieces = pieces_, threads = threads_, blocks = blocks_;
  static constexpr bool edges = edges_;
  static constexpr int rows = 1;   // per team at once
  static constexpr int mates = 1;  // teams in a cluster, whose most blocks are:
  static constexpr int most_in_cluster = most_blocks_a_cluster;
  static constexpr int filled = 0;          // least percentage of its threads' pieces that a row fills
  static constexpr bool by_tensor = false;  // whether tensor cores compute its sums (tensor_rows.cuh)
  // Dynamic shared memory of a block with this many threads.
  static constexpr int bytes(int) { return 0; }
  static_assert(!edges || has_warps(team), "a team has more threads than a row has edges");
};

template <Team team, int pieces, int threads, int blocks>
using TeamWithEdges = TeamChoice<team, pieces, threads, blocks, true>;

// The row of a thread's team, and the thread's index in the team.
struct TeamPlace {
  int64_t row;
  int thread, threads;

  // Whether the thread may exit, with `rows` rows in all. A team that shares a warp may not: without a row it continues
  // with one of no columns.
  template <Team team>
  __device__ __forceinline__ bool done(int64_t rows) const {
    return team != Team::part && row >= rows;
  }
  template <Team team>
  __device__ __forceinline__ int columns(int64_t rows, int columns) const {
    return team == Team::part && row >= rows ? 0 : columns;
  }
};

#ifdef TRIFOLD_CLUSTERS
// The position of a block in a cluster of several teams: its team, `mate`, which has `blocks` blocks, a power of two,
// and its rank in the team.
struct ClusterPlace {
  int mate, blocks, rank;

  template <int mates>
  static __device__ __forceinline__ ClusterPlace get() {
    const auto rank = static_cast<int>(cluster_rank()), blocks = static_cast<int>(cluster_blocks() / mates);
    if constexpr (mates == 1) return {0, blocks, rank};
    return {rank >> __popc(blocks - 1), blocks, rank & (blocks - 1)};
  }
  // The index of the team in the grid.
  template <int mates>
  __device__ __forceinline__ int64_t team() const {
    return (blockIdx.x >> __popc(blocks * mates - 1)) * int64_t{mates} + mate;
  }
  // The rank in the cluster of block `rank` of team `mate`.
  __device__ __forceinline__ int of(int mate, int rank) const { return mate * blocks + rank; }
};
#endif

// `mates` is the number of teams in a cluster.
template <Team team, int mates = 1>
__device__ __forceinline__ TeamPlace team_place() {
  const int x = static_cast<int>(threadIdx.x), block = static_cast<int>(blockDim.x);
  if constexpr (!has_warps(team)) {
    constexpr int lanes = team_lanes(team);
    return {blockIdx.x * int64_t{block_of_warps / lanes} + x / lanes, x % lanes, lanes};
  } else if constexpr (team == Team::block) {
    return {blockIdx.x, x, block};
  } else {
#ifdef TRIFOLD_CLUSTERS
    const ClusterPlace at = ClusterPlace::get<mates>();
    return {int64_t{cluster_number()} * mates + at.mate, at.rank * block + x, at.blocks * block};
#else
    return {};  // compiled for such a GPU, but never launched there
#endif
  }
}

// The values of all warps of a team.
template <class T>
struct Posts {
  T* of_warp;
  int count;
};

#ifdef TRIFOLD_CLUSTERS
template <class T>
__device__ __forceinline__ Mailbox& cluster_mailbox() {
  __shared__ Mailbox mailbox;
  return mailbox;
}

// For copies that arrive in all teams of a cluster (column_copies.cuh).
__device__ __forceinline__ Mailbox& copy_mailbox(int which) {
  __shared__ Mailbox mailboxes[most_copies];
  return mailboxes[which];
}
#endif

// After begin_in_team, if a cluster has several teams: waits until all their blocks have started.
template <int mates>
__device__ __forceinline__ void wait_for_mates() {
#ifdef TRIFOLD_CLUSTERS
  if constexpr (mates > 1) cluster_wait();
#endif
}

// The start of a kernel of teams: returns the thread's place, after earlier kernels have completed. `Post` is the type
// of the values that a cluster's warps exchange in team_posts. The arrival at the cluster barrier is matched by the
// wait in wait_for_mates or team_posts, after which every block has started and its mailboxes are initialised.
template <Team team, class Post, int mates = 1>
__device__ __forceinline__ TeamPlace begin_in_team() {
  const TeamPlace at = team_place<team, mates>();
#ifdef TRIFOLD_CLUSTERS
  if constexpr (team == Team::cluster) {
    if (threadIdx.x == 0) {
      Mailbox& mailbox = cluster_mailbox<Post>();
      mailbox.init(1);
      if constexpr (mates > 1)
        for (int i = 0; i < most_copies; ++i) copy_mailbox(i).init(1);
      Mailbox::ready();
      mailbox.arrive_and_expect(at.threads / warp_threads * static_cast<int>(sizeof(Post)));
    }
    cluster_arrive_with_mailboxes();
  }
#endif
  wait_for_earlier_kernels();
  return at;
}

// Sends each warp's value to all threads of its team, of up to `most_warps` warps. A kernel calls it once.
template <Team team, int mates = 1, int most_warps = most_warps_a_cluster, class Post>
__device__ __forceinline__ Posts<Post> team_posts(const Post& own) {
  static_assert(has_warps(team), "a warp exchanges values by shuffles");
  const int warp = static_cast<int>(threadIdx.x) / warp_threads, lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int warps = static_cast<int>(blockDim.x) / warp_threads;
  if constexpr (team == Team::block) {
    __shared__ Post of_warp[1024 / warp_threads];
    if (lane == 0) of_warp[warp] = own;
    __syncthreads();
    return {of_warp, warps};
  } else {
#ifdef TRIFOLD_CLUSTERS
    alignas(16) __shared__ Post of_warp[most_warps];
    const ClusterPlace at = ClusterPlace::get<mates>();
    Mailbox& mailbox = cluster_mailbox<Post>();
    if constexpr (mates == 1) cluster_wait();
    if (lane < at.blocks) {
      const unsigned to = shared_address(of_warp + at.rank * warps + warp);
      send(own, address_in(to, at.of(at.mate, lane)), address_in(shared_address(&mailbox), at.of(at.mate, lane)));
    }
    mailbox.wait(0);
    return {of_warp, at.blocks * warps};
#else
    return {};
#endif
  }
}

// Combines the values of a team's warps; every thread gets the same result, bit for bit. `neutral` is the neutral
// element of `combine`.
template <class T, class Combine>
__device__ __forceinline__ T combine(const Posts<T>& posts, T neutral, Combine combine) {
  T value = neutral;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % warp_threads; i < posts.count; i += warp_threads)
    value = combine(value, posts.of_warp[i]);
  return warp_reduce(value, combine);
}

// Combines the values of a team's threads, as above. A kernel calls it once.
template <Team team, int mates = 1, class T, class Combine>
__device__ __forceinline__ T team_reduce(T value, T neutral, Combine with) {
  value = warp_reduce<team_lanes(team)>(value, with);
  if constexpr (!has_warps(team))
    return value;
  else
    return combine(team_posts<team, mates>(value), neutral, with);
}

}  // namespace trifold
