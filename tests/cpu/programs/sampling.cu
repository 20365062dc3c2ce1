// Normal numbers by Box and Muller from a generator of a few lines, their mean and variance by a block's reduction.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

__constant__ float params[2];  // mean, standard deviation
__device__ unsigned launched = 0;
extern __shared__ float partial[];

struct Generator {
  unsigned state;
  __device__ unsigned next() {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
  }
  __device__ float uniform() { return (next() >> 8) * (1.0f / 16777216.0f) + 0.5f / 16777216.0f; }
};

__global__ void sample(float* out, int pairs, unsigned seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) launched = 1;
  if (i >= pairs) return;
  Generator generator{seed ^ (0x9e3779b9u * (i + 1))};
  for (int skip = 0; skip < 4; ++skip) generator.next();
  float r = sqrtf(-2.0f * logf(generator.uniform())), angle = 6.2831853f * generator.uniform();
  out[2 * i] = params[0] + params[1] * r * cosf(angle);
  out[2 * i + 1] = params[0] + params[1] * r * sinf(angle);
}

__global__ void sums(const float* x, int n, float* result) {
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    sum += x[i];
    squares += x[i] * x[i];
  }
  float* more = partial + blockDim.x;
  partial[threadIdx.x] = sum;
  more[threadIdx.x] = squares;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] += partial[threadIdx.x + half];
      more[threadIdx.x] += more[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    result[0] = partial[0];
    result[1] = more[0];
  }
}

int main(int argc, char** argv) {
  const int pairs = 2000, n = 2 * pairs;
  const float host_params[2] = {3.0f, 2.0f};
  CHECK(cudaMemcpyToSymbol(params, host_params, sizeof(host_params)));
  float *x, *result, *pinned;
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMalloc(&result, 2 * sizeof(float)));
  CHECK(cudaMallocHost(&pinned, 2 * sizeof(float)));
  sample<<<dim3((pairs + 127) / 128), dim3(128)>>>(x, pairs, 7u);
  sums<<<1, 256, 2 * 256 * sizeof(float)>>>(x, n, result);
  CHECK(cudaMemcpyAsync(pinned, result, 2 * sizeof(float), cudaMemcpyDeviceToHost, 0));
  CHECK(cudaDeviceSynchronize());
  unsigned was_launched = 0;
  CHECK(cudaMemcpyFromSymbol(&was_launched, launched, sizeof(was_launched)));
  const float mean = pinned[0] / n, variance = pinned[1] / n - mean * mean;
  printf("launched %u, mean %.1f, standard deviation %.1f\n", was_launched, mean, sqrt(variance));
  CHECK(cudaFree(x));
  CHECK(cudaFree(result));
  CHECK(cudaFreeHost(pinned));
  return 0;
}
