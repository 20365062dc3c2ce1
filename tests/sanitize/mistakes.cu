// One mistake for each tool of compute-sanitizer; the first argument chooses it, none makes none.
#include <cstdio>
#include <cstring>

__global__ void past_the_end(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = x[i];  // memcheck
}

__global__ void without_barrier(const float* x, float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = tile[63 - threadIdx.x];  // racecheck
}

__global__ void of_unwritten_memory(float* y) {
  y[threadIdx.x] += 1;  // initcheck
}

__global__ void barrier_for_some(const float* x, float* y) {
  if (threadIdx.x < 16) __syncthreads();  // synccheck
  y[threadIdx.x] = x[threadIdx.x];
}

int main(int count, char** arguments) {
  const char* const mistake = count > 1 ? arguments[1] : "";
  float *x = nullptr, *y = nullptr;
  cudaMalloc(&x, 64 * sizeof(float));
  cudaMalloc(&y, 64 * sizeof(float));
  cudaMemset(x, 0, 64 * sizeof(float));
  if (std::strcmp(mistake, "memcheck") == 0) past_the_end<<<2, 64>>>(x, y, 64);
  if (std::strcmp(mistake, "racecheck") == 0) without_barrier<<<1, 64>>>(x, y);
  if (std::strcmp(mistake, "initcheck") == 0) of_unwritten_memory<<<1, 64>>>(y);
  if (std::strcmp(mistake, "synccheck") == 0) barrier_for_some<<<1, 64>>>(x, y);
  const cudaError_t error = cudaDeviceSynchronize();
  std::puts(error == cudaSuccess ? "done" : "stopped");
  cudaFree(x);
  cudaFree(y);
}
