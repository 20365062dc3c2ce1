// cases: right and wrong kernels of one block or a few, over n floats; the number says which.
#pragma once

#include <trifold/cuda.cuh>

constexpr int block = 64;

template <bool synchronised>
__global__ void reverse_kernel(const float* x, float* y) {
  __shared__ float tile[block];
  const int t = threadIdx.x;
  tile[t] = x[blockIdx.x * block + t];
  if (synchronised) __syncthreads();
  y[blockIdx.x * block + t] = tile[block - 1 - t];
}

// Each of the first half adds its partner's, again and again.
template <bool synchronised>
__global__ void sum_kernel(const float* x, float* y) {
  __shared__ float sums[block];
  const int t = threadIdx.x;
  sums[t] = x[t];
  __syncthreads();
  for (int half = block / 2; half > 0; half /= 2) {
    if (t < half) sums[t] += sums[t + half];
    if (synchronised) __syncthreads();
  }
  y[t] = sums[0];
}

template <int offset>
__global__ void neighbour_kernel(const float* x, float* y) {
  __shared__ float before[block];
  __shared__ float tile[block];
  __shared__ float after[block];
  const int t = threadIdx.x;
  before[t] = after[t] = tile[t] = x[t];
  __syncthreads();
  y[t] = tile[t + offset] + before[t] - after[t];
}

__global__ void dynamic_kernel(const float* x, float* y) {
  float* tile = trifold::dynamic_shared<float>();
  const int t = threadIdx.x;
  tile[t] = x[t];
  __syncthreads();
  y[t] = tile[block - 1 - t];
}

template <int written>
__global__ void partly_written_kernel(float* y) {
  __shared__ float tile[block];
  const int t = threadIdx.x;
  if (t < written) tile[t] = 1;
  __syncthreads();
  y[t] = tile[t];
}

template <int beyond>
__global__ void guard_kernel(const float* x, float* y, int64_t n) {
  const int64_t i = trifold::thread_index<block>();
  if (i < n + beyond) y[i] = x[i];
}

template <bool atomic>
__global__ void total_kernel(const float* x, float* y) {
  const int t = threadIdx.x;
  if (atomic) {
    if (t < 2) atomicAdd(&y[t], x[blockIdx.x * block + t]);
  } else if (t == 0) {
    y[0] += x[blockIdx.x * block];
  }
}

template <bool fenced>
__global__ void last_block_kernel(const float* x, float* y, float* count) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    y[1 + blockIdx.x] = x[blockIdx.x * block];
    if (fenced) __threadfence();
    last = atomicAdd(count, 1.0f) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    y[0] = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) y[0] += y[1 + b];
  }
}

__global__ void two_barriers_kernel(float* y) {
  const int t = threadIdx.x;
  if (t < 16) {
    y[t] = 1;
    __syncthreads();
  } else {
    y[t] = 2;
    __syncthreads();
  }
}

__global__ void early_exit_kernel(float* y) {
  const int t = threadIdx.x;
  if (t >= 48) return;
  __syncthreads();
  y[t] = 1;
}

__global__ void counts_kernel(float* y) {
  const int t = threadIdx.x;
  const int count = __syncthreads_count(t % 3 == 0), all = __syncthreads_and(t < block), any = __syncthreads_or(t == 7);
  y[t] = static_cast<float>(100 * count + 10 * all + any);
}

__global__ void warp_kernel(const float* x, float* y) {
  const int t = threadIdx.x, lane = t % 32;
  float sum = x[t];
  for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffffu, sum, delta);
  const float first = __shfl_sync(0xffffffffu, sum, 0);
  const unsigned odd = __ballot_sync(0xffffffffu, lane & 1);
  const unsigned same = __match_any_sync(0xffffffffu, lane / 8);
  const float swapped = __shfl_xor_sync(0xffffffffu, first + lane, 1);
  const bool right = odd == 0xaaaaaaaau && same == 0xffu << lane / 8 * 8 && __all_sync(0xffffffffu, 1) &&
                     !__any_sync(0xffffffffu, lane == 32) && swapped == first + (lane ^ 1);
  y[t] = right ? first : -1;
}

template <bool synchronised>
__global__ void warp_memory_kernel(const float* x, float* y) {
  __shared__ float tile[block];
  const int t = threadIdx.x;
  tile[t] = 0;
  __syncthreads();
  tile[t] = x[t];
  if (synchronised) __syncwarp();
  y[t] = tile[t ^ 1];
}

__global__ void wrong_mask_kernel(float* y) {
  const int t = threadIdx.x;
  if (t < 16) y[t] = static_cast<float>(__ballot_sync(0xffu, 1));
}

struct alignas(16) Four {
  float value[4];
};

template <int offset>
__global__ void vector_kernel(const float* x, float* y) {
  if (threadIdx.x > 0) return;
  const Four four = *reinterpret_cast<const Four*>(x + offset);
  *reinterpret_cast<Four*>(y) = four;
}

// Blocks of two dimensions, and barriers in the second of which all threads know the first's.
__global__ void transpose_kernel(const float* x, float* y) {
  __shared__ float tile[8][9];
  tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 8 + threadIdx.x];
  __syncthreads();
  y[threadIdx.y * 8 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
