// A race that is meant, and accepted by a comment: docs/cuda-programs.md.
#include <cstdio>

__global__ void any_positive(const float* x, int* found) {
  if (x[threadIdx.x] > 0) *found = threadIdx.x;  // trifold: allow race, any will do
}

int main() {
  float* x;
  int* found;
  cudaMallocManaged(&x, 32 * sizeof(float));
  cudaMallocManaged(&found, sizeof(int));
  for (int i = 0; i < 32; ++i) x[i] = i - 3;
  *found = 0;
  any_positive<<<1, 32>>>(x, found);
  cudaDeviceSynchronize();
  printf("%d\n", *found);
  cudaFree(x);
  cudaFree(found);
}
