// c = a + b, as many a first CUDA program has it. It has a mistake, which on a GPU shows as nothing at all:
//
//     trifold sanitize examples/vector_add.cu
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                  \
  do {                                                                               \
    cudaError_t error = (call);                                                      \
    if (error != cudaSuccess) {                                                      \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      exit(EXIT_FAILURE);                                                            \
    }                                                                                \
  } while (0)

__global__ void vectorAdd(const float* a, const float* b, float* c, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= N) {
    c[i] = a[i] + b[i];
  }
}

int main() {
  const int N = 1000;
  const size_t bytes = N * sizeof(float);

  float *h_a = (float*)malloc(bytes), *h_b = (float*)malloc(bytes), *h_c = (float*)malloc(bytes);
  for (int i = 0; i < N; i++) {
    h_a[i] = i;
    h_b[i] = 2 * i;
  }

  float *d_a, *d_b, *d_c;
  CHECK(cudaMalloc((void**)&d_a, bytes));
  CHECK(cudaMalloc((void**)&d_b, bytes));
  CHECK(cudaMalloc((void**)&d_c, bytes));
  CHECK(cudaMemcpy(d_a, h_a, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_b, h_b, bytes, cudaMemcpyHostToDevice));

  const int threads = 256;
  vectorAdd<<<(N + threads - 1) / threads, threads>>>(d_a, d_b, d_c, N);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h_c, d_c, bytes, cudaMemcpyDeviceToHost));

  for (int i = 0; i < N; i++) {
    if (h_c[i] != 3 * i) {
      printf("wrong at %d: %f\n", i, h_c[i]);
      return EXIT_FAILURE;
    }
  }
  printf("all %d sums are right\n", N);
  cudaFree(d_a);
  cudaFree(d_b);
  cudaFree(d_c);
  free(h_a);
  free(h_b);
  free(h_c);
  return 0;
}
