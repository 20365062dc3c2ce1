// Cooperative groups of several warps, and libcu++'s latch and semaphore. The argument is a mistake.
#undef NDEBUG
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <cassert>
#include <cstdio>
#include <cstring>
#include <new>

#include <cuda/atomic>
#include <cuda/latch>
#include <cuda/semaphore>

#include "check.h"

namespace cg = cooperative_groups;

enum Mistake { none, missing, unordered, absent };

template <unsigned size>
__global__ void tiles(int* sums, int mistake) {
  __shared__ cg::block_tile_memory<1024> memory;
  __shared__ int squares[1024];
  const auto block = cg::this_thread_block(memory);
  const auto tile = cg::tiled_partition<size>(block);
  const int rank = tile.thread_rank(), t = block.thread_rank(), n = size;
  assert(tile.meta_group_rank() == t / size && tile.meta_group_size() == block.size() / size);
  if (mistake == missing && t % size == 7) return;
  assert(cg::reduce(tile, rank, cg::plus<int>()) == n * (n - 1) / 2);
  assert(cg::reduce(tile, rank, cg::greater<int>()) == n - 1);
  assert(cg::inclusive_scan(tile, 1) == rank + 1);
  assert(cg::exclusive_scan(tile, 1) == rank);
  assert(cg::inclusive_scan(tile, rank, cg::greater<int>()) == rank);
  assert(tile.shfl(t, 40) == t / n * n + 40);
  assert(tile.any(rank == 33) && !tile.any(rank < 0) && tile.all(rank >= 0) && !tile.all(rank != 33));
  squares[t] = rank * rank;  // written
  if (mistake != unordered) tile.sync();
  const int other = squares[t / size * size + size - 1 - rank];  // read
  assert(other == (n - 1 - rank) * (n - 1 - rank));
  const auto warp = cg::tiled_partition<32>(tile);
  assert(warp.meta_group_rank() == rank / 32 && warp.meta_group_size() == size / 32);
  if (t / size == 0) {  // the other tiles do not come
    tile.sync();
    cuda::atomic_ref<int, cuda::thread_scope_block> total(sums[0]);
    const int before = cg::exclusive_scan_update(tile, total, 2);
    assert(before == 5 + 2 * rank);
  }
}

// Values of up to 32 bytes, of which a warp's own functions exchange 8: each lane's are its rank, and more.
struct Three {
  float rank, next;
  short square;
};
struct alignas(16) Most {
  double rank;
  int square;
  uint4 next;
};
template <class T>
__device__ void exchanged() {
  const auto made = [](int rank) {
    T value{};
    value.rank = rank;
    value.square = rank * rank;
    return value;
  };
  const auto is = [](const T& value, int rank) { return value.rank == rank && value.square == rank * rank; };
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  const int rank = tile.thread_rank();
  const T own = made(rank);
  assert(is(tile.shfl(own, 5), 5) && is(tile.shfl_xor(own, 3), rank ^ 3));
  assert(is(tile.shfl_up(own, 2), rank < 2 ? rank : rank - 2));
  assert(is(tile.shfl_down(own, 2), rank < 6 ? rank + 2 : rank));
  const auto most = [](const T& a, const T& b) { return a.rank < b.rank ? b : a; };
  assert(is(cg::reduce(tile, own, most), 7) && is(cg::inclusive_scan(tile, own, most), rank));
  if (rank % 2 == 1) {
    const auto odd = cg::coalesced_threads();
    assert(is(odd.shfl(own, 1), 3) && is(cg::reduce(odd, own, most), 7));
  }
}
__global__ void large_values() {
  exchanged<Three>();
  exchanged<Most>();
}

// The second block adds when each thread of the first has counted down; a semaphore lets one thread add at a time.
using Latch = cuda::latch<cuda::thread_scope_device>;
using Semaphore = cuda::binary_semaphore<cuda::thread_scope_device>;
__global__ void ordered(Latch* latch, Semaphore* free, int* x, int mistake) {
  if (blockIdx.x == 0) {
    if (threadIdx.x < 32) x[threadIdx.x] = threadIdx.x;  // filled
    if (mistake != absent || threadIdx.x > 0) latch->count_down();
  } else {
    if (mistake != unordered) latch->wait();
    const int own = x[threadIdx.x % 32];  // used
    if (threadIdx.x < 32) {
      free->acquire();
      x[32] += own;  // added
      free->release();
    }
  }
}

int main(int argc, char** argv) {
  const char* const words[] = {"none", "missing", "unordered", "absent"};
  int mistake = none, first = argc > 2;
  for (int i = 0; i < 4; ++i)
    if (argc > 1 && strcmp(argv[1], words[i]) == 0) mistake = i;
  int *x, start = 5;
  CHECK(cudaMallocManaged(&x, 33 * sizeof(int)));
  if (!first) {
    for (int n : {64, 128, 256, 512, 1024}) {
      memcpy(x, &start, sizeof(int));
      if (n == 64) tiles<64><<<1, 1024>>>(x, mistake);
      if (n == 128) tiles<128><<<1, 256>>>(x, mistake);
      if (n == 256) tiles<256><<<1, 512>>>(x, mistake);
      if (n == 512) tiles<512><<<1, 512>>>(x, mistake);
      if (n == 1024) tiles<1024><<<1, 1024>>>(x, mistake);
      CHECK(cudaDeviceSynchronize());
      if (x[0] != 5 + 2 * n) printf("%d: %d\n", n, x[0]);
    }
  }
  large_values<<<1, 32>>>();
  Latch* latch;
  Semaphore* free;
  CHECK(cudaMallocManaged(&latch, sizeof(Latch)));
  CHECK(cudaMallocManaged(&free, sizeof(Semaphore)));
  new (latch) Latch(64);
  new (free) Semaphore(1);
  x[32] = 0;
  ordered<<<2, 64>>>(latch, free, x, mistake);
  CHECK(cudaDeviceSynchronize());
  printf("%d\n", x[32]);
  CHECK(cudaFree(x));
  CHECK(cudaFree(latch));
  CHECK(cudaFree(free));
}
