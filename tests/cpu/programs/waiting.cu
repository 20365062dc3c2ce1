// Blocks that wait for other blocks: a scan in one pass, in which each waits for the sum of all tiles before its own,
// and steps that a barrier of the whole grid keeps apart. All blocks fit the device at once.
#include <cstdio>
#include <vector>

#include "check.h"

constexpr int threads = 64, blocks = 6, steps = 3;

extern __shared__ int staged[];

// Sums of x up to each element. sums: 0, or one more than the sum up to the tile's end. The last tile is the first
// block's, so that in the natural order each block waits for one that starts later.
__global__ void scan(const int* x, int* y, int* sums) {
  __shared__ int before;
  const int t = threadIdx.x, tile = gridDim.x - 1 - blockIdx.x;
  staged[t] = x[tile * threads + t];
  __syncthreads();
  for (int distance = 1; distance < threads; distance *= 2) {
    const int left = t >= distance ? staged[t - distance] : 0;
    __syncthreads();
    staged[t] += left;
    __syncthreads();
  }
  if (t == 0) {
    int state = 1;
    while (tile > 0 && (state = atomicAdd(&sums[tile - 1], 0)) == 0) {
    }
    before = state - 1;
    atomicExch(&sums[tile], state + staged[threads - 1]);
  }
  __syncthreads();
  const int again = gridDim.x - 1 - blockIdx.x;  // after the wait
  y[again * threads + threadIdx.x] = before + staged[threadIdx.x];
}

__device__ void wait_for_all_blocks(unsigned* arrived, unsigned step) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < gridDim.x * (step + 1)) {
    }
    __threadfence();
  }
  __syncthreads();
}

// In each step an element becomes the sum of itself and of its neighbour in the next block.
__global__ void add_neighbours(int* x, unsigned* arrived) {
  const int t = threadIdx.x, b = blockIdx.x;
  staged[t] = x[b * threads + t];
  for (unsigned step = 0; step < steps; ++step) {
    const int next = x[(b + 1) % gridDim.x * threads + t];
    wait_for_all_blocks(arrived, 2 * step);
    x[b * threads + t] = staged[t] += next;
    wait_for_all_blocks(arrived, 2 * step + 1);
  }
}

int main() {
  constexpr int n = threads * blocks;
  std::vector<int> host(n);
  for (int i = 0; i < n; ++i) host[i] = i % 7;
  int *x, *y, *flags;
  CHECK(cudaMalloc(&x, n * sizeof(int)));
  CHECK(cudaMalloc(&y, n * sizeof(int)));
  CHECK(cudaMalloc(&flags, (blocks + 1) * sizeof(int)));
  CHECK(cudaMemset(flags, 0, (blocks + 1) * sizeof(int)));
  CHECK(cudaMemcpy(x, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  scan<<<blocks, threads, threads * sizeof(int)>>>(x, y, flags);
  CHECK(cudaGetLastError());
  add_neighbours<<<blocks, threads, threads * sizeof(int)>>>(x, reinterpret_cast<unsigned*>(flags + blocks));
  CHECK(cudaDeviceSynchronize());

  std::vector<int> sums(n), neighbours(n), expected = host;
  CHECK(cudaMemcpy(sums.data(), y, n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(neighbours.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost));
  int wrong = 0, sum = 0;
  for (int i = 0; i < n; ++i) wrong += sums[i] != (sum += host[i]);
  for (int step = 0; step < steps; ++step) {
    const std::vector<int> last = expected;
    for (int i = 0; i < n; ++i) expected[i] = last[i] + last[(i + threads) % n];
  }
  for (int i = 0; i < n; ++i) wrong += neighbours[i] != expected[i];
  std::printf("%d wrong\n", wrong);
  CHECK(cudaFree(x));
  CHECK(cudaFree(y));
  CHECK(cudaFree(flags));
  return wrong != 0;
}
