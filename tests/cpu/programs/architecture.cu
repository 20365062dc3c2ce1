// What a program learns of the GPU that it is compiled for: __CUDA_ARCH__ in device code, not in host code; and
// versions.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>

#include "architecture.cuh"

#if !defined(__CUDACC__) || !defined(__NVCC__) || CUDART_VERSION < 12000 || CUDA_VERSION != CUDART_VERSION || \
    __CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10 != CUDART_VERSION
#error "versions are macros"
#endif

extern float __shared__ of_the_file[];
unsigned int extern __shared__ __align__(16) as_numbers[];

// CUDA's programming guide has this for GPUs without it; the host's way would be a second atomicAdd(double).
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600
#else
__device__ double atomicAdd(double* address, double value) {
  return *address += value;
}
#endif

#if __CUDA_ARCH__ >= 800
__device__ int tensor_cores() {
  return 1;
}
#else
__device__ int tensor_cores() {
  return 0;
}
#endif

template <class T>
__global__ void kernel(T* out, double* sum) {
#if __CUDA_ARCH__ >= 700
  extern T __shared__ mine[];
  of_the_file[threadIdx.x] = 1.0f + threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) {
    out[0] = __CUDA_ARCH__;
    out[1] = side();
    out[2] = Point(1).x;
    out[3] = WIDTH;
    out[4] = tensor_cores();
    out[5] = as_numbers[1] == __float_as_uint(2.0f) && mine[2] == T(__float_as_uint(3.0f));
  }
  atomicAdd(sum, 1.5);
#endif
}

int main() {
  int* out;
  double* sum;
  cudaMallocManaged(&out, 6 * sizeof(int));
  cudaMallocManaged(&sum, sizeof(double));
  *sum = 0;
  kernel<<<1, 4, 4 * sizeof(float)>>>(out, sum);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  std::printf("device: %d %d %d %d %d %d %g\n", out[0], out[1], out[2], out[3], out[4], out[5], *sum);
  std::printf("host: %d %d %d, C++ %ld\n", side(), Point(1).x, WIDTH, __cplusplus / 100);
#ifdef __CUDA_ARCH__
  std::printf("the host has no __CUDA_ARCH__\n");
#endif
  cudaFree(out);
  cudaFree(sum);
  return 0;
}
