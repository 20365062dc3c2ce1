// Memory that is read before anything was written to it.
#pragma once

#include <trifold/cuda.cuh>

namespace uninitialised {

constexpr int threads = 32;

__device__ inline int thread_of_grid() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void running_sums_in_local_memory(const float* x, float* y) {
  const int t = threadIdx.x;
  float s[4];
  for (int k = 0; k < 4; ++k) s[k] = 0;
  for (int k = 0; k < 4; ++k)
    for (int j = k; j < 4; ++j) s[j] += x[k * threads + t];
  for (int k = 0; k < 4; ++k) y[t * 4 + k] = s[k];
}

__global__ void counts_of_each_block(const int* x, int* counts) {
  __shared__ int bins[8];
  const int t = threadIdx.x;
  if (t < 8) bins[t] = 0;
  __syncthreads();
  atomicAdd(&bins[x[thread_of_grid()]], 1);
  __syncthreads();
  if (t < 8) counts[blockIdx.x * 8 + t] = bins[t];
}

__global__ void counts_in_memory_taken_for_zero(const int* x, int* counts) {
  __shared__ int bins[8];
  const int t = threadIdx.x;
  atomicAdd(&bins[x[thread_of_grid()]], 1);  // first
  __syncthreads();
  if (t < 8) counts[blockIdx.x * 8 + t] = bins[t];
}

__global__ void counts_in_half_cleared_memory(const int* x, int* counts) {
  __shared__ int bins[8];
  const int t = threadIdx.x;
  if (t < 4) bins[t] = 0;
  __syncthreads();
  atomicAdd(&bins[x[thread_of_grid()]], 1);  // first
  __syncthreads();
  if (t < 8) counts[blockIdx.x * 8 + t] = bins[t];
}

__global__ void table_in_each_block(const int* x, int* y) {
  __shared__ int table[16];
  const int t = threadIdx.x;
  if (t < 16) table[t] = t * t;
  __syncthreads();
  const int i = thread_of_grid();
  y[i] = table[x[i]];
}

// Shared memory is taken to last from block to block.
__global__ void table_of_the_first_block(const int* x, int* y) {
  __shared__ int table[16];
  const int t = threadIdx.x;
  if (blockIdx.x == 0 && t < 16) table[t] = t * t;
  __syncthreads();
  const int i = thread_of_grid();
  y[i] = table[x[i]];  // first
}

__global__ void tail_sum(const float* x, float* sums, int n) {
  __shared__ float acc[threads];
  const int t = threadIdx.x, i = thread_of_grid();
  acc[t] = i < n ? x[i] : 0;
  for (int s = threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (t < s) acc[t] += acc[t + s];
  }
  if (t == 0) sums[blockIdx.x] = acc[0];
}

__global__ void tail_sum_of_a_half_filled_tile(const float* x, float* sums, int n) {
  __shared__ float acc[threads];
  const int t = threadIdx.x, i = thread_of_grid();
  if (i < n) acc[t] = x[i];
  for (int s = threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (t < s) acc[t] += acc[t + s];  // first
  }
  if (t == 0) sums[blockIdx.x] = acc[0];
}

__global__ void accumulate(const float* x, float* y) {
  const int t = threadIdx.x;
  y[t] = 0;
  for (int k = 0; k < 3; ++k) y[t] += x[k * threads + t];
}

__global__ void accumulate_in_a_fresh_device_array(const float* x, float* y) {
  const int t = threadIdx.x;
  for (int k = 0; k < 3; ++k) y[t] += x[k * threads + t];  // first
}

}  // namespace uninitialised
