// Shared by the kernels of this folder: sizes, and instructions for which CUDA has no function.
#pragma once

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline.h>
#include <cuda/barrier>
#include <cuda/ptx>

#include <trifold/cuda.cuh>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

constexpr int threads = 64;
constexpr int tile_floats = 256;  // 1 KiB: eight parts
constexpr int tile_bytes = tile_floats * 4;

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
#define BULK_ADD(to, from, bytes)                                                                      \
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), \
               "r"(window(from)), "r"(bytes)                                                           \
               : "memory")
// To another block of the cluster, and counted there: addresses of at_rank.
#define BULK_SEND(to, from, bytes, barrier)                                                                     \
  asm volatile(                                                                                                 \
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), \
      "r"(window(from)), "r"(bytes), "r"(barrier)                                                               \
      : "memory")
#define BULK_MULTICAST(to, from, bytes, barrier, mask)                                                              \
  asm volatile(                                                                                                     \
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], " \
      "%4;" ::"r"(window(to)),                                                                                      \
      "l"(from), "r"(bytes), "r"(window(barrier)), "h"(mask)                                                        \
      : "memory")
#define SEND_FOUR(to, v, barrier)                                                                                      \
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), \
               "r"(__float_as_uint((v).x)), "r"(__float_as_uint((v).y)), "r"(__float_as_uint((v).z)),                  \
               "r"(__float_as_uint((v).w)), "r"(barrier)                                                               \
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
#define ARRIVE_OF_COPIES(barrier) \
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(window(barrier)) : "memory")
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

#define BAR_SYNC(number, count) asm volatile("bar.sync %0, %1;" ::"n"(number), "n"(count) : "memory")
#define BAR_ARRIVE(number, count) asm volatile("bar.arrive %0, %1;" ::"n"(number), "n"(count) : "memory")
