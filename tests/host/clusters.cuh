// clusters: blocks of a cluster that use each other's shared memory. Each mistake is one line that is missing or other.
#pragma once

#include <cooperative_groups.h>

#include <trifold/cuda.cuh>

namespace cg = cooperative_groups;

constexpr int threads = 32;
constexpr unsigned most_blocks = 16;

// Each block reads what its peers have, in arrays of both kinds, and leaves something with each of them:
// y = 3 * the sum of the thread's x in all blocks of the cluster.
__global__ void exchange_kernel(const float* x, float* y) {
  extern __shared__ float dynamic[];
  __shared__ float fixed[threads], inbox[most_blocks][threads];
  const auto cluster = cg::this_cluster();
  const unsigned t = cg::this_thread_block().thread_rank(), own = cluster.block_rank();
  const auto i = cg::this_grid().block_rank() * threads + t;
  fixed[t] = dynamic[t] = x[i];
  cluster.sync();
  float sum = 0;
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) {
    sum += cluster.map_shared_rank(fixed, static_cast<int>(rank))[t];
    const float* there = cluster.map_shared_rank(dynamic, static_cast<int>(rank));
    const bool right = cluster.query_shared_rank(there + t) == rank;
    cluster.map_shared_rank(&inbox[own][t], static_cast<int>(rank))[0] = right ? 2 * there[t] : -1;
  }
  cluster.sync();
  // What each block has sent to this one is twice the same of the receiver's.
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) sum += inbox[rank][t];
  y[i] = sum;
}

// Where each thread stands: y = the rank in the cluster, and 1000 times the cluster's number.
__global__ void __cluster_dims__(2, 3) places_kernel(float* y) {
  const auto cluster = cg::this_cluster();
  const dim3 shape = cluster.dim_blocks(), at = cluster.block_index(), which = __clusterIdx();
  const bool same = at.x + 2 * at.y == cluster.block_rank() && shape.x == 2 && shape.y == 3 && shape.z == 1 &&
                    cluster.dim_threads().y == 3 * blockDim.y &&
                    cluster.thread_index().y == at.y * blockDim.y + threadIdx.y &&
                    cluster.num_threads() == 6 * threads && __clusterDimIsSpecified() == 1 &&
                    which.x * 2 + at.x == blockIdx.x && which.y * 3 + at.y == blockIdx.y;
  const unsigned number = which.x + __clusterGridDimInClusters().x * which.y;
  y[cg::this_grid().thread_rank()] = same ? static_cast<float>(1000 * number + cluster.thread_rank()) : -1;
}

// The same by PTX, whose registers and barrier are those of the groups.
__global__ void __cluster_dims__(4) registers_kernel(const float* x, float* y) {
  __shared__ float tile[threads];
  unsigned rank, blocks, at, extent, number, count, is_explicit;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(at));
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(extent));
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(is_explicit));
  const bool same = rank == at && blocks == 4 && extent == 4 && number == blockIdx.x / 4 && count == gridDim.x / 4 &&
                    is_explicit == 1;
  tile[threadIdx.x] = x[blockIdx.x * threads + threadIdx.x];
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  uint64_t there;
  unsigned whose;
  float theirs;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(&tile[threadIdx.x]), "r"((rank + 1) % 4));
  asm("getctarank.u64 %0, %1;" : "=r"(whose) : "l"(there));
  asm volatile("ld.f32 %0, [%1];" : "=f"(theirs) : "l"(there) : "memory");
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  asm volatile("barrier.cluster.wait;" ::: "memory");
  y[blockIdx.x * threads + threadIdx.x] = same && whose == (rank + 1) % 4 ? theirs : -1;
}

enum class Mistake {
  none,
  no_barrier_at_the_begin,
  relaxed_arrival,
  no_wait,
  no_barrier_at_the_end,
  past_the_peers_array,
  one_element_for_all,
  written_again_too_early,
  written_after_arrival,
  rank_outside,
  some_threads_elsewhere,
  arrives_twice,
  waits_only,
};

// y = x of the next block in the cluster.
template <Mistake mistake>
__global__ void __launch_bounds__(threads) __cluster_dims__(4, 1, 1) neighbours_kernel(const float* x, float* y) {
  __shared__ float tile[threads];
  const auto cluster = cg::this_cluster();
  const unsigned t = threadIdx.x, own = cluster.block_rank();
  const unsigned i = blockIdx.x * threads + t;
  if (mistake != Mistake::no_barrier_at_the_begin) {
    __cluster_barrier_arrive_relaxed();  // enough to know that all have begun
    __cluster_barrier_wait();
  }
  const int rank = mistake == Mistake::one_element_for_all ? 0 : static_cast<int>(own + 3) % 4;
  const unsigned place = mistake == Mistake::past_the_peers_array ? t + 1 : t;
  if (mistake != Mistake::written_after_arrival)
    cluster.map_shared_rank(tile, mistake == Mistake::rank_outside ? 4 : rank)[place] = x[i];  // sent
  if (mistake == Mistake::relaxed_arrival)
    __cluster_barrier_arrive_relaxed();
  else if (mistake != Mistake::waits_only && !(mistake == Mistake::some_threads_elsewhere && own == 2 && t >= 16))
    __cluster_barrier_arrive();
  if (mistake == Mistake::arrives_twice) __cluster_barrier_arrive();                             // again
  if (mistake == Mistake::written_after_arrival) cluster.map_shared_rank(tile, rank)[t] = x[i];  // too late
  if (mistake == Mistake::some_threads_elsewhere && own == 2 && t >= 16) __syncthreads();        // elsewhere
  if (mistake != Mistake::no_wait) __cluster_barrier_wait();                                     // all have sent
  y[i] = tile[t];                                                                                // received
  if (mistake == Mistake::no_wait) __cluster_barrier_wait();
  if (mistake != Mistake::written_again_too_early) __syncthreads();
  if (mistake != Mistake::written_again_too_early) cluster.sync();
  cluster.map_shared_rank(tile, rank)[t] = -x[i];  // sent again
  if (mistake != Mistake::no_barrier_at_the_end) cluster.sync();
}

// Threads that have exited are not waited for: y = x of the next block, of the first half of the threads.
__global__ void __cluster_dims__(4) half_kernel(const float* x, float* y) {
  __shared__ float tile[threads];
  const auto cluster = cg::this_cluster();
  const unsigned t = threadIdx.x, i = blockIdx.x * threads + t;
  if (t >= threads / 2) return;
  tile[t] = x[i];
  auto token = cluster.barrier_arrive();
  cluster.barrier_wait(static_cast<cg::cluster_group::arrival_token&&>(token));
  y[i] = cluster.map_shared_rank(tile, (cluster.block_rank() + 1) % 4)[t];
  cluster.sync();
}

// Sums of the whole grid, in two steps that its barrier keeps apart: y = x - the mean of x.
__global__ void centre_kernel(const float* x, float* y, float* sums) {
  __shared__ float tile[threads];
  const auto grid = cg::this_grid();
  const unsigned t = threadIdx.x;
  tile[t] = x[grid.thread_rank()];
  __syncthreads();
  if (t == 0) {
    float sum = 0;
    for (int k = 0; k < threads; ++k) sum += tile[k];
    sums[blockIdx.x] = sum;
  }
  grid.sync();
  float sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += sums[b];
  y[grid.thread_rank()] = tile[t] - sum / static_cast<float>(grid.num_threads());
}
