// A ring of slots over the blocks of a cluster: y = 2 x in each of them, tile by tile. One block copies each tile into
// all blocks' slots at once; the others release a slot by an arrival at that block's barrier. And: what goes into the
// memory of a block that ends. Each mistake is one line that is missing or other.
#include <cooperative_groups.h>

#include <cuda/ptx>
#include <utility>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

constexpr int threads = 64, blocks = 4, tile = 64, tiles = 5, slots = 2;
constexpr unsigned tile_bytes = tile * sizeof(float);

enum Mistake { none, no_release, own_release, no_wait_for_release, no_fence, no_await, no_wait_for_others };

__device__ uint32_t window(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
__device__ void await(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::
          "r"(window(barrier)),
      "r"(parity)
      : "memory");
}
// At the barrier that block `rank` has at the place of this one.
__device__ void arrive_at(uint64_t* barrier, unsigned rank) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(window(barrier)),
      "r"(rank)
      : "memory");
}

extern "C" __global__ void __cluster_dims__(blocks) ring(const float* x, float* y, int mistake) {
  __shared__ __align__(128) float slot[slots][tile];
  __shared__ uint64_t full[slots], empty[slots];
  const auto cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank();
  if (threadIdx.x == 0) {
    for (int s = 0; s < slots; ++s) {
      ptx::mbarrier_init(&full[s], 1);
      ptx::mbarrier_init(&empty[s], blocks);
    }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  cluster.sync();
  for (int each = 0; each < tiles; ++each) {
    const int s = each % slots;
    const unsigned parity = each / slots % 2;
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[s], tile_bytes);
      if (rank == 0) {
        if (mistake != no_wait_for_release) await(&empty[s], parity ^ 1);
        constexpr uint16_t all = (1 << blocks) - 1;
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, slot[s], x + each * tile, tile_bytes, &full[s], all);
      }
    }
    await(&full[s], parity);
    y[(rank * tiles + each) * tile + threadIdx.x] = 2 * slot[s][threadIdx.x];  // used
    if (mistake != no_fence) ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0 && mistake != no_release) arrive_at(&empty[s], mistake == own_release ? rank : 0);
  }
  if (mistake != no_wait_for_others) cluster.sync();
}

// Block 1 sends into block 0, by st.async or by a bulk copy; y[0] is what has come.
extern "C" __global__ void __cluster_dims__(2) visit(const float* x, float* y, int mistake, int in_bulk) {
  __shared__ __align__(128) float sent[4], inbox[4];
  __shared__ uint64_t full;
  const auto cluster = cg::this_cluster();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, in_bulk ? 16 : 4);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  if (cluster.block_rank() == 1 && threadIdx.x < 4) sent[threadIdx.x] = 2 * x[threadIdx.x];
  ptx::fence_proxy_async(ptx::space_shared);
  cluster.sync();
  if (cluster.block_rank() == 1 && threadIdx.x == 0) {
    uint64_t* const there = cluster.map_shared_rank(&full, 0);
    if (in_bulk)
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, cluster.map_shared_rank(inbox, 0), sent, 16, there);
    else
      ptx::st_async(cluster.map_shared_rank(inbox, 0), sent[0], there);
  }
  cluster.sync();
  if (cluster.block_rank() == 0 && mistake != no_await) {
    await(&full, 0);
    if (threadIdx.x == 0) y[0] = inbox[0];
  }
  if (in_bulk) cluster.sync();  // its source is block 1's
}

// Each warp's lines of memory are written, forgotten and, but for a mistake, written again.
extern "C" __global__ void forget(const float* x, float* y, int mistake) {
  const int i = threadIdx.x;
  y[i] = x[i];
  __syncwarp();
  if (i % 32 == 0) asm volatile("discard.global.L2 [%0], 128;" ::"l"(y + i) : "memory");
  __syncwarp();
  if (mistake == none) y[i] = x[i];
  y[i] += x[i];  // read again
}

// Each block publishes a value by a flag, for which one of another cluster waits.
template <class Fence>
__device__ void pass_on(const float* x, float* y, unsigned* flags, unsigned distance, Fence fence) {
  const unsigned from = (blockIdx.x + gridDim.x - distance) % gridDim.x;
  if (threadIdx.x != 0) return;
  y[blockIdx.x] = x[blockIdx.x];  // published
  fence();
  atomicExch(&flags[blockIdx.x], 1u);
  while (atomicAdd(&flags[from], 0u) == 0) continue;
  fence();
  y[gridDim.x + blockIdx.x] = 2 * y[from];  // taken
}
extern "C" __global__ void __cluster_dims__(4) publish(const float* x, float* y, unsigned* flags, int way) {
  const auto by_cluster = [] { asm volatile("fence.acq_rel.cluster;" ::: "memory"); };
  if (way == 0) pass_on(x, y, flags, 4, [] { asm volatile("fence.acq_rel.gpu;" ::: "memory"); });
  if (way == 1) pass_on(x, y, flags, 4, by_cluster);  // too narrow
  if (way == 2 && threadIdx.x == 0) {                 // right: of the same cluster
    if (blockIdx.x % 4 < 2) {
      if (blockIdx.x % 4 == 0) {
        y[blockIdx.x] = x[blockIdx.x];
        ptx::fence(ptx::sem_acq_rel, ptx::scope_cluster);
        atomicExch(&flags[blockIdx.x], 1u);
      } else {
        while (atomicAdd(&flags[blockIdx.x - 1], 0u) == 0) continue;
        ptx::fence(ptx::sem_acq_rel, ptx::scope_cluster);
        y[gridDim.x + blockIdx.x] = 2 * y[blockIdx.x - 1];
      }
    }
  }
}

// Each block reads what another one has written before the grid's barrier.
extern "C" __global__ void whole_grid(const float* x, float* y, int waits) {
  const auto grid = cg::this_grid();
  const unsigned i = grid.thread_rank(), n = grid.num_threads();
  y[i] = x[i];
  auto token = grid.barrier_arrive();
  const float own = x[i];
  if (waits) grid.barrier_wait(std::move(token));
  y[n + i] = own + y[n - 1 - i];
}

// Each thread notes the step that it comes to, waits at the barrier that `barriers` has for it, and counts the threads
// that should have come there and have not: those of the cluster, or of the block. It exits at its step of `ends`.
extern "C" __global__ void __cluster_dims__(blocks) steps(const int* barriers, const int* ends, int count, int* late) {
  __shared__ int reached[8];
  const auto cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), own = rank * blockDim.x + threadIdx.x;
  late += (blockIdx.x - rank) * blockDim.x;
  for (int step = 0; step < count && step < ends[own]; ++step) {
    reached[threadIdx.x] = step;
    bool of_block = false;
    switch (barriers[step]) {
      case 0: cluster.sync(); break;
      case 1: cluster.barrier_wait(cluster.barrier_arrive()); break;
      case 2:
        __syncthreads();
        of_block = true;
        break;
      case 3:  // from two lines
        if (own % 3 == 0)
          cluster.sync();
        else
          cluster.sync();
        break;
      default: __syncwarp(); continue;
    }
    for (unsigned other = 0; other < blocks * blockDim.x; ++other) {
      const unsigned block = other / blockDim.x;
      if (ends[other] <= step || (of_block && block != rank)) continue;
      late[own] += cluster.map_shared_rank(reached, block)[other % blockDim.x] < step;
    }
  }
}
