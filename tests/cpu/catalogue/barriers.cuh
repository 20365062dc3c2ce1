// Barriers that are missing, and barriers that not all threads of a block reach.
#pragma once

#include <trifold/cuda.cuh>

namespace barriers {

constexpr int threads = 64;

__device__ inline int thread_of_grid() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void difference_without_barrier(const float* x, float* y) {
  __shared__ float tile[threads];
  const int t = threadIdx.x, i = thread_of_grid();
  tile[t] = x[i];                                    // first
  const float left = t > 0 ? tile[t - 1] : tile[t];  // second
  y[i] = tile[t] - left;
}

__global__ void difference(const float* x, float* y) {
  __shared__ float tile[threads];
  const int t = threadIdx.x, i = thread_of_grid();
  tile[t] = x[i];
  __syncthreads();
  const float left = t > 0 ? tile[t - 1] : tile[t];
  y[i] = tile[t] - left;
}

__global__ void rotate_without_barrier_after_read(const int* x, int* y, int steps) {
  __shared__ int ring[threads];
  const int t = threadIdx.x;
  ring[t] = x[t];
  __syncthreads();
  for (int k = 0; k < steps; ++k) {
    const int v = ring[(t + 1) % threads];  // first
    ring[t] = v;                            // second
    __syncthreads();
  }
  y[t] = ring[t];
}

__global__ void rotate_without_barrier_after_write(const int* x, int* y, int steps) {
  __shared__ int ring[threads];
  const int t = threadIdx.x;
  ring[t] = x[t];
  __syncthreads();
  for (int k = 0; k < steps; ++k) {
    const int v = ring[(t + 1) % threads];  // second
    __syncthreads();
    ring[t] = v;  // first
  }
  y[t] = ring[t];
}

__global__ void rotate(const int* x, int* y, int steps) {
  __shared__ int ring[threads];
  const int t = threadIdx.x;
  ring[t] = x[t];
  __syncthreads();
  for (int k = 0; k < steps; ++k) {
    const int v = ring[(t + 1) % threads];
    __syncthreads();
    ring[t] = v;
    __syncthreads();
  }
  y[t] = ring[t];
}

__global__ void barrier_in_each_branch(const float* x, float* y) {
  __shared__ float tile[threads];
  const int t = threadIdx.x;
  if (t < 32) {
    tile[t] = x[t] * 2;
    __syncthreads();  // first
  } else {
    tile[t] = x[t] + 1;
    __syncthreads();  // second
  }
  y[t] = tile[(t + 32) % threads];
}

__global__ void barrier_after_the_branches(const float* x, float* y) {
  __shared__ float tile[threads];
  const int t = threadIdx.x;
  if (t < 32) {
    tile[t] = x[t] * 2;
  } else {
    tile[t] = x[t] + 1;
  }
  __syncthreads();
  y[t] = tile[(t + 32) % threads];
}

__global__ void early_return_before_barrier(const float* x, float* y, int n) {
  __shared__ float tile[threads];
  const int t = threadIdx.x, i = thread_of_grid();
  if (i >= n) return;
  tile[t] = x[i];
  __syncthreads();  // first
  const int rest = n - static_cast<int>(blockIdx.x) * threads;
  y[i] = tile[(rest < threads ? rest : threads) - 1 - t];
}

__global__ void early_return_after_barrier(const float* x, float* y, int n) {
  __shared__ float tile[threads];
  const int t = threadIdx.x, i = thread_of_grid();
  if (i < n) tile[t] = x[i];
  __syncthreads();
  if (i >= n) return;
  const int rest = n - static_cast<int>(blockIdx.x) * threads;
  y[i] = tile[(rest < threads ? rest : threads) - 1 - t];
}

__global__ void barrier_in_loop_of_unequal_length(const int* starts, const float* values, const float* weights,
                                                  float* y) {
  __shared__ float weight[1];
  const int row = threadIdx.x;
  float total = 0;
  for (int k = 0; k < starts[row + 1] - starts[row]; ++k) {
    __syncthreads();  // first
    if (row == 3) weight[0] = weights[k];
    __syncthreads();
    total += values[starts[row] + k] * weight[0];
  }
  __syncthreads();  // second
  y[row] = total;
}

__global__ void barrier_in_loop_of_equal_length(const int* starts, const float* values, const float* weights, float* y,
                                                int count) {
  __shared__ float weight[1];
  const int row = threadIdx.x;
  float total = 0;
  const int length = starts[row + 1] - starts[row];
  for (int k = 0; k < count; ++k) {
    __syncthreads();
    if (row == 3) weight[0] = weights[k];
    __syncthreads();
    if (k < length) total += values[starts[row] + k] * weight[0];
  }
  y[row] = total;
}

__global__ void flag_without_barrier(const float* x, float* y) {
  __shared__ int bad[1];
  const int i = thread_of_grid();
  if (threadIdx.x == 0) bad[0] = 0;
  __syncthreads();
  if (x[i] < 0) bad[0] = 1;       // first
  y[i] = bad[0] != 0 ? 0 : x[i];  // second
}

__global__ void flag_by_barrier_reduction(const float* x, float* y) {
  const int i = thread_of_grid();
  y[i] = __syncthreads_or(x[i] < 0) != 0 ? 0 : x[i];
}

// The lower lanes wait for the whole warp, the upper ones for the whole block.
__global__ void rendezvous_here_and_barrier_there(const float* x, float* y) {
  __shared__ float tile[32];
  const int t = threadIdx.x;
  tile[t] = x[t];
  if (t < 16) {
    __syncwarp();  // first
  } else {
    __syncthreads();  // second
  }
  y[t] = tile[31 - t];
}

__global__ void rendezvous_for_all(const float* x, float* y) {
  __shared__ float tile[32];
  const int t = threadIdx.x;
  tile[t] = x[t];
  __syncwarp();
  y[t] = tile[31 - t];
}

// A barrier holds the threads of a block; blocks do not wait for each other.
__global__ void cooperative_shift_with_block_barrier(double* x, double* y) {
  const int i = thread_of_grid();
  x[i] *= 2;  // first
  __syncthreads();
  y[i] = i > 0 ? x[i - 1] : 254;  // second
}

}  // namespace barriers
