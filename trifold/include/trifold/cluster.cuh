// Messages between the blocks of a cluster (sm_90 on): each delivers its bytes and signals an mbarrier of the receiver.
// Waiting there replaces a barrier of the whole cluster, whose round trip takes longer than a row of 16,384 numbers.
// (PTX ISA, st.async and mbarrier.)
#pragma once

#include <trifold/async_copies.cuh>
#include <trifold/cuda.cuh>

namespace trifold {

// The most blocks in a cluster, if the kernel permits non-portable sizes (sm_90, sm_100); 8 are portable.
inline constexpr int most_blocks_a_cluster = 16;

}  // namespace trifold

// Defined if the architecture has clusters, as the CPU does, and where nvcc compiles host code.
#if !defined(TRIFOLD_GPU_ARCH) || TRIFOLD_GPU_ARCH >= 900
#define TRIFOLD_CLUSTERS

namespace trifold {

__device__ __forceinline__ unsigned cluster_blocks() {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

// This block's rank in its cluster.
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The index of this block's cluster in the grid.
__device__ __forceinline__ unsigned cluster_number() {
  unsigned number;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
  return number;
}

// The number of clusters in the grid.
__device__ __forceinline__ unsigned cluster_count() {
  unsigned count;
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  return count;
}

// All threads of the cluster arrive; after cluster_wait() their earlier writes are visible.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// The same with relaxed semantics, for when only mailboxes were written, followed by ready(): saves waiting for memory,
// about the latency of a load.
__device__ __forceinline__ void cluster_arrive_with_mailboxes() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The shared memory address in block `rank` of the cluster that corresponds to `address` in this block.
__device__ __forceinline__ unsigned address_in(unsigned address, unsigned rank) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// An mbarrier, which also counts bytes: a phase completes when all expected arrivals have occurred, and all bytes
// announced by them have arrived.
struct Mailbox {
  uint64_t barrier;

  // Called by one thread, followed by ready(); other blocks may send after a subsequent cluster_wait().
  __device__ __forceinline__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
  }
  static __device__ __forceinline__ void ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
  }
  __device__ __forceinline__ void arrive_and_expect(int bytes) { arrive_and_expect(shared_address(&barrier), bytes); }
  // The same for the mailbox at an address in shared memory.
  static __device__ __forceinline__ void arrive_and_expect(unsigned mailbox, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mailbox), "r"(bytes) : "memory");
  }

  // Waits until the phase of this parity has completed. Data from `send` is then in shared memory, and acquire
  // semantics at block scope are enough to read it; at cluster scope, each wait would invalidate L1.
  __device__ __forceinline__ void wait(int parity) { wait_at(shared_address(&barrier), parity); }
  static __device__ __forceinline__ void wait_at(unsigned address, int parity) {
    asm volatile(
        "{\n\t.reg .pred ended;\n"
        "again:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n\t"
        "@!ended bra again;\n\t}" ::"r"(address),
        "r"(parity)
        : "memory");
  }
};

// init() for several mailboxes. A loop, not a predicated instruction: for the latter, synccheck 2026.4 assumes that
// every thread initialises the barrier, and reports repeated initialisation.
__device__ __forceinline__ void init_mailboxes(Mailbox* mailboxes, int count, int arrivals) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) mailboxes[i].init(arrivals);
}

// Sends `message`, of 4, 8 or a multiple of 16 bytes, to an address in a block of the cluster; the mailbox there counts
// it. Both addresses are from address_in.
template <class T>
__device__ __forceinline__ void send(const T& message, unsigned to, unsigned mailbox) {
  unsigned w[sizeof(T) / 4];
  memcpy(w, &message, sizeof w);
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(w[0]),
                 "r"(mailbox)
                 : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to),
                 "r"(w[0]), "r"(w[1]), "r"(mailbox)
                 : "memory");
  } else {
    static_assert(sizeof(T) % 16 == 0, "a message has 4, 8 or so many times 16 bytes");
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 4; i += 4)
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                       to + 4 * i),
                   "r"(w[i]), "r"(w[i + 1]), "r"(w[i + 2]), "r"(w[i + 3]), "r"(mailbox)
                   : "memory");
  }
}

// Copies `bytes`, a multiple of 16, from a 16-byte boundary in global memory to an address in shared memory, in each
// block of the cluster whose bit in `blocks` is set, where the mailbox at that address counts them. L2 is read once.
__device__ __forceinline__ void copy_to_blocks(unsigned blocks, unsigned to, const void* from, int bytes,
                                               unsigned mailbox) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
      "%4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(mailbox), "h"(static_cast<uint16_t>(blocks))
      : "memory");
}

}  // namespace trifold

#endif
