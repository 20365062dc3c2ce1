// Barriers with a number, for some warps of a block.
#pragma once

#include "instructions.cuh"

// The second warp makes what the first one takes, step by step: barrier 1 says that it is there, 2 that it was taken.
// y = x with neighbours exchanged.
__global__ void make_and_take(const float* x, float* y) {
  constexpr int steps = 4, count = 64;  // of threads
  __shared__ float value[32];
  const int t = threadIdx.x % 32;
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x < 32) {
      BAR_SYNC(1, count);               // wait
      y[32 * step + t] = value[t ^ 1];  // take
      BAR_ARRIVE(2, 64);                // taken
    } else {
      value[t] = x[32 * step + t];  // make
      BAR_ARRIVE(1, count);         // announce
      BAR_SYNC(2, 64);              // refill
    }
  }
}

// Each warp of a pair waits for the other one alone. y = x with warps exchanged.
__global__ void pairs_of_warps(const float* x, float* y) {
  __shared__ float values[128];
  const unsigned t = threadIdx.x;
  const unsigned pair = t / 64;  // of warps
  values[t] = x[t];              // written
  asm volatile("barrier.sync %0, 64;" ::"r"(pair + 1) : "memory");
  y[t] = values[t ^ 32];  // read
}
