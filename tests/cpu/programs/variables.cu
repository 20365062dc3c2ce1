// Variables of the device: a kernel counts in one, which is each launch's anew under --schedules, and the host reaches
// one by its address.
#include <cstdio>

#include "check.h"

__device__ unsigned tickets = 0;
__device__ int squares[4];

__global__ void in_order_of_arrival(int* blocks) {
  if (threadIdx.x == 0) blocks[atomicAdd(&tickets, 1u)] = 1;
}

__global__ void add(int* x) {
  squares[threadIdx.x] += x[threadIdx.x] * x[threadIdx.x];
}

int main() {
  int* blocks;
  CHECK(cudaMalloc(&blocks, 8 * sizeof *blocks));
  in_order_of_arrival<<<8, 32>>>(blocks);
  void* address;
  CHECK(cudaGetSymbolAddress(&address, squares));
  CHECK(cudaMemset(address, 0, sizeof squares));
  add<<<1, 4>>>(blocks);
  int got[4];
  CHECK(cudaMemcpy(got, address, sizeof got, cudaMemcpyDeviceToHost));
  unsigned taken;
  CHECK(cudaMemcpyFromSymbol(&taken, tickets, sizeof taken));
  std::printf("%u tickets, %d %d %d %d\n", taken, got[0], got[1], got[2], got[3]);
  CHECK(cudaFree(blocks));
}
