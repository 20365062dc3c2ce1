// One mistake for each word that the program is given.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

__global__ void copy(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}

__global__ void follow(int** lists, int n) {
  if (threadIdx.x < n) lists[0][threadIdx.x] = 1;
}

// All threads write the same, or their own number; the ranks of the grid need no cooperative launch.
__global__ void flag(int* y, bool own) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  y[0] = own ? static_cast<int>(grid.thread_rank()) : static_cast<int>(grid.size() + grid.num_blocks());
}

__global__ void meet(int* y) {
  const auto grid = cooperative_groups::this_grid();
  if (grid.block_rank() == 0) y[grid.thread_rank()] = grid.is_valid();
  cooperative_groups::sync(grid);
}

template <int most>
__launch_bounds__(most) __global__ void bounded(int* y) {
  y[threadIdx.x] = 1;
}

int main(int argc, char** argv) {
  const std::string mistake = argc > 1 ? argv[1] : "";
  const int n = 64;
  const size_t bytes = n * sizeof(int);
  int host[n] = {};
  int *x = nullptr, *y = nullptr;
  cudaMalloc(&x, bytes);
  cudaMalloc(&y, bytes);
  if (mistake == "uninitialised") {
    copy<<<1, n>>>(x, y, n);
  } else if (mistake == "half initialised") {
    cudaMemset(x, 0, bytes / 2);
    copy<<<1, n>>>(x, y, n);
  } else if (mistake == "two launches") {
    cudaMemset(x, 0, bytes);
    copy<<<1, n>>>(x, y, n - 1);
    copy<<<1, n>>>(y, x, n);
  } else if (mistake == "same value" || mistake == "other values") {
    flag<<<2, n>>>(y, mistake == "other values");
    cudaMemcpy(host, y, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("%d\n", host[0]);
  } else if (mistake == "grid barrier") {
    meet<<<2, n>>>(y);
  } else if (mistake == "no wait" || mistake == "wait") {
    int* both = nullptr;
    cudaMallocManaged(&both, 2 * bytes);
    for (int i = 0; i < n; ++i) both[i] = i;
    copy<<<1, n>>>(both, both + n, n);
    if (mistake == "wait") cudaDeviceSynchronize();
    std::printf("%d\n", both[n + 5]);
    cudaFree(both);
  } else if (mistake == "host pointer") {
    copy<<<1, n>>>(host, y, n);
  } else if (mistake == "null pointer") {
    copy<<<1, n>>>(NULL, y, n);
  } else if (mistake == "host reads") {
    std::printf("%d\n", x[3]);
  } else if (mistake == "host writes") {
    y[5] = 1;
  } else if (mistake == "use after free") {
    cudaFree(x);
    copy<<<1, n>>>(x, y, n);
    x = nullptr;
  } else if (mistake == "pointer in memory") {
    int** lists;
    cudaMalloc(&lists, sizeof(int*));
    cudaMemcpy(lists, &y, sizeof y, cudaMemcpyHostToDevice);
    follow<<<1, n + 1>>>(lists, n + 1);
    cudaFree(lists);
  } else if (mistake == "too many threads") {
    copy<<<1, 2048>>>(x, y, n);
    std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  } else if (mistake == "more than its bounds") {
    bounded<64><<<1, n>>>(y);
    bounded<63><<<1, n>>>(y);
    std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  } else if (mistake == "double free") {
    std::printf("%d ", cudaFree(x));
    std::printf("%d\n", cudaFree(x));
    x = nullptr;
  } else if (mistake == "bad copies") {
    std::printf("%d ", cudaMemcpy(x, host, bytes + 1, cudaMemcpyHostToDevice));
    std::printf("%d ", cudaMemcpy(x, y, bytes, cudaMemcpyDeviceToHost));
    std::printf("%d ", cudaMemcpy(x, host, bytes, cudaMemcpyDeviceToDevice));
    std::printf("%d\n", cudaMemcpy(x, host, bytes, static_cast<cudaMemcpyKind>(9)));
  } else if (mistake == "copy of nothing") {
    cudaMemset(x, 0, bytes - 4);
    cudaMemcpy(host, x, bytes, cudaMemcpyDeviceToHost);
  } else if (mistake == "leak") {
    x = nullptr;
  } else if (mistake == "segfault") {
    int* nowhere = reinterpret_cast<int*>(8);
    *nowhere = 1;
  } else if (mistake == "abort") {
    std::abort();
  } else if (mistake == "assertion") {
    assert(mistake == "none");
  } else if (mistake == "hang") {
    for (volatile int i = 0;; i = i + 1) {
    }
  } else if (mistake == "and on") {
    copy<<<1, n>>>(x, y, n);
    copy<<<1, n>>>(y, x, n + 1);
    std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  } else if (mistake == "echo") {
    std::string line;
    std::getline(std::cin, line);
    std::printf("%s %s\n", line.c_str(), argv[2]);
    std::fprintf(stderr, "to stderr\n");
  }
  cudaFree(x);
  cudaFree(y);
  return mistake == "echo" ? 7 : 0;
}
