// Copies whose threads wait for groups of them. y = 2 x, of a tile a block.
#pragma once

#include "instructions.cuh"

// Two halves of a tile by cp.async: each thread doubles its own part of the first, and all read both.
__global__ void groups(const float* x, float* y) {
  __shared__ __align__(16) float tile[2][tile_floats / 2];
  const int t = threadIdx.x;
  const float* from = x + blockIdx.x * tile_floats;
  float* to = y + blockIdx.x * tile_floats;
  constexpr int half = tile_floats / 2;
  if (t < threads / 2) {
    COPY(tile[0] + 4 * t, from + 4 * t);  // copied
    COMMIT();
    COPY(tile[1] + 4 * t, from + half + 4 * t);  // copied last
    COMMIT();
    WAIT(1);              // for the first
    tile[0][4 * t] *= 2;  // doubled
  }
  __syncthreads();                                                                    // the first is there
  for (int i = t; i < half; i += threads) to[i] = (i % 4 == 0 ? 1 : 2) * tile[0][i];  // read
  WAIT(0);                                                                            // for the last
  __syncthreads();
  for (int i = t; i < half; i += threads) to[half + i] = 2 * tile[1][i];  // read last
}

// A ring of two slots, from which bulk stores read.
__global__ void ring_of_stores(const float* x, float* y) {
  constexpr int rounds = 4, part = tile_floats / rounds;
  __shared__ __align__(128) float ring[2][part];
  const int t = threadIdx.x;
  for (int round = 0; round < rounds; ++round) {
    if (t == 0) BULK_WAIT_READ(1);  // the slot is free
    __syncthreads();
    const int place = blockIdx.x * tile_floats + round * part;
    for (int i = t; i < part; i += threads) ring[round % 2][i] = 2 * x[place + i];  // refilled
    FENCE();                                                                        // of the slot
    __syncthreads();
    if (t == 0) {
      BULK_STORE(y + place, ring[round % 2], part * 4);  // stored
      BULK_COMMIT();
    }
  }
  if (t != 0) return;
  BULK_WAIT(0);                      // all are written
  y[blockIdx.x * tile_floats] += 0;  // its target
}

// __pipeline_…: the last thread reads two floats and gets zeros for the others.
__global__ void pipeline_functions(const float* x, float* y) {
  __shared__ __align__(16) float tile[tile_floats];
  const int t = threadIdx.x;
  const float* from = x + blockIdx.x * tile_floats;
  __pipeline_memcpy_async(tile + 4 * t, from + 4 * t, 16, t == threads - 1 ? 8 : 0);  // copied
  __pipeline_commit();
  __pipeline_wait_prior(0);  // for its own
  __syncthreads();
  for (int i = t; i < tile_floats; i += threads)
    y[blockIdx.x * tile_floats + i] = 2 * (i < tile_floats - 2 ? tile[i] : tile[i] + from[i]);  // read
}

__global__ void group_copies(const float* x, float* y) {
  __shared__ __align__(16) float tile[2][tile_floats / 2];
  const auto block = cg::this_thread_block();
  const int t = threadIdx.x;
  constexpr int half = tile_floats / 2;
  const float* from = x + blockIdx.x * tile_floats;
  cg::memcpy_async(block, tile[0], from, sizeof tile[0]);         // copied
  cg::memcpy_async(block, tile[1], from + half, sizeof tile[1]);  // copied last
  cg::wait_prior<1>(block);
  for (int i = t; i < half; i += threads) y[blockIdx.x * tile_floats + i] = 2 * tile[0][i];
  cg::wait(block);                                                                                  // for the last
  for (int i = t; i < half; i += threads) y[blockIdx.x * tile_floats + half + i] = 2 * tile[1][i];  // read last
}
