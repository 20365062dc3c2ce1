// Sums: in a block by a tree, by warps, over blocks by the last block, over segments.
#pragma once

#include <trifold/cuda.cuh>

namespace reductions {

constexpr int threads = 128;
constexpr int warps = threads / 32;
constexpr int half = threads / 2;
constexpr unsigned full = 0xffffffffu;

__device__ inline int thread_of_grid() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void tree_sum(const float* x, float* sums) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = x[thread_of_grid()];
  __syncthreads();
  for (int s = threads / 2; s > 0; s /= 2) {
    if (t < s) acc[t] += acc[t + s];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = acc[0];
}

__global__ void tree_sum_without_barrier_in_loop(const float* x, float* sums) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = x[thread_of_grid()];
  __syncthreads();
  for (int s = threads / 2; s > 0; s /= 2) {
    if (t < s) acc[t] += acc[t + s];  // first
  }
  __syncthreads();
  if (t == 0) sums[blockIdx.x] = acc[0];
}

__global__ void tree_sum_with_barrier_under_condition(const float* x, float* sums) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = x[thread_of_grid()];
  __syncthreads();
  for (int s = threads / 2; s > 0; s /= 2) {
    if (t < s) {
      acc[t] += acc[t + s];
      __syncthreads();  // first
    }
  }
  __syncthreads();  // second
  if (t == 0) sums[blockIdx.x] = acc[0];
}

// The last 32 elements are summed as on GPUs before Volta, whose warps ran in lockstep.
__global__ void warp_tail_without_syncwarp(const float* x, float* sums) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = x[thread_of_grid()];
  __syncthreads();
  if (t < 64) acc[t] += acc[t + 64];
  __syncthreads();
  if (t < 32) {
    acc[t] += acc[t + 32];  // second
    acc[t] += acc[t + 16];  // second
    acc[t] += acc[t + 8];   // second
    acc[t] += acc[t + 4];   // second
    acc[t] += acc[t + 2];   // second
    acc[t] += acc[t + 1];   // first, second
  }
  if (t == 0) sums[blockIdx.x] = acc[0];
}

__global__ void warp_tail_with_syncwarp(const float* x, float* sums) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = x[thread_of_grid()];
  __syncthreads();
  if (t < 64) acc[t] += acc[t + 64];
  __syncthreads();
  if (t < 32) {
    float v = acc[t] + acc[t + 32];
    for (int s = 16; s > 0; s /= 2) {
      acc[t] = v;
      __syncwarp();
      v += acc[(t + s) % 64];
      __syncwarp();
    }
    if (t == 0) sums[blockIdx.x] = v;
  }
}

// A rendezvous after each write, none between a read and the next write of the same place.
__global__ void warp_tail_with_one_syncwarp(const float* x, float* sums) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = x[thread_of_grid()];
  __syncthreads();
  if (t < 64) acc[t] += acc[t + 64];
  __syncthreads();
  if (t < 32) {
    for (int s = 32; s > 0; s /= 2) {
      acc[t] += acc[t + s];  // first, second
      __syncwarp();
    }
    if (t == 0) sums[blockIdx.x] = acc[0];
  }
}

__device__ inline float warp_sum(float v) {
  v += __shfl_down_sync(full, v, 16);
  v += __shfl_down_sync(full, v, 8);
  v += __shfl_down_sync(full, v, 4);
  v += __shfl_down_sync(full, v, 2);
  v += __shfl_down_sync(full, v, 1);
  return v;
}

__global__ void sum_by_warps(const float* x, float* sums) {
  __shared__ float partial[warps];
  const int t = threadIdx.x;
  float v = warp_sum(x[thread_of_grid()]);
  if (t % 32 == 0) partial[t / 32] = v;
  __syncthreads();
  if (t < 32) {
    v = t < warps ? partial[t] : 0.0f;
    v = warp_sum(v);
    if (t == 0) sums[blockIdx.x] = v;
  }
}

__global__ void sum_by_warps_without_barrier(const float* x, float* sums) {
  __shared__ float partial[warps];
  const int t = threadIdx.x;
  float v = warp_sum(x[thread_of_grid()]);
  if (t % 32 == 0) partial[t / 32] = v;  // first
  if (t < 32) {
    v = t < warps ? partial[t] : 0.0f;  // second
    v = warp_sum(v);
    if (t == 0) sums[blockIdx.x] = v;
  }
}

__device__ inline float block_sum(float v) {
  __shared__ float acc[threads];
  const int t = threadIdx.x;
  acc[t] = v;
  __syncthreads();
  for (int s = threads / 2; s > 0; s /= 2) {
    if (t < s) acc[t] += acc[t + s];
    __syncthreads();
  }
  return acc[0];
}

// The threadFenceReduction sample: each block leaves its sum, the last one to finish adds them up.
__global__ void last_block_sum(const float* x, float* partial, int* finished, float* total) {
  __shared__ int last[1];
  const int t = threadIdx.x;
  const float v = block_sum(x[thread_of_grid()]);
  if (t == 0) {
    partial[blockIdx.x] = v;
    __threadfence();
    last[0] = atomicAdd(&finished[0], 1) == static_cast<int>(gridDim.x) - 1;
  }
  __syncthreads();
  if (last[0] != 0 && t == 0) {
    float s = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) s += partial[b];
    total[0] = s;
  }
}

// All threads write and fence, one counts after the barrier; all threads of the last block read.
__global__ void last_block_sum_where_all_threads_write_and_fence(const float* x, float* partial, int* finished,
                                                                 float* total) {
  __shared__ int last[1];
  __shared__ float acc[4];
  const int t = threadIdx.x;
  atomicAdd(&partial[blockIdx.x], x[thread_of_grid()]);
  __threadfence();
  __syncthreads();
  if (t == 0) last[0] = atomicAdd(&finished[0], 1) == static_cast<int>(gridDim.x) - 1;
  __syncthreads();
  if (last[0] != 0) {
    if (t < 4) acc[t] = partial[t];
    __syncthreads();
    if (t == 0) total[0] = acc[0] + acc[1] + acc[2] + acc[3];
  }
}

__global__ void last_block_sum_without_fence(const float* x, float* partial, int* finished, float* total) {
  __shared__ int last[1];
  const int t = threadIdx.x;
  const float v = block_sum(x[thread_of_grid()]);
  if (t == 0) {
    partial[blockIdx.x] = v;  // first
    last[0] = atomicAdd(&finished[0], 1) == static_cast<int>(gridDim.x) - 1;
  }
  __syncthreads();
  if (last[0] != 0 && t == 0) {
    float s = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) s += partial[b];  // second
    total[0] = s;
  }
}

__global__ void last_block_sum_with_block_fence(const float* x, float* partial, int* finished, float* total) {
  __shared__ int last[1];
  const int t = threadIdx.x;
  const float v = block_sum(x[thread_of_grid()]);
  if (t == 0) {
    partial[blockIdx.x] = v;  // first
    __threadfence_block();
    last[0] = atomicAdd(&finished[0], 1) == static_cast<int>(gridDim.x) - 1;
  }
  __syncthreads();
  if (last[0] != 0 && t == 0) {
    float s = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) s += partial[b];  // second
    total[0] = s;
  }
}

// The fence comes after the count that announces the sum.
__global__ void last_block_sum_with_late_fence(const float* x, float* partial, int* finished, float* total) {
  __shared__ int last[1];
  const int t = threadIdx.x;
  const float v = block_sum(x[thread_of_grid()]);
  if (t == 0) {
    partial[blockIdx.x] = v;  // first
    last[0] = atomicAdd(&finished[0], 1) == static_cast<int>(gridDim.x) - 1;
    __threadfence();
  }
  __syncthreads();
  if (last[0] != 0 && t == 0) {
    float s = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) s += partial[b];  // second
    total[0] = s;
  }
}

__global__ void last_block_sum_without_atomic(const float* x, float* partial, int* finished, float* total) {
  __shared__ int last[1];
  const int t = threadIdx.x;
  const float v = block_sum(x[thread_of_grid()]);
  if (t == 0) {
    partial[blockIdx.x] = v;
    __threadfence();
    finished[0] += 1;                                      // first
    last[0] = finished[0] == static_cast<int>(gridDim.x);  // first
  }
  __syncthreads();
  if (last[0] != 0 && t == 0) {
    float s = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) s += partial[b];
    total[0] = s;
  }
}

__global__ void blocks_add_to_one_total(const float* x, float*, int*, float* total) {
  const float v = block_sum(x[thread_of_grid()]);
  if (threadIdx.x == 0) total[0] += v;  // first
}

__global__ void blocks_add_atomically(const float* x, float*, int*, float* total) {
  const float v = block_sum(x[thread_of_grid()]);
  if (threadIdx.x == 0) atomicAdd(&total[0], v);
}

// The first thread of each run in a block adds the run up.
__global__ void segmented_sum(const float* x, const int* segment, float* sums) {
  __shared__ int ids[half];
  __shared__ float values[half];
  const int t = threadIdx.x, i = thread_of_grid();
  ids[t] = segment[i];
  values[t] = x[i];
  __syncthreads();
  if (t == 0 || ids[t - 1] != ids[t]) {
    float s = 0;
    for (int k = t; k < half && ids[k] == ids[t]; ++k) s += values[k];
    atomicAdd(&sums[ids[t]], s);
  }
}

// A segment that two blocks share has two first threads.
__global__ void segmented_sum_without_atomic(const float* x, const int* segment, float* sums) {
  __shared__ int ids[half];
  __shared__ float values[half];
  const int t = threadIdx.x, i = thread_of_grid();
  ids[t] = segment[i];
  values[t] = x[i];
  __syncthreads();
  if (t == 0 || ids[t - 1] != ids[t]) {
    float s = 0;
    for (int k = t; k < half && ids[k] == ids[t]; ++k) s += values[k];
    sums[ids[t]] += s;  // first
  }
}

__global__ void largest_by_compare_and_store(const float* x, float* largest) {
  const float v = x[thread_of_grid()];
  if (v > largest[0])  // first
    largest[0] = v;    // second
}

}  // namespace reductions
