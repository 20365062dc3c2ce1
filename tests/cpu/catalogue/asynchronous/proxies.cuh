// What passes between plain accesses and bulk operations, and the fence that this takes. y = 2 x, of a tile a block.
#pragma once

#include "instructions.cuh"

// Generic writes, then a bulk store; the tile is written again when the store has read it.
__global__ void store(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  const int t = threadIdx.x;
  for (int i = t; i < tile_floats; i += threads) tile[i] = 2 * x[blockIdx.x * tile_floats + i];  // written
  FENCE();                                                                                       // by each writer
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y + blockIdx.x * tile_floats, tile, tile_bytes);  // stored
    BULK_COMMIT();
    BULK_WAIT_READ(0);  // read
    tile[1] = 0;        // written again
  }
}

// The same where a block ends with its store.
__global__ void last_store(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  const int t = threadIdx.x;
  for (int i = t; i < tile_floats; i += threads) tile[i] = 2 * x[blockIdx.x * tile_floats + i];  // written
  FENCE();                                                                                       // by each writer
  __syncthreads();
  FENCE();  // by the issuer, too: does no harm
  if (t == 0) {
    BULK_STORE(y + blockIdx.x * tile_floats, tile, tile_bytes);  // stored
    BULK_COMMIT();
    BULK_WAIT_READ(0);  // before the end
  }
}

// The same in a loop, which may have no round: the fence after it is that of the tile.
__global__ void rounds_then_store(const float* x, float* y, int rounds) {
  __shared__ __align__(128) float tile[tile_floats];
  const int t = threadIdx.x;
  for (int i = t; i < tile_floats; i += threads) tile[i] = 2 * x[blockIdx.x * tile_floats + i];  // written
  for (int round = 0; round < rounds; ++round)
    for (int i = t; i < tile_floats; i += threads) tile[i] += 1;
  FENCE();  // of all rounds
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y + blockIdx.x * tile_floats, tile, tile_bytes);  // stored
    BULK_COMMIT();
    BULK_WAIT_READ(0);
  }
}

// A block writes memory, another one loads it in bulk once a flag is up.
__global__ void flag(const float* x, float* y, float* passed, unsigned* up) {
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    for (int i = t; i < tile_floats; i += threads) passed[i] = x[i];  // written
    asm volatile("fence.proxy.async.global;" ::: "memory");           // by each writer
    __syncthreads();
    if (t == 0) {
      __threadfence();
      atomicExch(up, 1);
    }
    return;
  }
  if (t == 0) {
    INIT(&full, 1);
    while (atomicAdd(up, 0) == 0) __nanosleep(20);
    __threadfence();
    EXPECT(&full, tile_bytes);
    BULK_LOAD(tile, passed, tile_bytes, &full);  // loaded
  }
  __syncthreads();
  AWAIT(&full, 0);
  for (int i = t; i < tile_floats; i += threads) y[i] = 2 * tile[i];
}

// cp.async goes through the generic proxy: a bulk store of what it has copied takes a fence.
__global__ void copied(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  const int t = threadIdx.x;
  COPY(tile + 4 * t, x + blockIdx.x * tile_floats + 4 * t);  // copied
  COMMIT();
  WAIT(0);
  FENCE();  // of the copies
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y + blockIdx.x * tile_floats, tile, tile_bytes);  // stored
    BULK_COMMIT();
    BULK_WAIT(0);
    BULK_ADD(y + blockIdx.x * tile_floats, tile, tile_bytes);
    BULK_COMMIT();
    BULK_WAIT_READ(0);
  }
}

// What needs no fence: bulk loads that are read plainly, a store from what a load has brought, a load into what a store
// has read, and a bulk load of what was read plainly.
__global__ void without_fences(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const int t = threadIdx.x;
  const int begin = blockIdx.x * tile_floats;
  const float before = x[begin + t];
  if (t == 0) {
    INIT(&full, 1);
    EXPECT(&full, tile_bytes);
    BULK_LOAD(tile, x + begin, tile_bytes, &full);
    AWAIT(&full, 0);
    BULK_STORE(y + begin, tile, tile_bytes);
    BULK_COMMIT();
    BULK_WAIT_READ(0);
    EXPECT(&full, tile_bytes);
    BULK_LOAD(tile, x + begin, tile_bytes, &full);
    AWAIT(&full, 1);
    BULK_WAIT(0);  // and is written
  }
  __syncthreads();
  for (int i = t; i < tile_floats; i += threads) y[begin + i] += i == t ? before : tile[i];  // added
}
