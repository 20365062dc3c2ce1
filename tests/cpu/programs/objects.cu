// Objects in device memory: with virtual functions, passed to kernels by reference; volumes of memory; an occupancy
// that respects launch bounds; a failed assertion.
#include <cuda_runtime.h>

#include <cassert>
#include <cstring>
#include <new>

#include "check.h"

struct Shape {
  __device__ virtual float area() const = 0;
};
struct Square : Shape {
  float side;
  __device__ Square(float side) : side(side) {}
  __device__ float area() const override { return side * side; }
};
struct Disc : Shape {
  float radius;
  __device__ Disc(float radius) : radius(radius) {}
  __device__ float area() const override { return 3 * radius * radius; }
};
struct Total {
  float sum;
  int count;
};

__global__ void make(Shape** shapes, char* room) {
  char* const place = room + 32 * threadIdx.x;
  if (threadIdx.x % 2 == 0)
    shapes[threadIdx.x] = new (place) Square(threadIdx.x);
  else
    shapes[threadIdx.x] = new (place) Disc(threadIdx.x);
}
__global__ void __launch_bounds__(64) measure(Shape** shapes, Total& total, const int& n) {
  if (threadIdx.x >= n) return;
  atomicAdd(&total.sum, shapes[threadIdx.x]->area());
  atomicAdd(&total.count, 1);
}
__global__ void check(const char* cube, cudaPitchedPtr memory, int value) {
  assert(cube[memory.pitch * (memory.ysize * 2 + 3) + 31] == value);
}

int main(int argc, char** argv) {
  Shape** shapes;
  char* room;
  Total* total;
  CHECK(cudaMalloc(&shapes, 8 * sizeof *shapes));
  CHECK(cudaMalloc(&room, 8 * 32));
  CHECK(cudaMallocManaged(&total, sizeof *total));
  *total = {0, 0};
  make<<<1, 8>>>(shapes, room);
  measure<<<1, 32>>>(shapes, *total, 8);
  CHECK(cudaDeviceSynchronize());
  int grid, block, blocks;
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, (void*)measure));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, measure, block, 0));
  printf("%g %d, blocks of %d: %d\n", total->sum, total->count, block, blocks);

  const cudaExtent extent = make_cudaExtent(32, 4, 3);
  cudaPitchedPtr cube;
  char out[32 * 4 * 3] = {};
  CHECK(cudaMalloc3D(&cube, extent));
  CHECK(cudaMemset3D(cube, 5, extent));
  cudaMemcpy3DParms copied = {};
  copied.srcPtr = cube;
  copied.dstPtr = make_cudaPitchedPtr(out, 32, 32, 4);
  copied.extent = extent;
  copied.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3D(&copied));
  check<<<1, 1>>>((const char*)cube.ptr, cube, argc > 1 ? 6 : 5);
  const cudaError_t error = cudaDeviceSynchronize();
  printf("%d %s\n", out[383], cudaGetErrorName(error));
  if (error != cudaSuccess) {
    const cudaError_t freed = cudaFree(room), made = cudaMalloc(&room, 1);
    printf("%s %s\n", cudaGetErrorName(freed), cudaGetErrorName(made));
    return 0;
  }
  for (void* each : {(void*)shapes, (void*)room, (void*)total, cube.ptr}) CHECK(cudaFree(each));
}
