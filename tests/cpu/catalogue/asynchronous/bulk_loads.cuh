// Copies that barriers of their own block count. y = 2 x, of a tile a block.
#pragma once

#include "instructions.cuh"

// Bulk loads, one after the other into one tile, which all threads read.
__global__ void load(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const int t = threadIdx.x;
  const float* from = x + blockIdx.x * tile_floats;
  float* to = y + blockIdx.x * tile_floats;
  if (t == 0) INIT(&full, 1);  // initialised
  __syncthreads();
  constexpr int half = tile_floats / 2, bytes = half * 4;
  for (int round = 0; round < 2; ++round) {
    if (t == 0) {
      EXPECT(&full, bytes);                                // expected
      BULK_LOAD(tile, from + round * half, bytes, &full);  // loaded
    }
    AWAIT(&full, round);                                                         // awaited
    for (int i = t; i < half; i += threads) to[round * half + i] = 2 * tile[i];  // read
    FENCE();                                                                     // of the reads
    __syncthreads();
  }
}

// A part of a tile is loaded, the rest of it is padding: zeros.
__global__ void padded_load(const float* x, float* y) {
  constexpr int part = tile_floats - 8;
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const int t = threadIdx.x, begin = blockIdx.x * tile_floats;
  if (t == 0) {
    INIT(&full, 1);
    EXPECT(&full, part * 4);
    BULK_LOAD(tile, x + begin, part * 4, &full);  // loaded
  }
  if (t < 8) tile[part + t] = 0;  // padding
  __syncthreads();
  AWAIT(&full, 0);
  for (int i = t; i < tile_floats; i += threads)
    y[begin + i] = tile[i] + (i < part ? tile[i] : 2 * x[begin + i]);  // read
}

// Two operands with a barrier each. y = x + x.
__global__ void two_operands(const float* x, float* y) {
  __shared__ __align__(128) float a[tile_floats], b[tile_floats];
  __shared__ uint64_t full[2];
  const int t = threadIdx.x, begin = blockIdx.x * tile_floats;
  if (t == 0) {
    INIT(&full[0], 1);
    INIT(&full[1], 1);
    EXPECT(&full[0], tile_bytes);
    BULK_LOAD(a, x + begin, tile_bytes, &full[0]);
    EXPECT(&full[1], tile_bytes);
    BULK_LOAD(b, x + begin, tile_bytes, &full[1]);  // loaded
  }
  __syncthreads();
  AWAIT(&full[0], 0);
  AWAIT(&full[1], 0);                                                         // the other one
  for (int i = t; i < tile_floats; i += threads) y[begin + i] = a[i] + b[i];  // read
}

// A producer, the first warp, and consumers, over a ring of two slots with barriers for full and empty ones; in the end
// the producer waits until the last slots are empty.
__global__ void pipeline(const float* x, float* y) {
  constexpr int rounds = 4, part = tile_floats / rounds;
  __shared__ __align__(128) float ring[2][part];
  __shared__ uint64_t full[2], empty[2];
  const int t = threadIdx.x;
  if (t == 0) {
    for (int slot = 0; slot < 2; ++slot) {
      INIT(&full[slot], 1);
      INIT(&empty[slot], threads - 32);
    }
  }
  __syncthreads();
  const int begin = blockIdx.x * tile_floats;
  if (t == 0) {
    for (int round = 0; round < rounds; ++round) {
      const int slot = round % 2, phase = round / 2;
      AWAIT(&empty[slot], (phase & 1) ^ 1);  // the slot is free
      EXPECT(&full[slot], part * 4);
      BULK_LOAD(ring[slot], x + begin + round * part, part * 4, &full[slot]);  // loaded
    }
    for (int round = rounds; round < rounds + 2; ++round) AWAIT(&empty[round % 2], (round / 2 & 1) ^ 1);  // drained
  } else if (t >= 32) {
    for (int round = 0; round < rounds; ++round) {
      const int slot = round % 2, phase = round / 2;
      AWAIT(&full[slot], phase & 1);
      for (int i = t - 32; i < part; i += threads - 32) y[begin + round * part + i] = 2 * ring[slot][i];  // consumed
      FENCE();               // of the reads
      ARRIVE(&empty[slot]);  // released
    }
  }
}

// cp.async that a barrier waits for.
__global__ void late_arrival(const float* x, float* y) {
  __shared__ __align__(128) float tile[tile_floats];
  __shared__ uint64_t full;
  const int t = threadIdx.x;
  if (t == 0) INIT(&full, threads);
  __syncthreads();
  COPY(tile + 4 * t, x + blockIdx.x * tile_floats + 4 * t);  // copied
  ARRIVE_OF_COPIES(&full);
  AWAIT(&full, 0);
  for (int i = t; i < tile_floats; i += threads) y[blockIdx.x * tile_floats + i] = 2 * tile[i];  // read
  WAIT(0);
}
