// Device functions with barriers, recursion, function objects, grid-stride loops, constant memory.
#pragma once

#include <trifold/cuda.cuh>

namespace functions {

constexpr int threads = 64;

__device__ inline int thread_of_grid() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__device__ inline void load_tile(float* tile, const float* x, int first) {
  const int t = threadIdx.x;
  tile[t] = x[first + t];
  __syncthreads();  // inside
}

__device__ inline void load_tile_and_run_on(float* tile, const float* x, int first) {
  const int t = threadIdx.x;
  tile[t] = x[first + t];  // first
}

__global__ void barrier_in_a_device_function(const float* x, float* y) {
  __shared__ float tile[threads];
  load_tile(tile, x, static_cast<int>(blockIdx.x) * threads);
  y[thread_of_grid()] = tile[threads - 1 - threadIdx.x];
}

// The barrier is in the function that one thread does not call.
__global__ void device_function_for_all_but_one(const float* x, float* y) {
  __shared__ float tile[threads];
  const int t = threadIdx.x;
  if (t < threads - 1) {
    load_tile(tile, x, static_cast<int>(blockIdx.x) * threads);
  } else {
    tile[t] = x[thread_of_grid()];
    __syncthreads();  // second
  }
  y[thread_of_grid()] = tile[threads - 1 - t];
}

// Upper threads read what lower ones wrote, lower ones only after the barrier.
__global__ void device_function_without_barrier(const float* x, float* y) {
  __shared__ float tile[threads];
  const int t = threadIdx.x;
  load_tile_and_run_on(tile, x, static_cast<int>(blockIdx.x) * threads);
  float v = t >= threads / 2 ? tile[threads - 1 - t] : 0.0f;  // second
  __syncthreads();
  if (t < threads / 2) v = tile[threads - 1 - t];
  y[thread_of_grid()] = v;
}

// Adds the upper half to the lower one, then the same of the half: recursion with a barrier in each call.
__device__ inline void tree_step(float* acc, int s) {
  const int t = threadIdx.x;
  __syncthreads();
  if (s > 0) {
    if (t < s) acc[t] += acc[t + s];
    tree_step(acc, s / 2);
  }
}

__device__ inline void tree_step_without_barrier(float* acc, int s) {
  const int t = threadIdx.x;
  if (s > 0) {
    if (t < s) acc[t] += acc[t + s];  // first, second
    tree_step_without_barrier(acc, s / 2);
  }
}

__global__ void recursive_tree_sum(const float* x, float* sums) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = x[thread_of_grid()];
  tree_step(acc, threads / 2);
  if (t == 0) sums[blockIdx.x] = acc[0];
}

__global__ void recursive_tree_sum_without_barrier(const float* x, float* sums) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = x[thread_of_grid()];
  __syncthreads();
  tree_step_without_barrier(acc, threads / 2);
  __syncthreads();
  if (t == 0) sums[blockIdx.x] = acc[0];
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <class Combine>
__device__ void reduce_block(const float* x, float* results, Combine combine) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = x[thread_of_grid()];
  __syncthreads();
  for (int s = threads / 2; s > 0; s /= 2) {
    if (t < s) acc[t] = combine(acc[t], acc[t + s]);
    __syncthreads();
  }
  if (t == 0) results[blockIdx.x] = acc[0];
}

__global__ void reduce_with(const float* x, float* results) {
  reduce_block(x, results, Add{});
}

__device__ inline int64_t fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__global__ void fibonacci_numbers(int64_t* y, int size) {
  const int i = thread_of_grid();
  if (i < size) y[i] = fibonacci(i);
}

__global__ void fibonacci_numbers_for_all_threads(int64_t* y) {
  const int i = thread_of_grid();
  y[i] = fibonacci(i < 9 ? i : 9);  // first
}

__global__ void grid_stride(const float* x, float* y, int size) {
  const int step = static_cast<int>(blockDim.x * gridDim.x);
  for (int i = thread_of_grid(); i < size; i += step) y[i] = x[i] + 1;
}

// Strides by the block, so each element is written by several blocks.
__global__ void block_stride_from_grid_index(const float* x, float* y, int size) {
  const int step = static_cast<int>(blockDim.x);
  for (int i = thread_of_grid(); i < size; i += step) y[i] = x[i] + 1;  // first
}

__global__ void grid_stride_by_while(const float* x, float* y, int size) {
  int i = thread_of_grid();
  while (i < size) {
    y[i] = x[i] + 1;
    i += static_cast<int>(blockDim.x * gridDim.x);
  }
}

__device__ inline float larger(float a, float b) {
  return a > b ? a : b;
}

// Blocks stride over rows; the tile is used again for each.
__global__ void row_maximum_grid_stride(const float* rows, float* y, int count) {
  __shared__ float tile[threads];
  const int t = threadIdx.x;
  for (int row = blockIdx.x; row < count; row += static_cast<int>(gridDim.x)) {
    tile[t] = rows[row * threads + t];
    for (int s = threads / 2; s > 0; s /= 2) {
      __syncthreads();
      if (t < s) tile[t] = larger(tile[t], tile[t + s]);
    }
    if (t == 0) y[row] = tile[0];
    __syncthreads();
  }
}

// While thread 0 takes the last step of a row, the others load the next one.
__global__ void row_maximum_without_barrier_between_rows(const float* rows, float* y, int count) {
  __shared__ float tile[threads];
  const int t = threadIdx.x;
  for (int row = blockIdx.x; row < count; row += static_cast<int>(gridDim.x)) {
    tile[t] = rows[row * threads + t];  // second
    for (int s = threads / 2; s > 0; s /= 2) {
      __syncthreads();
      if (t < s) tile[t] = larger(tile[t], tile[t + s]);  // first
    }
    if (t == 0) y[row] = tile[0];  // first
  }
}

// The last thread folds the row alone; the others already load the next one.
__global__ void row_maximum_with_tile_used_again_too_early(const float* rows, float* y, int count) {
  __shared__ float tile[threads];
  const int t = threadIdx.x;
  for (int row = blockIdx.x; row < count; row += static_cast<int>(gridDim.x)) {
    tile[t] = rows[row * threads + t];  // first
    __syncthreads();
    if (t == threads - 1) {
      float largest = tile[0];                                               // second
      for (int k = 1; k < threads; ++k) largest = larger(largest, tile[k]);  // second
      y[row] = largest;
    }
  }
}

__constant__ float table[4] = {1, 4, 9, 16};

__global__ void constant_table(const int* x, float* y) {
  const int t = threadIdx.x;
  y[t] = table[x[t] % 4];
}

__global__ void constant_table_without_modulus(const int* x, float* y) {
  const int t = threadIdx.x;
  y[t] = table[x[t]];  // first
}

}  // namespace functions
