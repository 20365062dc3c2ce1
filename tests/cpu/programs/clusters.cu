// Clusters and cooperative launches by each of the runtime's ways, and what it refuses.
#include <cooperative_groups.h>

#include <cstdio>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int threads = 32;

// y: the sum of x over the cluster.
template <int N>
__global__ void sums(const int* x, int* y) {
  __shared__ int tile[threads];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = N * x[i];
  cluster.sync();
  int sum = 0;
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) sum += cluster.map_shared_rank(tile, rank)[threadIdx.x];
  cluster.sync();
  y[i] = sum;
}

__global__ void __launch_bounds__(threads) __cluster_dims__(2, 1, 1) pairs(const int* x, int* y) {
  __shared__ int mine;
  if (threadIdx.x == 0) mine = x[blockIdx.x];
  cg::this_cluster().sync();
  const unsigned other = cg::this_cluster().block_rank() ^ 1;
  if (threadIdx.x == 0) y[blockIdx.x] = *cg::this_cluster().map_shared_rank(&mine, other);
  cg::this_cluster().sync();
}

__global__ void total(const int* x, int* y) {
  const cg::grid_group grid = cg::this_grid();
  y[grid.thread_rank()] = x[grid.thread_rank()];
  grid.sync();
  if (grid.thread_rank() == 0)
    for (unsigned i = 1; i < grid.size(); ++i) y[0] += y[i];
}

cudaLaunchAttribute clusters_of(unsigned blocks) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = blocks;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  return attribute;
}

void print(const char* what, cudaError_t error, const int* y) {
  CHECK(cudaDeviceSynchronize());
  int first = 0;
  CHECK(cudaMemcpy(&first, y, sizeof first, cudaMemcpyDeviceToHost));
  printf("%s: %s, %d\n", what, cudaGetErrorName(error), first);
  cudaGetLastError();
}

int main() {
  constexpr int n = 32 * threads;
  int ones[n];
  for (int& one : ones) one = 1;
  int *x = nullptr, *y = nullptr;
  CHECK(cudaMalloc(&x, sizeof ones));
  CHECK(cudaMalloc(&y, sizeof ones));
  CHECK(cudaMemcpy(x, ones, sizeof ones, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(y, 0, sizeof ones));

  cudaLaunchAttribute attributes[2] = {clusters_of(8), {}};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(32);
  config.blockDim = dim3(threads);
  config.attrs = attributes;
  config.numAttrs = 2;
  print("eight", cudaLaunchKernelEx(&config, sums<1>, static_cast<const int*>(x), y), y);

  void* arguments[] = {&x, &y};
  attributes[0] = clusters_of(16);
  print("sixteen", cudaLaunchKernelExC(&config, (const void*)sums<2>, arguments), y);
  CHECK(cudaFuncSetAttribute(sums<2>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  print("sixteen allowed", cudaLaunchKernelExC(&config, (const void*)sums<2>, arguments), y);
  attributes[0] = clusters_of(5);
  print("five", cudaLaunchKernelEx(&config, sums<1>, static_cast<const int*>(x), y), y);

  pairs<<<32, threads>>>(x, y);
  print("pairs", cudaGetLastError(), y);
  config.numAttrs = 0;
  print("pairs again", cudaLaunchKernelEx(&config, pairs, static_cast<const int*>(x), y), y);
  pairs<<<31, threads>>>(x, y);
  print("pairs of 31", cudaGetLastError(), y);

  print("total", cudaLaunchCooperativeKernel((void*)total, dim3(32), dim3(threads), arguments, 0, nullptr), y);
  print("too many", cudaLaunchCooperativeKernel((void*)total, dim3(100000), dim3(threads), arguments), y);

  int count = 0;
  attributes[0] = clusters_of(4);
  config.numAttrs = 1;
  config.dynamicSmemBytes = 200 << 10;  // a block a multiprocessor
  CHECK(cudaFuncSetAttribute(sums<1>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  CHECK(cudaOccupancyMaxActiveClusters(&count, sums<1>, &config));
  printf("%d clusters of 4 at a time\n", count);
  CHECK(cudaOccupancyMaxPotentialClusterSize(&count, sums<1>, &config));
  printf("%d blocks, ", count);
  CHECK(cudaOccupancyMaxPotentialClusterSize(&count, sums<2>, &config));
  printf("%d blocks, ", count);
  CHECK(cudaOccupancyMaxPotentialClusterSize(&count, pairs, &config));
  printf("%d blocks\n", count);
  attributes[0].id = cudaLaunchAttributeProgrammaticEvent;
  print("event", cudaLaunchKernelEx(&config, sums<1>, static_cast<const int*>(x), y), y);
  CHECK(cudaFree(x));
  CHECK(cudaFree(y));
}
