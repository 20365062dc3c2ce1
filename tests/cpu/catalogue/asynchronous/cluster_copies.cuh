// Copies between the blocks of a cluster.
#pragma once

#include "instructions.cuh"

// Each block of two loads half of a tile for both. y = 2 x, of a tile a cluster.
__global__ void __cluster_dims__(2) multicast(const float* x, float* y) {
  constexpr int half = tile_floats / 2;
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  const int t = threadIdx.x, rank = static_cast<int>(cluster.block_rank());
  const float* from = x + blockIdx.x / 2 * tile_floats;
  if (t == 0) INIT(&full, 1);
  for (int i = t; i < tile_floats; i += threads) tile[i] = 0;
  cluster.sync();  // all are initialised
  float sum = 0;
  for (int i = t; i < tile_floats; i += threads) sum += tile[i];  // not ready
  FENCE();
  cluster.sync();  // all are ready
  if (t == 0) {
    EXPECT(&full, tile_bytes);                                                      // expected
    const uint16_t mask = 3;                                                        // both
    BULK_MULTICAST(tile + rank * half, from + rank * half, half * 4, &full, mask);  // multicast
  }
  AWAIT_CLUSTER(&full, 0);                                                                             // awaited
  for (int i = t; i < half; i += threads) y[blockIdx.x * half + i] = sum + 2 * tile[rank * half + i];  // read
  cluster.sync();
}

// Blocks of a pair send halves of a tile to the first one: from shared memory. y = 2 x, of a tile a cluster.
__global__ void __cluster_dims__(2) gather(const float* x, float* y) {
  constexpr int half = tile_floats / 2;
  __shared__ __align__(128) float tile[tile_floats], mine[half];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  const int t = threadIdx.x, rank = static_cast<int>(cluster.block_rank());
  if (t == 0) {
    INIT(&full, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  for (int i = t; i < half; i += threads) mine[i] = 2 * x[blockIdx.x * half + i];
  FENCE();
  cluster.sync();
  if (t == 0 && rank == 0) EXPECT(&full, tile_bytes);                                        // of both
  if (t == 0) BULK_SEND(at_rank(tile + rank * half, 0), mine, half * 4, at_rank(&full, 0));  // sent
  if (rank == 0) {
    AWAIT_CLUSTER(&full, 0);                                                            // awaited
    for (int i = t; i < tile_floats; i += threads) y[blockIdx.x * half + i] = tile[i];  // gathered
  }
  cluster.sync();
}

// Each block of two loads half of a tile, and the first one reads both halves. y = 2 x, of a tile a cluster.
__global__ void __cluster_dims__(2) lead(const float* x, float* y) {
  constexpr int half = tile_floats / 2;
  __shared__ __align__(128) float tile[half];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  const int t = threadIdx.x, rank = static_cast<int>(cluster.block_rank());
  if (t == 0) {
    INIT(&full, 1);
    EXPECT(&full, half * 4);
    BULK_LOAD(tile, x + blockIdx.x * half, half * 4, &full);  // loaded
  }
  __syncthreads();
  AWAIT(&full, 0);  // each for its own
  cluster.sync();
  if (rank == 0) {
    for (int i = t; i < tile_floats; i += threads)
      y[blockIdx.x * half + i] = 2 * cluster.map_shared_rank(tile, i / half)[i % half];  // gathered
  }
  cluster.sync();
}

// Messages by st.async to the next block of four. y = 2 x of the block before, in the cluster.
__global__ void __cluster_dims__(4) messages(const float* x, float* y) {
  __shared__ __align__(16) float inbox[tile_floats];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  const int t = threadIdx.x;
  const unsigned rank = cluster.block_rank(), next = (rank + 1) % 4;
  if (t == 0) {
    INIT(&full, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    EXPECT(&full, tile_bytes);
  }
  cluster.sync();
  const float4 v = reinterpret_cast<const float4*>(x + blockIdx.x * tile_floats)[t];
  const float4 twice = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
  SEND_FOUR(at_rank(inbox + 4 * t, next), twice, at_rank(&full, next));                       // sent
  AWAIT_CLUSTER(&full, 0);                                                                    // awaited
  for (int i = t; i < tile_floats; i += threads) y[blockIdx.x * tile_floats + i] = inbox[i];  // received
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  asm volatile("barrier.cluster.wait;" ::: "memory");
}

// The same where the last block does not read what it gets. y = 2 x of the block before, and 0 in the last block.
__global__ void __cluster_dims__(4) unread_messages(const float* x, float* y) {
  __shared__ __align__(16) float inbox[tile_floats];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  const int t = threadIdx.x;
  const unsigned rank = cluster.block_rank(), next = (rank + 1) % 4;
  if (t == 0) {
    INIT(&full, 1);
    EXPECT(&full, tile_bytes);
  }
  cluster.sync();
  const float4 v = reinterpret_cast<const float4*>(x + blockIdx.x * tile_floats)[t];
  const float4 twice = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
  SEND_FOUR(at_rank(inbox + 4 * t, next), twice, at_rank(&full, next));  // sent
  AWAIT_CLUSTER(&full, 0);                                               // read or not
  for (int i = t; i < tile_floats && rank < 3; i += threads) y[blockIdx.x * tile_floats + i] = inbox[i];
  cluster.sync();
}

// By cuda::ptx: blocks of a pair load a tile for both, send it on to each other, and store it; the sums of
// both are reduced in memory. y = 2 x.
__global__ void __cluster_dims__(2) ptx_functions(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats], inbox[tile_floats];
  __shared__ __align__(16) uint32_t numbers[4];
  __shared__ uint64_t full, received, sent, reduced;
  const auto cluster = cg::this_cluster();
  const int t = threadIdx.x, rank = static_cast<int>(cluster.block_rank()), begin = blockIdx.x / 2 * tile_floats;
  constexpr int half = tile_floats / 2;
  if (t < 4) numbers[t] = 0;
  if (t == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&received, 1);
    ptx::mbarrier_init(&sent, 1);
    ptx::mbarrier_init(&reduced, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, tile_bytes);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &received, tile_bytes);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &sent, 16);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &reduced, 4);
  }
  cluster.sync();
  if (t == 0) {
    const uint16_t both = 3;
    BULK_MULTICAST(tile + rank * half, x + begin + rank * half, tile_bytes / 2, &full, both);
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &full, 0)) {
    }
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, cluster.map_shared_rank(inbox, 1 - rank), tile,
                       tile_bytes, cluster.map_shared_rank(&received, 1 - rank));
    const uint32_t four[4] = {1, 2, 3, static_cast<uint32_t>(rank)};
    uint32_t* const there = cluster.map_shared_rank(numbers, 1 - rank);
    ptx::st_async(there, four, cluster.map_shared_rank(&sent, 1 - rank));  // sent by st_async
  }
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &received, 0)) {
  }
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &sent, 0)) {
  }
  cluster.sync();
  if (t == 0)
    ptx::red_async(ptx::op_add, cluster.map_shared_rank(numbers, 1 - rank), 41u,  // reduced
                   cluster.map_shared_rank(&reduced, 1 - rank));
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &reduced, 0)) {
  }
  const bool right = numbers[0] == 42 && numbers[1] == 2 && numbers[3] == static_cast<uint32_t>(1 - rank);
  if (t == 0) {
    if (rank == 0)
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + begin, inbox, tile_bytes);
    else if (!right)
      y[begin] = -1;
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
  }
  cluster.sync();
  if (t == 0 && right) {
    ptx::fence_proxy_async();
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, y + begin + rank * half,
                              inbox + rank * half, tile_bytes / 2);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
  }
  cluster.sync();
}
