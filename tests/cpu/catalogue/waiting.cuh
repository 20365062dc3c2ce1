// Locks, flags, tickets and look-back: blocks, warps and threads that wait for each other.
#pragma once

#include <trifold/cuda.cuh>

namespace waiting {

constexpr int threads = 64;

// -------------------------------------------------------------------------------------------------- locks

// The first thread of each block adds under a lock.
__global__ void spin_lock(const double* x, double* total, int* lock) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    total[0] += x[blockIdx.x];
    __threadfence();
    atomicExch(lock, 0);
  }
}

__global__ void spin_lock_never_released(const double* x, double* total, int* lock) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {  // first
    }
    __threadfence();
    total[0] += x[blockIdx.x];
  }
}

// The lock keeps others out, but does not make the sum visible before it opens.
__global__ void spin_lock_without_fence(const double* x, double* total, int* lock) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    total[0] += x[blockIdx.x];  // first
    atomicExch(lock, 0);
  }
}

__global__ void spin_lock_opened_by_a_plain_store(const double* x, double* total, int* lock) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {  // first
    }
    __threadfence();
    total[0] += x[blockIdx.x];
    __threadfence();
    lock[0] = 0;  // second
  }
}

// All threads of the block want the lock; who has it waits for them at the barrier.
__global__ void lock_held_across_a_barrier(const double* x, double* total, int* lock) {
  while (atomicCAS(lock, 0, 1) != 0) {  // first
  }
  __threadfence();
  if (threadIdx.x == 0) total[0] += x[blockIdx.x];
  __syncthreads();  // second
  __threadfence();
  atomicExch(lock, 0);
}

__global__ void ticket_lock(int* order, int* ticket, int* serving, int* length) {
  if (threadIdx.x == 0) {
    const int mine = atomicAdd(ticket, 1);
    while (atomicAdd(serving, 0) != mine) __nanosleep(100);
    __threadfence();
    order[length[0]] = blockIdx.x;
    length[0] += 1;
    __threadfence();
    atomicAdd(serving, 1);
  }
}

__global__ void ticket_lock_that_serves_from_one(int* order, int* ticket, int* serving, int* length) {
  if (threadIdx.x == 0) {
    const int mine = atomicAdd(ticket, 1);
    while (atomicAdd(serving, 0) != mine + 1) __nanosleep(100);  // first
    __threadfence();
    order[length[0]] = blockIdx.x;
    length[0] += 1;
    __threadfence();
    atomicAdd(serving, 1);
  }
}

__device__ inline void acquire(int* lock, int k) {
  while (atomicCAS(&lock[k], 0, 1) != 0) {  // first
  }
  __threadfence_block();
}

__device__ inline void release(int* lock, int k) {
  __threadfence_block();
  atomicExch(&lock[k], 0);
}

__global__ void transfer_with_ordered_locks(int* balance) {
  __shared__ int lock[2];
  const int t = threadIdx.x, source = t / 32;
  if (t < 2) lock[t] = 0;
  __syncthreads();
  if (t % 32 == 0) acquire(lock, 0);
  __syncwarp();
  if (t % 32 == 0) {
    acquire(lock, 1);
    const int amount = 5 + 2 * source;
    balance[source] -= amount;
    balance[1 - source] += amount;
    release(lock, 1);
    release(lock, 0);
  }
}

// Each warp has its own account's lock and waits for the other's.
__global__ void transfer_with_crossed_locks(int* balance) {
  __shared__ int lock[2];
  const int t = threadIdx.x, source = t / 32;
  if (t < 2) lock[t] = 0;
  __syncthreads();
  if (t % 32 == 0) acquire(lock, source);
  __syncthreads();
  if (t % 32 == 0) {
    acquire(lock, 1 - source);
    const int amount = 5 + 2 * source;
    balance[source] -= amount;
    balance[1 - source] += amount;
    release(lock, 1 - source);
    release(lock, source);
  }
}

// -------------------------------------------------------------------------------------------------- flags

// The consumer is the lower block: it waits for one that starts later.
__global__ void producer_and_consumer(float* data, int* ready, float* sums) {
  const int t = threadIdx.x, pair = blockIdx.x / 2;
  if (blockIdx.x % 2 == 1) {
    data[pair * threads + t] = pair * threads + t;
    __threadfence();
    __syncthreads();
    if (t == 0) atomicExch(&ready[pair], 1);
  } else {
    if (t == 0) {
      while (atomicAdd(&ready[pair], 0) == 0) {
      }
      __threadfence();
    }
    __syncthreads();
    atomicAdd(&sums[pair], data[pair * threads + t]);
  }
}

__global__ void producer_without_fence(float* data, int* ready, float* sums) {
  const int t = threadIdx.x, pair = blockIdx.x / 2;
  if (blockIdx.x % 2 == 1) {
    data[pair * threads + t] = pair * threads + t;  // first
    __syncthreads();
    if (t == 0) atomicExch(&ready[pair], 1);
  } else {
    if (t == 0) {
      while (atomicAdd(&ready[pair], 0) == 0) {
      }
      __threadfence();
    }
    __syncthreads();
    atomicAdd(&sums[pair], data[pair * threads + t]);  // second
  }
}

// A fence of block scope orders nothing for the other block.
__global__ void producer_with_block_fence(float* data, int* ready, float* sums) {
  const int t = threadIdx.x, pair = blockIdx.x / 2;
  if (blockIdx.x % 2 == 1) {
    data[pair * threads + t] = pair * threads + t;  // first
    __threadfence_block();
    __syncthreads();
    if (t == 0) atomicExch(&ready[pair], 1);
  } else {
    if (t == 0) {
      while (atomicAdd(&ready[pair], 0) == 0) {
      }
    }
    __syncthreads();
    atomicAdd(&sums[pair], data[pair * threads + t]);  // second
  }
}

__global__ void producer_that_announces_too_early(float* data, int* ready, float* sums) {
  const int t = threadIdx.x, pair = blockIdx.x / 2;
  if (blockIdx.x % 2 == 1) {
    if (t == 0) {
      __threadfence();
      atomicExch(&ready[pair], 1);
    }
    data[pair * threads + t] = pair * threads + t;  // first
  } else {
    if (t == 0) {
      while (atomicAdd(&ready[pair], 0) == 0) {
      }
      __threadfence();
    }
    __syncthreads();
    atomicAdd(&sums[pair], data[pair * threads + t]);  // second
  }
}

__global__ void consumer_that_polls_by_plain_reads(float* data, int* ready, float* sums) {
  const int t = threadIdx.x, pair = blockIdx.x / 2;
  if (blockIdx.x % 2 == 1) {
    data[pair * threads + t] = pair * threads + t;
    __threadfence();
    __syncthreads();
    if (t == 0) atomicExch(&ready[pair], 1);  // second
  } else {
    if (t == 0) {
      while (ready[pair] == 0) {  // first
      }
      __threadfence();
    }
    __syncthreads();
    atomicAdd(&sums[pair], data[pair * threads + t]);
  }
}

__global__ void blocks_tell_then_wait(const int* x, int* y, int* flag) {
  const int b = blockIdx.x;
  atomicExch(&y[1 - b], x[b]);
  __threadfence();
  atomicExch(&flag[b], 1);
  while (atomicAdd(&flag[1 - b], 0) == 0) {
  }
}

__global__ void blocks_wait_then_tell(const int* x, int* y, int* flag) {
  const int b = blockIdx.x;
  while (atomicAdd(&flag[1 - b], 0) == 0) {  // first
  }
  atomicExch(&y[1 - b], x[b]);
  __threadfence();
  atomicExch(&flag[b], 1);
}

// All blocks count themselves in and wait for the others: they must be resident together.
__global__ void grid_barrier_by_hand(int* arrived, int* y) {
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < static_cast<int>(gridDim.x)) {
    }
    y[blockIdx.x] = atomicAdd(arrived, 0);
  }
}

__global__ void grid_barrier_for_a_block_too_many(int* arrived, int* y) {
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) <= static_cast<int>(gridDim.x)) {  // first
    }
    y[blockIdx.x] = atomicAdd(arrived, 0);
  }
}

// All lanes write, then meet; lane 0 fences for all of them and raises the flag.
__global__ void warp_hands_over(float* data, int* ready, float* y) {
  const int lane = threadIdx.x;
  if (blockIdx.x == 0) {
    data[lane] = lane;
    __syncwarp();
    if (lane == 0) {
      __threadfence();
      atomicExch(ready, 1);
    }
  } else {
    if (lane == 0) {
      while (atomicAdd(ready, 0) == 0) {
      }
      __threadfence();
    }
    __syncwarp();
    y[lane] = data[31 - lane];
  }
}

// Lane 0 fences and raises the flag for itself; nobody waited for the other lanes.
__global__ void warp_hands_over_without_meeting(float* data, int* ready, float* y) {
  const int lane = threadIdx.x;
  if (blockIdx.x == 0) {
    data[lane] = lane;  // first
    if (lane == 0) {
      __threadfence();
      atomicExch(ready, 1);
    }
  } else {
    if (lane == 0) {
      while (atomicAdd(ready, 0) == 0) {
      }
      __threadfence();
    }
    __syncwarp();
    y[lane] = data[31 - lane];  // second
  }
}

// Lane 0 of the second block waits for the flag, its other lanes do not.
__global__ void warp_is_taken_over_without_meeting(float* data, int* ready, float* y) {
  const int lane = threadIdx.x;
  if (blockIdx.x == 0) {
    data[lane] = lane;  // first
    __syncwarp();
    if (lane == 0) {
      __threadfence();
      atomicExch(ready, 1);
    }
  } else {
    if (lane == 0) {
      while (atomicAdd(ready, 0) == 0) {
      }
      __threadfence();
    }
    y[lane] = data[31 - lane];  // second
  }
}

// -------------------------------------------------------------------------------------------------- look-back

__device__ inline int inclusive_scan(int v) {
  __shared__ int a[threads];
  const int t = threadIdx.x;
  a[t] = v;
  __syncthreads();
  for (int distance = 1; distance < threads; distance *= 2) {
    const int left = t >= distance ? a[t - distance] : 0;
    __syncthreads();
    a[t] += left;
    __syncthreads();
  }
  return a[t];
}

enum : int { aggregate_is_known = 1, prefix_is_known = 2 };

// Merrill and Garland's single-pass scan: tiles are taken by ticket, so that a tile waits for started ones only.
__global__ void decoupled_look_back(const int* x, int* y, int* status, int* aggregate, int* prefix, int* ticket) {
  __shared__ int shared[2];
  const int t = threadIdx.x;
  if (t == 0) shared[0] = atomicAdd(ticket, 1);
  __syncthreads();
  const int tile = shared[0], v = inclusive_scan(x[tile * threads + t]);
  if (t == threads - 1) {
    aggregate[tile] = v;
    __threadfence();
    atomicExch(&status[tile], aggregate_is_known);
    int before = 0;
    for (int k = tile - 1; k >= 0; --k) {
      int state = 0;
      while ((state = atomicAdd(&status[k], 0)) == 0) {
      }
      __threadfence();
      if (state == prefix_is_known) {
        before += prefix[k];
        break;
      }
      before += aggregate[k];
    }
    prefix[tile] = before + v;
    __threadfence();
    atomicExch(&status[tile], prefix_is_known);
    shared[1] = before;
  }
  __syncthreads();
  y[tile * threads + t] = v + shared[1];
}

__global__ void look_back_without_fence(const int* x, int* y, int* status, int* aggregate, int* prefix, int* ticket) {
  __shared__ int shared[2];
  const int t = threadIdx.x;
  if (t == 0) shared[0] = atomicAdd(ticket, 1);
  __syncthreads();
  const int tile = shared[0], v = inclusive_scan(x[tile * threads + t]);
  if (t == threads - 1) {
    aggregate[tile] = v;  // first
    atomicExch(&status[tile], aggregate_is_known);
    int before = 0;
    for (int k = tile - 1; k >= 0; --k) {
      int state = 0;
      while ((state = atomicAdd(&status[k], 0)) == 0) {
      }
      if (state == prefix_is_known) {
        before += prefix[k];  // second
        break;
      }
      before += aggregate[k];  // second
    }
    prefix[tile] = before + v;  // first
    atomicExch(&status[tile], prefix_is_known);
    shared[1] = before;
  }
  __syncthreads();
  y[tile * threads + t] = v + shared[1];
}

__global__ void look_back_by_plain_reads(const int* x, int* y, int* status, int* aggregate, int* prefix, int* ticket) {
  __shared__ int shared[2];
  const int t = threadIdx.x;
  if (t == 0) shared[0] = atomicAdd(ticket, 1);
  __syncthreads();
  const int tile = shared[0], v = inclusive_scan(x[tile * threads + t]);
  if (t == threads - 1) {
    aggregate[tile] = v;
    __threadfence();
    atomicExch(&status[tile], aggregate_is_known);  // first
    int before = 0;
    for (int k = tile - 1; k >= 0; --k) {
      while (status[k] == 0) {  // second
      }
      if (status[k] == prefix_is_known) {  // second
        before += prefix[k];
        break;
      }
      before += aggregate[k];
    }
    prefix[tile] = before + v;
    __threadfence();
    atomicExch(&status[tile], prefix_is_known);  // first
    shared[1] = before;
  }
  __syncthreads();
  y[tile * threads + t] = v + shared[1];
}

// The parts that are left out of the kernels below.
enum class Without { nothing, fence, atomic };

// A scan whose tiles lie in dynamic shared memory. The first block has the last tile, so that in the natural order each
// block waits for one that starts later, and comes back to its own tile.
template <Without without>
__device__ void look_back_from_the_last_tile(const int* x, int* y, int* ready, int* prefix) {
  __shared__ int before;
  int* const tile = trifold::dynamic_shared<int>();
  const int t = threadIdx.x, b = gridDim.x - 1 - blockIdx.x;
  tile[t] = inclusive_scan(x[b * threads + t]);
  if (t == threads - 1) {
    before = 0;
    if (b > 0) {
      while (atomicAdd(&ready[b - 1], 0) == 0) {  // first
      }
      __threadfence();
      before = prefix[b - 1];  // second
    }
    prefix[b] = before + tile[t];  // first
    if (without != Without::fence) __threadfence();
    if (without != Without::atomic) {
      atomicExch(&ready[b], 1);
    } else {
      ready[b] = 1;  // second
    }
  }
  __syncthreads();
  y[(gridDim.x - 1 - blockIdx.x) * threads + t] = before + tile[t];
}

__global__ void scan_from_the_last_tile(const int* x, int* y, int* ready, int* prefix) {
  look_back_from_the_last_tile<Without::nothing>(x, y, ready, prefix);
}
__global__ void scan_from_the_last_tile_without_fence(const int* x, int* y, int* ready, int* prefix) {
  look_back_from_the_last_tile<Without::fence>(x, y, ready, prefix);
}
__global__ void scan_from_the_last_tile_with_a_plain_flag(const int* x, int* y, int* ready, int* prefix) {
  look_back_from_the_last_tile<Without::atomic>(x, y, ready, prefix);
}

// -------------------------------------------------------------------------------------------------- the whole grid

template <Without without>
__device__ void wait_for_all_blocks(int* arrived, int step) {
  __syncthreads();
  if (threadIdx.x == 0) {
    if (without != Without::fence) __threadfence();
    if (without != Without::atomic) {
      atomicAdd(arrived, 1);
    } else {
      arrived[0] += 1;  // first
    }
    while (atomicAdd(arrived, 0) < static_cast<int>(gridDim.x) * (step + 1)) {  // second
    }
    __threadfence();
  }
  __syncthreads();
}

// In each step an element of x becomes the sum of itself and of its neighbour in the next block; a block's own elements
// stay in its shared memory.
template <Without without>
__device__ void add_neighbours(int* x, int* y, int* arrived) {
  __shared__ int own[threads];
  const int t = threadIdx.x, b = blockIdx.x;
  own[t] = x[b * threads + t];
  for (int step = 0; step < 3; ++step) {
    const int next = x[(b + 1) % gridDim.x * threads + t];  // second
    wait_for_all_blocks<without>(arrived, 2 * step);
    x[b * threads + t] = own[t] += next;  // first
    wait_for_all_blocks<without>(arrived, 2 * step + 1);
  }
  y[blockIdx.x * threads + t] = own[t];
}

__global__ void steps_of_the_whole_grid(int* x, int* y, int* arrived) {
  add_neighbours<Without::nothing>(x, y, arrived);
}
__global__ void steps_of_the_whole_grid_without_fence(int* x, int* y, int* arrived) {
  add_neighbours<Without::fence>(x, y, arrived);
}
__global__ void steps_of_the_whole_grid_counted_without_atomic(int* x, int* y, int* arrived) {
  add_neighbours<Without::atomic>(x, y, arrived);
}

}  // namespace waiting
