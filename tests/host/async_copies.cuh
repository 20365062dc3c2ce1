// async_copies: operations that go on beside the thread that starts them. Each mistake is one line that is missing or
// other; the marks are those of the lines that its finding names.
#pragma once

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>

#include <cuda/ptx>

#include <trifold/cuda.cuh>

namespace cg = cooperative_groups;

constexpr int threads = 64;
constexpr int tile_floats = 256;  // 1 KiB: eight parts
constexpr int tile_bytes = tile_floats * 4;

// ------------------------------------------------------------------------------------------------- instructions

__device__ __forceinline__ uint32_t window(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
// In macros, so that a finding has the line of the kernel.
#define COPY(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(window(to)), "l"(from) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(count) asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory")
#define BULK_LOAD(to, from, bytes, barrier)                                                                        \
  asm volatile(                                                                                                    \
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(window(to)), \
      "l"(from), "r"(bytes), "r"(window(barrier))                                                                  \
      : "memory")
#define BULK_STORE(to, from, bytes)                                                                                   \
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(window(from)), "r"(bytes) \
               : "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT(count) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(count) : "memory")
#define BULK_WAIT_READ(count) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(count) : "memory")
#define FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

#define INIT(barrier, count) \
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(window(barrier)), "r"(count) : "memory")
#define EXPECT(barrier, bytes) \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(window(barrier)), "r"(bytes) : "memory")
#define ARRIVE(barrier) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(window(barrier)) : "memory")
#define AWAIT(barrier, parity)                                                                                        \
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"( \
                   window(barrier)),                                                                                  \
               "r"(parity)                                                                                            \
               : "memory")
// The same of what other blocks of the cluster have written.
#define AWAIT_CLUSTER(barrier, parity)                                                                        \
  asm volatile(                                                                                               \
      "{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @!p bra " \
      "again; }" ::"r"(window(barrier)),                                                                      \
      "r"(parity)                                                                                             \
      : "memory")

__device__ __forceinline__ uint32_t at_rank(const void* shared, unsigned rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(window(shared)), "r"(rank));
  return address;
}

// Each kernel has y = 2 x, of a tile for each block, and one of these; `none` is right.
enum class Mistake {
  none,
  // Proxies.
  no_fence,               // 1
  fence_in_the_loop,      // 2
  no_fence_after_a_read,  // 4
  no_fence_of_global,     // 5
  fence_after_barrier,    // 6
  no_fence_after_copy,    // 7
  // Groups.
  some_wait,            // 8
  lane_waits_for_all,   // 9
  one_group_too_many,   // 10
  waits_for_read_only,  // 11
  no_wait_at_the_end,   // 12
  no_wait,              // of cp.async in its own thread
  written_too_early,    // the source, before it is read
  // Counted by barriers.
  no_await,               // 13
  expects_too_much,       // 14
  expects_too_little,     // 15
  expects_one_of_two,     // 16
  receiver_expects_none,  // 17
  receiver_not_ready,     // 17
  rank_outside,           // 18
  no_empty_barrier,       // 28
  sends_to_the_ended,     // 33
  arrives_before_copies,  // by its own arrival in place of that of its copies
  // Forms.
  odd_target,  // 50
  odd_size,    // 51
};

// ------------------------------------------------------------------------------------------------- proxies

// Generic writes, then a bulk store.
template <Mistake mistake>
__global__ void store_kernel(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  const int t = threadIdx.x;
  for (int i = t; i < tile_floats; i += threads) tile[i] = 2 * x[blockIdx.x * tile_floats + i];  // written
  if (mistake != Mistake::no_fence && mistake != Mistake::fence_after_barrier) FENCE();
  __syncthreads();
  if (mistake == Mistake::fence_after_barrier) FENCE();
  if (t == 0) {
    BULK_STORE(y + blockIdx.x * tile_floats, tile, tile_bytes);  // stored
    BULK_COMMIT();
    if (mistake == Mistake::written_too_early) tile[1] = 0;  // too early
    if (mistake != Mistake::no_wait_at_the_end) BULK_WAIT_READ(0);
  }
}

// The same in a loop, which may have no round: the fence of the last round is that of the tile.
template <Mistake mistake>
__global__ void rounds_kernel(const float* x, float* y, int rounds) {
  __shared__ __align__(128) float tile[tile_floats];
  const int t = threadIdx.x;
  for (int i = t; i < tile_floats; i += threads) tile[i] = 2 * x[blockIdx.x * tile_floats + i];  // written
  for (int round = 0; round < rounds; ++round) {
    for (int i = t; i < tile_floats; i += threads) tile[i] += 1;
    if (mistake == Mistake::fence_in_the_loop) FENCE();
  }
  if (mistake != Mistake::fence_in_the_loop) FENCE();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y + blockIdx.x * tile_floats, tile, tile_bytes);  // stored
    BULK_COMMIT();
    BULK_WAIT_READ(0);
  }
}

// Bulk loads, one after the other into one tile, which all threads read.
template <Mistake mistake>
__global__ void load_kernel(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats + 4];
  __shared__ uint64_t full;
  const int t = threadIdx.x;
  const float* from = x + blockIdx.x * tile_floats;
  float* to = y + blockIdx.x * tile_floats;
  if (t == 0) INIT(&full, 1);
  __syncthreads();
  constexpr int half = tile_floats / 2, bytes = half * 4;
  for (int round = 0; round < 2; ++round) {
    if (t == 0) {
      constexpr int more = mistake == Mistake::expects_too_much     ? 64
                           : mistake == Mistake::expects_too_little ? -256
                                                                    : 0;
      EXPECT(&full, bytes + more);
      constexpr int off = mistake == Mistake::odd_target ? 1 : 0, less = mistake == Mistake::odd_size ? 4 : 0;
      BULK_LOAD(tile + off, from + round * half, bytes - less, &full);  // loaded
    }
    if (mistake != Mistake::no_await) AWAIT(&full, round);
    for (int i = t; i < half; i += threads) to[round * half + i] = 2 * tile[i];  // read
    if (mistake == Mistake::no_await) AWAIT(&full, round);
    if (mistake != Mistake::no_fence_after_a_read) FENCE();
    __syncthreads();
  }
}

// A block writes memory, another one loads it in bulk behind a flag.
template <Mistake mistake>
__global__ void flag_kernel(const float* x, float* y, float* passed, unsigned* flag) {
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    for (int i = t; i < tile_floats; i += threads) passed[i] = x[i];  // written
    if (mistake != Mistake::no_fence_of_global && mistake != Mistake::fence_after_barrier)
      asm volatile("fence.proxy.async.global;" ::: "memory");
    __syncthreads();
    if (t == 0) {
      __threadfence();
      atomicExch(flag, 1);
    }
    return;
  }
  if (t == 0) {
    INIT(&full, 1);
    while (atomicAdd(flag, 0) == 0) __nanosleep(20);
    __threadfence();
    if (mistake == Mistake::fence_after_barrier) asm volatile("fence.proxy.async;" ::: "memory");
    EXPECT(&full, tile_bytes);
    BULK_LOAD(tile, passed, tile_bytes, &full);  // loaded
  }
  __syncthreads();
  AWAIT(&full, 0);
  for (int i = t; i < tile_floats; i += threads) y[i] = 2 * tile[i];
}

// cp.async goes through the generic proxy: a bulk store of what it has copied takes a fence.
template <Mistake mistake>
__global__ void copied_kernel(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  const int t = threadIdx.x;
  COPY(tile + 4 * t, x + blockIdx.x * tile_floats + 4 * t);  // copied
  COMMIT();
  WAIT(0);
  if (mistake != Mistake::no_fence_after_copy) FENCE();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y + blockIdx.x * tile_floats, tile, tile_bytes);  // stored
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                     y + blockIdx.x * tile_floats + tile_floats * gridDim.x),
                 "r"(window(tile)), "r"(tile_bytes)
                 : "memory");
    BULK_COMMIT();
    BULK_WAIT(0);
  }
  __syncthreads();
  for (int i = t; i < tile_floats; i += threads) {
    float* to = y + blockIdx.x * tile_floats + i;
    *to += to[tile_floats * gridDim.x];
  }
}

// ------------------------------------------------------------------------------------------------- groups

// Two tiles by cp.async, of which each thread reads what others have copied.
template <Mistake mistake>
__global__ void groups_kernel(const float* x, float* y) {
  __shared__ __align__(16) float tile[2][tile_floats];
  const int t = threadIdx.x;
  const float* from = x + blockIdx.x * tile_floats;
  constexpr int half = tile_floats / 2;
  if (t < threads / 2) {
    COPY(tile[0] + 4 * t, from + 4 * t);  // copied
    COMMIT();
    COPY(tile[1] + 4 * t, from + half + 4 * t);  // copied last
    COMMIT();
    if (mistake == Mistake::no_wait) y[blockIdx.x * tile_floats + 4 * t] = tile[0][4 * t];  // read
    if (mistake == Mistake::written_too_early) tile[0][4 * t] = 0;                          // too early
    WAIT(1);
  }
  if (mistake == Mistake::lane_waits_for_all) y[blockIdx.x * tile_floats + t] = tile[0][(t ^ 1) * 2];  // read
  __syncthreads();
  for (int i = t; i < half; i += threads) y[blockIdx.x * tile_floats + i] = 2 * tile[0][half - 1 - (half - 1 - i)];
  if (mistake != Mistake::some_wait || t % 2 == 0) WAIT(0);
  __syncthreads();
  for (int i = t; i < half; i += threads) y[blockIdx.x * tile_floats + half + i] = 2 * tile[1][i];  // read last
}

// A ring of two slots, from which bulk stores read.
template <Mistake mistake>
__global__ void ring_kernel(const float* x, float* y) {
  constexpr int rounds = 4, part = tile_floats / rounds;
  __shared__ __align__(128) float ring[2][part];
  const int t = threadIdx.x;
  for (int round = 0; round < rounds; ++round) {
    if (t == 0) {
      if (mistake == Mistake::one_group_too_many) {
        BULK_WAIT_READ(2);
      } else {
        BULK_WAIT_READ(1);
      }
    }
    __syncthreads();
    const int place = blockIdx.x * tile_floats + round * part;
    for (int i = t; i < part; i += threads) ring[round % 2][i] = 2 * x[place + i];  // refilled
    FENCE();
    __syncthreads();
    if (t == 0) {
      BULK_STORE(y + place, ring[round % 2], part * 4);  // stored
      BULK_COMMIT();
    }
  }
  if (t != 0) return;
  if (mistake == Mistake::waits_for_read_only) {
    BULK_WAIT_READ(0);
  } else {
    BULK_WAIT(0);
  }
  y[blockIdx.x * tile_floats] += 0;  // its target
}

// ------------------------------------------------------------------------------------------------- barriers

// A producer, the first warp, and consumers, over a ring of two slots with barriers for full and empty ones.
template <Mistake mistake>
__global__ void pipeline_kernel(const float* x, float* y) {
  constexpr int rounds = 4, part = tile_floats / rounds;
  __shared__ __align__(128) float ring[2][part];
  __shared__ uint64_t full[2], empty[2];
  const int t = threadIdx.x;
  if (t == 0) {
    for (int slot = 0; slot < 2; ++slot) {
      INIT(&full[slot], 1);
      INIT(&empty[slot], threads - 32);
    }
  }
  __syncthreads();
  const int begin = blockIdx.x * tile_floats;
  if (t == 0) {
    for (int round = 0; round < rounds; ++round) {
      const int slot = round % 2, phase = round / 2;
      if (mistake != Mistake::no_empty_barrier) AWAIT(&empty[slot], (phase & 1) ^ 1);
      EXPECT(&full[slot], part * 4);
      BULK_LOAD(ring[slot], x + begin + round * part, part * 4, &full[slot]);  // loaded
    }
  } else if (t >= 32) {
    for (int round = 0; round < rounds; ++round) {
      const int slot = round % 2, phase = round / 2;
      AWAIT(&full[slot], phase & 1);
      for (int i = t - 32; i < part; i += threads - 32) y[begin + round * part + i] = 2 * ring[slot][i];  // consumed
      FENCE();
      ARRIVE(&empty[slot]);
    }
  }
}

// cp.async that a barrier waits for.
template <Mistake mistake>
__global__ void late_arrival_kernel(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const int t = threadIdx.x;
  if (t == 0) INIT(&full, threads);
  __syncthreads();
  COPY(tile + 4 * t, x + blockIdx.x * tile_floats + 4 * t);  // copied
  if (mistake == Mistake::arrives_before_copies) {
    ARRIVE(&full);
  } else {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(window(&full)) : "memory");
  }
  AWAIT(&full, 0);
  for (int i = t; i < tile_floats; i += threads) y[blockIdx.x * tile_floats + i] = 2 * tile[i];  // read
  WAIT(0);
}

// ------------------------------------------------------------------------------------------------- clusters

// Each block of two loads half of a tile for both.
template <Mistake mistake>
__global__ void __cluster_dims__(2) multicast_kernel(const float* x, float* y) {
  constexpr int half = tile_floats / 2;
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  const int t = threadIdx.x, rank = static_cast<int>(cluster.block_rank());
  const float* from = x + blockIdx.x / 2 * tile_floats;
  if (t == 0) INIT(&full, 1);
  for (int i = t; i < tile_floats && mistake == Mistake::receiver_not_ready; i += threads) tile[i] = 0;
  cluster.sync();
  float sum = 0;
  if (mistake == Mistake::receiver_not_ready)
    for (int i = t; i < tile_floats; i += threads) sum += tile[i];  // not ready
  FENCE();
  __syncthreads();
  if (t == 0) {
    EXPECT(&full, mistake == Mistake::receiver_expects_none && rank == 1 ? 0 : tile_bytes);
    const uint16_t mask = mistake == Mistake::rank_outside ? 7 : 3;
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
        "%4;" ::"r"(window(tile + rank * half)),
        "l"(from + rank * half), "r"(half * 4), "r"(window(&full)), "h"(mask)
        : "memory");  // multicast
  }
  AWAIT_CLUSTER(&full, 0);
  for (int i = t; i < half; i += threads) y[blockIdx.x * half + i] = sum + 2 * tile[rank * half + i];  // read
  cluster.sync();
}

// Blocks of a pair send halves of a tile to the first one: from shared memory.
template <Mistake mistake>
__global__ void __cluster_dims__(2) gather_kernel(const float* x, float* y) {
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
  if (t == 0 && rank == 0) EXPECT(&full, mistake == Mistake::expects_one_of_two ? half * 4 : tile_bytes);
  if (t == 0)
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     at_rank(tile + rank * half, 0)),
                 "r"(window(mine)), "r"(half * 4), "r"(at_rank(&full, 0))
                 : "memory");  // sent
  if (rank == 0) {
    AWAIT_CLUSTER(&full, 0);
    for (int i = t; i < tile_floats; i += threads) y[blockIdx.x * half + i] = tile[i];  // gathered
  }
  cluster.sync();
}

// Messages by st.async to the next block of four: y = 2 x of the block before, in the cluster.
template <Mistake mistake>
__global__ void __cluster_dims__(4) messages_kernel(const float* x, float* y) {
  __shared__ __align__(16) float inbox[tile_floats];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  const int t = threadIdx.x;
  const unsigned next = (cluster.block_rank() + 1) % 4;
  if (t == 0) {
    INIT(&full, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    EXPECT(&full, tile_bytes);
  }
  cluster.sync();
  if (mistake == Mistake::sends_to_the_ended && cluster.block_rank() == 3) return;  // ended
  const float4 v = reinterpret_cast<const float4*>(x + blockIdx.x * tile_floats)[t];
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   at_rank(inbox + 4 * t, next)),
               "r"(__float_as_uint(2 * v.x)), "r"(__float_as_uint(2 * v.y)), "r"(__float_as_uint(2 * v.z)),
               "r"(__float_as_uint(2 * v.w)), "r"(at_rank(&full, next))
               : "memory");  // sent
  if (mistake == Mistake::sends_to_the_ended) return;
  if (mistake != Mistake::no_await) AWAIT_CLUSTER(&full, 0);
  for (int i = t; i < tile_floats; i += threads) y[blockIdx.x * tile_floats + i] = inbox[i];  // received
  if (mistake == Mistake::no_await) AWAIT_CLUSTER(&full, 0);
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");  // no block ends before the others have sent
  asm volatile("barrier.cluster.wait;" ::: "memory");
}

// ------------------------------------------------------------------------------------------------- CUDA's functions

// __pipeline_…: the last thread reads two floats and gets zeros for the others.
template <Mistake mistake>
__global__ void functions_kernel(const float* x, float* y) {
  __shared__ __align__(16) float tile[tile_floats];
  const int t = threadIdx.x;
  const float* from = x + blockIdx.x * tile_floats;
  __pipeline_memcpy_async(tile + 4 * t, from + 4 * t, 16, t == threads - 1 ? 8 : 0);  // copied
  __pipeline_commit();
  if (mistake != Mistake::no_wait) __pipeline_wait_prior(0);
  __syncthreads();
  for (int i = t; i < tile_floats; i += threads)
    y[blockIdx.x * tile_floats + i] = 2 * (i < tile_floats - 2 ? tile[i] : tile[i] + from[i]);  // read
  if (mistake == Mistake::no_wait) __pipeline_wait_prior(0);
}

template <Mistake mistake>
__global__ void group_copies_kernel(const float* x, float* y) {
  __shared__ __align__(16) float tile[2][tile_floats / 2];
  const auto block = cg::this_thread_block();
  const int t = threadIdx.x;
  constexpr int half = tile_floats / 2;
  const float* from = x + blockIdx.x * tile_floats;
  cg::memcpy_async(block, tile[0], from, sizeof tile[0]);         // copied
  cg::memcpy_async(block, tile[1], from + half, sizeof tile[1]);  // copied last
  cg::wait_prior<1>(block);
  for (int i = t; i < half; i += threads) y[blockIdx.x * tile_floats + i] = 2 * tile[0][i];
  if (mistake != Mistake::no_wait) cg::wait(block);
  for (int i = t; i < half; i += threads) y[blockIdx.x * tile_floats + half + i] = 2 * tile[1][i];  // read last
  if (mistake == Mistake::no_wait) cg::wait(block);
}

// The same by cuda::ptx: blocks of a pair load a tile for both, send it on to each other, and store it; the sums of
// both are reduced in memory. y = 2 x.
template <Mistake mistake>
__global__ void __cluster_dims__(2) ptx_functions_kernel(const float* x, float* y) {
  namespace ptx = cuda::ptx;
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
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile + rank * half, x + begin + rank * half,
                       tile_bytes / 2, &full, uint16_t{3});
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
  if (mistake != Mistake::no_await)
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

// What needs no fence: bulk loads that are read plainly, a store from what a load has brought, a load into what a store
// has read, and a bulk load of what was read plainly.
template <Mistake mistake>
__global__ void no_fence_kernel(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const int t = threadIdx.x;
  const int begin = blockIdx.x * tile_floats;
  const float before = x[begin + t];
  if (t == 0) {
    INIT(&full, 1);
    EXPECT(&full, tile_bytes);
    BULK_LOAD(tile, x + begin, tile_bytes, &full);
    AWAIT(&full, 0);
    BULK_STORE(y + begin, tile, tile_bytes);
    BULK_COMMIT();
    BULK_WAIT_READ(0);
    EXPECT(&full, tile_bytes);
    BULK_LOAD(tile, x + begin, tile_bytes, &full);
    AWAIT(&full, 1);
    BULK_WAIT(0);
  }
  __syncthreads();
  for (int i = t; i < tile_floats; i += threads) y[begin + i] += i == t ? before : tile[i];
}
