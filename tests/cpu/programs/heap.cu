// Kernels that allocate: lists, arrays of objects with destructors, virtual functions, memory passed from launch to
// launch; and one mistake for each word that the program is given.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "check.h"

__device__ int destroyed;

struct Node {
  int value;
  Node* next;
  __device__ Node(int value, Node* next) : value(value), next(next) {}
};

struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() { atomicAdd(&destroyed, 1); }
};
struct Named {
  int name = 1;
};
// Its Shape does not begin where it begins itself.
struct Square : Named, Shape {
  float side;
  __device__ Square(float side) : side(side) {}
  __device__ float area() const override { return side * side; }
};
struct Counted {
  int number = 7;
  __device__ ~Counted() { atomicAdd(&destroyed, 100); }
};

__global__ void lists(int* sums) {
  Node* head = nullptr;
  for (int i = 0; i < 5; ++i) head = new Node(i, head);
  int sum = 0;
  while (head != nullptr) {
    Node* const next = head->next;
    sum += head->value;
    delete head;
    head = next;
  }
  Counted* const several = new Counted[3];
  sum += several[2].number;
  delete[] several;
  float* const numbers = new float[4]{1, 2, 3, 4};
  sum += static_cast<int>(numbers[3]);
  delete[] numbers;
  sums[threadIdx.x] = sum;
}

__global__ void shared_by_a_block(int* sums) {
  __shared__ int* data;
  if (threadIdx.x == 0) data = (int*)malloc(blockDim.x * sizeof(int));
  __syncthreads();
  data[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < blockDim.x; ++i) sum += data[i];
  sums[blockIdx.x] = sum;
  free(data);
}

template <class F>
__global__ void for_each(F f) {
  f(threadIdx.x);
}

__global__ void make(Shape** shapes) {
  shapes[threadIdx.x] = new Square(threadIdx.x + 1);
}
__global__ void measure(Shape** shapes, float* areas) {
  areas[threadIdx.x] = shapes[threadIdx.x]->area();
}
__global__ void unmake(Shape** shapes) {
  delete shapes[threadIdx.x];
}

__global__ void fill_up(int* full) {
  void* const kept = malloc(1000);
  full[0] = kept != nullptr && malloc(1000) == nullptr && new int[250] == nullptr;
}

enum Word { too_far, used_after, twice, uninitialised, in_use, not_the_heaps, inside };
__global__ void wrong(Word word, int* y) {
  __shared__ int* data;
  if (threadIdx.x == 0) data = (int*)malloc(64);
  __syncthreads();
  if (word != uninitialised && threadIdx.x < 16) data[threadIdx.x] = 1;
  if (word != in_use) __syncthreads();
  if (word == in_use && threadIdx.x == 31) free(data);
  if (threadIdx.x != 1) return;
  if (word == too_far) y[0] = data[16];
  if (word == uninitialised) y[0] = data[3];
  if (word == used_after || word == twice) free(data);
  if (word == used_after) y[0] = data[5];
  if (word == twice) free(data);
  if (word == not_the_heaps) free(y);
  if (word == inside) free(data + 1);
}

int main(int argc, char** argv) {
  constexpr int n = 32;
  int *sums = nullptr, host[n];
  CHECK(cudaMalloc(&sums, sizeof host));
  if (argc > 1) {
    const std::string word = argv[1];
    if (word == "leak") {
      Shape** shapes = nullptr;
      CHECK(cudaMalloc(&shapes, sizeof(Shape*)));
      make<<<1, 1>>>(shapes);
      Shape* shape = nullptr;
      CHECK(cudaMemcpy(&shape, shapes, sizeof shape, cudaMemcpyDeviceToHost));
      std::printf("%d\n", cudaMemcpy(host, shape, 4, cudaMemcpyDeviceToHost));
      cudaGetLastError();
      CHECK(cudaFree(shapes));
    } else {
      wrong<<<1, n>>>(static_cast<Word>(std::stoi(word)), sums);
    }
    cudaFree(sums);
    return 0;
  }
  size_t bytes = 0;
  CHECK(cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize));
  std::printf("%zu\n", bytes);
  lists<<<1, n>>>(sums);
  CHECK(cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost));
  int count = 0;
  CHECK(cudaMemcpyFromSymbol(&count, destroyed, sizeof count));
  std::printf("%d %d\n", host[n - 1], count);
  shared_by_a_block<<<2, n>>>(sums);
  CHECK(cudaMemcpy(host, sums, 2 * sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("%d %d\n", host[0], host[1]);

  for_each<<<1, 4>>>([=] __device__(int i) {
    int* const own = new int[2];
    own[1] = i;
    sums[i] = own[1];
    delete[] own;
  });
  CHECK(cudaMemcpy(host, sums, 4 * sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("%d\n", host[3]);

  Shape** shapes = nullptr;
  float *areas = nullptr, area[4];
  CHECK(cudaMalloc(&shapes, 4 * sizeof(Shape*)));
  CHECK(cudaMalloc(&areas, sizeof area));
  make<<<1, 4>>>(shapes);
  measure<<<1, 4>>>(shapes, areas);
  unmake<<<1, 4>>>(shapes);
  CHECK(cudaMemcpy(area, areas, sizeof area, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&count, destroyed, sizeof count));
  std::printf("%g %g %d\n", area[0], area[3], count);

  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1500));
  fill_up<<<1, 1>>>(sums);
  CHECK(cudaMemcpy(host, sums, sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("full: %d\n", host[0]);
  CHECK(cudaFree(sums));
  CHECK(cudaFree(shapes));
  CHECK(cudaFree(areas));
  return 0;
}
