// Blocks of a cluster that use each other's shared memory, and the cluster's barrier.
#pragma once

#include "instructions.cuh"

// y = x of the next block in the cluster; then each block sends once more.
__global__ void __cluster_dims__(4) shift(const float* x, float* y) {
  __shared__ float tile[threads];
  const auto cluster = cg::this_cluster();
  const unsigned t = threadIdx.x, own = cluster.block_rank();
  const unsigned i = blockIdx.x * threads + t;
  cluster.sync();                                  // all have begun
  const int rank = static_cast<int>(own + 3) % 4;  // the block before
  cluster.map_shared_rank(tile, rank)[t] = x[i];   // sent
  __cluster_barrier_arrive();                      // arrives
  __cluster_barrier_wait();                        // all have sent
  y[i] = tile[t];                                  // received
  cluster.sync();                                  // all have received
  cluster.map_shared_rank(tile, rank)[t] = -x[i];  // sent again
  cluster.sync();                                  // the end
}
