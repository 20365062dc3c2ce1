// progress: kernels that wait by polling, that never end, that leave their stack, and that throw; the number says
// which.
#pragma once

#include <trifold/cuda.cuh>

#ifdef TRIFOLD_CPU
#include <stdexcept>
#endif

constexpr int block = 64;

// The first thread waits for what the last one writes, which runs after it in the natural order.
__global__ void poll_thread_kernel(const float* x, float* y) {
  __shared__ int flag;
  __shared__ float value;
  const int t = threadIdx.x;
  if (t == 0) flag = 0;
  __syncthreads();
  if (t == block - 1) {
    value = x[t];
    __threadfence_block();
    atomicExch(&flag, 1);
  }
  if (t == 0) {
    while (atomicAdd(&flag, 0) == 0) {
    }
    y[0] = value;
  }
  __syncthreads();
  if (t > 0) y[t] = y[0];
}

// Each block waits for the next one, the first of them before any other has begun.
template <bool signalled>
__global__ void poll_block_kernel(const float* x, float* y, int* flags) {
  const int t = threadIdx.x;
  const unsigned b = blockIdx.x;
  y[b * block + t] = x[b * block + t];
  if (t > 0) return;
  if (b + 1 < gridDim.x) {
    while (atomicCAS(&flags[b + 1], 1, 1) == 0) {
    }
    y[b * block] += y[(b + 1) * block];
  }
  __threadfence();
  if (signalled || b + 1 < gridDim.x) atomicExch(&flags[b], 1);
}

// As many people write it: a volatile load, with nothing in the loop.
__global__ void poll_volatile_kernel(const float* x, float* y) {
  __shared__ volatile int flag;
  const int t = threadIdx.x;
  if (t == 0) flag = 0;
  __syncthreads();
  if (t == block - 1) flag = 1;
  if (t == 0) {
    while (flag == 0) {
    }
  }
  __syncthreads();
  y[t] = x[t];
}

// The same with no barrier before it.
template <bool sleeps>
__global__ void poll_at_once_kernel(const float* x, float* y, int* flags) {
  volatile int* const flag = flags;
  const int t = threadIdx.x;
  if (t == 0) {
    while (*flag == 0) {
      if (sleeps) __nanosleep(100);
    }
  }
  if (t == 1) *flag = 1;
  y[t] = x[t];
}

// What another block has written before its flag is read right after the loop.
__global__ void poll_for_data_kernel(const float* x, float* y, int* flags) {
  const int t = threadIdx.x;
  const unsigned b = blockIdx.x;
  y[b * block + t] = x[b * block + t];
  if (t > 0) return;
  if (b + 1 < gridDim.x) {
    const volatile int* const flag = &flags[b + 1];
    while (*flag == 0) {
    }
    __threadfence();
    y[b * block] += y[(b + 1) * block];
  }
  __threadfence();
  atomicExch(&flags[b], 1);
}

__global__ void lock_kernel(const float* x, float* y, int* flags) {
  const int t = threadIdx.x;
  while (atomicCAS(&flags[0], 0, 1) != 0) {
  }
  __threadfence();
  y[0] += x[blockIdx.x * block + t];
  __threadfence();
  atomicExch(&flags[0], 0);
}

// A block's own memory: fills it, waits for the next block, and reads it again.
enum class Mistake { none, no_barrier, only_the_first_block_fills };

__device__ inline float* own_room() {
  __shared__ float room[block];
  return room;
}

template <Mistake mistake>
__global__ void keep_state_kernel(const float* x, float* y, int* flags) {
  __shared__ float tile[block];
  extern __shared__ float numbers[];
  const unsigned threads = blockDim.x * blockDim.y, t = threadIdx.x + blockDim.x * threadIdx.y;
  const unsigned b = blockIdx.x + gridDim.x * blockIdx.y, blocks = gridDim.x * gridDim.y;
  tile[t] = 0;
  own_room()[t] = 1;
  if (mistake != Mistake::only_the_first_block_fills || b == 0) numbers[t] = 2;
  __syncthreads();
  tile[t] = x[b * threads + t];
  if (mistake != Mistake::no_barrier || b != 5) __syncthreads();
  if (t == 0 && b + 1 < blocks) {
    while (atomicAdd(&flags[b + 1], 0) == 0) {
    }
  }
  const unsigned partner = threads - 1 - (threadIdx.x + blockDim.x * threadIdx.y);
  const unsigned here = blockIdx.x + gridDim.x * blockIdx.y;
  y[here * threads + t] = tile[partner] + numbers[partner] + own_room()[partner];
  __syncthreads();
  if (t == 0) atomicExch(&flags[here], 1);
}

// The second block gets the address of the first one's shared memory.
__device__ float* mailbox;

__global__ void mail_address_kernel(const float* x, float* y, int* flags) {
  __shared__ float tile[block];
  const int t = threadIdx.x;
  tile[t] = x[blockIdx.x * block + t];
  __syncthreads();
  if (t > 0) return;
  if (blockIdx.x == 0) {
    mailbox = tile;
    __threadfence();
    atomicExch(&flags[0], 1);
    while (atomicAdd(&flags[1], 0) == 0) {
    }
  } else {
    while (atomicAdd(&flags[0], 0) == 0) {
    }
    __threadfence();
    y[0] = mailbox[3];
    atomicExch(&flags[1], 1);
  }
}

__global__ void endless_kernel(float* y) {
  volatile float* const to = y;
  if (blockIdx.x == 1 && threadIdx.x == 3) {
    for (;;) to[block + 3] = 1;
  }
}

__global__ void endless_after_barrier_kernel(float* y) {
  volatile float* const to = y;
  __syncthreads();
  if (blockIdx.x == 1 && threadIdx.x == 3) {
    for (;;) to[block + 3] = 1;
  }
  __syncthreads();
}

__global__ void endless_barriers_kernel() {
  for (;;) __syncthreads();
}

// Silent, and with no access of memory that a check would see.
__global__ void endless_silence_kernel(const float* x) {
  volatile int turns = 0;
  while (x != nullptr) turns = turns + 1;
}

__device__ __attribute__((noinline)) float depth_sum(const float* x, int depth) {
  volatile float frame[64];
  frame[depth % 64] = x[depth % block];
  return depth == 0 ? 0 : depth_sum(x, depth - 1) + frame[depth % 64];
}

template <bool waits>
__global__ void recursion_kernel(const float* x, float* y, int depth) {
  const int t = threadIdx.x;
  if (waits) __syncthreads();
  y[blockIdx.x * block + t] = blockIdx.x == 1 && t == 5 ? depth_sum(x, depth) : 0;
  if (waits) __syncthreads();
}

__global__ void large_frame_kernel(const float* x, float* y) {
  volatile float frame[1 << 18];  // 1 MiB
  const int t = threadIdx.x;
  frame[t * 7] = x[t];
  y[t] = frame[t * 7];
}

#ifdef TRIFOLD_CPU
template <bool waits>
__global__ void throwing_kernel(const float* x) {
  if (waits) __syncthreads();
  if (threadIdx.x == 5 && x[5] == 5.0f) throw std::invalid_argument("thread 5 has thrown");
  if (waits) __syncthreads();
}

// nvcc refuses it.
__global__ void large_static_kernel(const float* x, float* y) {
  __shared__ float tile[13 << 10];  // 52 KiB
  const int t = threadIdx.x;
  tile[t] = x[t];
  __syncthreads();
  y[t] = tile[block - 1 - t];
}

// Not in the kernel itself: in what it calls. nvcc adds them up.
template <int kibibytes>
__device__ __attribute__((noinline)) float first_stage(const float* x) {
  __shared__ float tile[kibibytes << 8];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  return tile[block - 1 - threadIdx.x];
}
template <int kibibytes>
__device__ float second_stage(const float* x) {
  __shared__ float tile[kibibytes << 8];
  tile[threadIdx.x] = first_stage<kibibytes>(x);
  __syncthreads();
  return tile[block - 1 - threadIdx.x];
}
template <int kibibytes>
__global__ void staged_kernel(const float* x, float* y) {
  y[threadIdx.x] = second_stage<kibibytes>(x);
}

template <class T, int elements>
__global__ void large_template_kernel(const T* x, T* y) {
  __shared__ T tile[elements];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[block - 1 - threadIdx.x];
}
#endif

__global__ void reverse_kernel(const float* x, float* y) {
  __shared__ float tile[block];
  const int t = threadIdx.x;
  tile[t] = x[blockIdx.x * block + t];
  __syncthreads();
  y[blockIdx.x * block + t] = tile[block - 1 - t];
}

// The launches that a kernel's bounds permit.
template <int most>
struct Threads {
  static constexpr int threads = most, blocks = 2;
};

template <class T, class Choice>
__global__ void __launch_bounds__(Choice::threads, Choice::blocks) /* (blocks) { */
    bounded_kernel(const T* x, T* y) {
  y[threadIdx.x] = x[threadIdx.x];
}

namespace bounds {
__global__ void bounded_kernel(const float* x, float* y);
__launch_bounds__(Threads<(block / 2)>::threads) __global__ void bounded_kernel(const float* x, float* y) {
  extern __shared__ float tile[];
  const int t = threadIdx.x + blockDim.x * threadIdx.y;
  tile[t] = 0;
  __syncthreads();
  y[t] = x[t] + tile[0];
}
}  // namespace bounds

// Its bounds are not the parameter of that name: they are not read.
__global__ void __launch_bounds__(block) shadowing_kernel(const float* x, float* y, int block) {
  y[threadIdx.x] = x[block - block + threadIdx.x];
}
