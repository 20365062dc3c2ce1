// clusters: blocks of a cluster that use each other's shared memory.
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
  // The values that each block has sent to this one are twice the receiver's.
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) sum += inbox[rank][t];
  y[i] = sum;
}

// The position of each thread: y = the rank in the cluster, and 1000 times the cluster's number.
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

// The first block of a cluster sends its x to the block of this rank: y.
__global__ void __launch_bounds__(threads) __cluster_dims__(4, 1, 1) send_kernel(const float* x, float* y, int rank) {
  __shared__ float tile[threads];
  const auto cluster = cg::this_cluster();
  const unsigned t = threadIdx.x, i = blockIdx.x * threads + t;
  tile[t] = 0;
  cluster.sync();
  if (cluster.block_rank() == 0) cluster.map_shared_rank(tile, rank)[t] = x[i];
  cluster.sync();
  y[i] = tile[t];
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
