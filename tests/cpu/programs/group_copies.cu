// Copies of groups by the headers that need no pipeline: cuda::memcpy_async for a barrier, which is followed by a bulk
// store to its source (CUDA C++ Programming Guide, "Asynchronous Data Copies using the TMA"), and
// cooperative_groups::memcpy_async of elements, by a group whose kind is known when the kernel runs.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/ptx>

#include <cstdio>
#include <utility>

#include "check.h"

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

__global__ void add_one(int* data) {
  __shared__ alignas(16) int tile[64];
  __shared__ cuda::barrier<cuda::thread_scope_block> full;
  if (threadIdx.x == 0) init(&full, blockDim.x);
  __syncthreads();
  if (threadIdx.x == 0) cuda::memcpy_async(tile, data, cuda::aligned_size_t<16>(sizeof tile), full);
  full.wait(full.arrive());
  tile[threadIdx.x] += 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, data, tile, sizeof tile);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
  }
}

__device__ int sum(cg::thread_group group, int* scratch, int value) {
  const unsigned rank = group.thread_rank();
  for (unsigned step = group.size() / 2; step > 0; step /= 2) {
    scratch[rank] = value;
    group.sync();
    if (rank < step) value += scratch[rank + step];
    group.sync();
  }
  return value;
}

__global__ void sums(const int* in, int count, int* out) {
  __shared__ int tile[64];
  __shared__ int scratch[64];
  const cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, tile, 64, in, count);
  cg::wait(block);
  const int all = sum(block, scratch, tile[threadIdx.x]);
  const cg::thread_group half = cg::tiled_partition(block, 16);
  const int of_half = sum(half, scratch + threadIdx.x / 16 * 16, tile[threadIdx.x]);
  if (threadIdx.x == 0) out[0] = all;
  if (half.thread_rank() == 0) out[1 + threadIdx.x / 16] = of_half;
}

int main() {
  int numbers[64], got[5];
  for (int i = 0; i < 64; ++i) numbers[i] = i;
  int *x, *y;
  CHECK(cudaMalloc(&x, sizeof numbers));
  CHECK(cudaMalloc(&y, sizeof got));
  CHECK(cudaMemcpy(x, numbers, sizeof numbers, cudaMemcpyHostToDevice));
  add_one<<<1, 64>>>(x);
  sums<<<1, 64>>>(x, 64, y);
  CHECK(cudaMemcpy(got, y, sizeof got, cudaMemcpyDeviceToHost));
  std::printf("%d %d %d %d %d\n", got[0], got[1], got[2], got[3], got[4]);
  CHECK(cudaFree(x));
  CHECK(cudaFree(y));
}
