// What the lanes of a warp do with matrices together, and barriers with a number: pairs that differ in one line.
#pragma once

#include <trifold/cuda.cuh>

namespace collectives {

constexpr int lanes = 32;

// The address of shared memory, as ldmatrix wants it.
__device__ __forceinline__ uint64_t shared(const void* pointer) {
  uint64_t address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
  return address;
}

// A lane's word of each of four matrices of 8×8 halves, whose rows the lanes have in order.
__device__ __forceinline__ uint32_t sum_of_words(const void* row) {
  uint32_t word[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // second
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(shared(row))
               : "memory");
  return word[0] + word[1] + word[2] + word[3];
}

template <int pitch>
__device__ __forceinline__ void fill(uint16_t (&tile)[lanes][pitch], uint16_t value) {
  for (int i = 0; i < 8; ++i) tile[threadIdx.x][i] = value;  // first
}

__global__ void rows_of_other_lanes(const float* x, float* y, int) {
  __shared__ __align__(16) uint16_t tile[lanes][8];
  const int t = threadIdx.x;
  fill(tile, 0);
  __syncthreads();
  fill(tile, static_cast<uint16_t>(x[t]));
  __syncwarp();
  y[t] = sum_of_words(tile[t ^ 1]) & 0xffff;
}

__global__ void rows_of_other_lanes_without_barrier(const float* x, float* y, int) {
  __shared__ __align__(16) uint16_t tile[lanes][8];
  const int t = threadIdx.x;
  fill(tile, 0);
  __syncthreads();
  fill(tile, static_cast<uint16_t>(x[t]));
  y[t] = sum_of_words(tile[t ^ 1]) & 0xffff;
}

template <int pitch>
__device__ __forceinline__ void rows_at_a_pitch(const float* x, float* y) {
  __shared__ __align__(16) uint16_t tile[lanes][pitch];
  const int t = threadIdx.x;
  fill(tile, static_cast<uint16_t>(x[t]));
  __syncthreads();
  y[t] = sum_of_words(tile[t]) & 0xffff;
}

// A row begins at each 48 bytes, which avoids conflicts of banks as 24 bytes do.
__global__ void rows_at_a_pitch_of_24(const float* x, float* y, int) {
  rows_at_a_pitch<24>(x, y);
}
__global__ void rows_at_a_pitch_of_12(const float* x, float* y, int) {
  rows_at_a_pitch<12>(x, y);
}

// The product of a column of ones and a row, of which each lane gets four elements.
__device__ __forceinline__ float product(float c) {
  float d[4] = {c, c, c, c};
  const uint32_t ones = 0x3c003c00;
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4}, {%4}, {%0, %1, %2, %3};"  // first
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(ones));
  return d[0];
}

__global__ void products_of_a_warp(const float* x, float* y, int n) {
  const int t = threadIdx.x;
  const float made = product(t < n ? x[t] : 0);
  if (t < n) y[t] = made;
}

__global__ void products_of_lanes_with_work(const float* x, float* y, int n) {
  const int t = threadIdx.x;
  if (t < n) y[t] = product(x[t]);
}

// The second warp makes what the first one takes, step by step: barrier 1 says that it is there, 2 that it was taken.
template <int count, int count_of_maker>
__device__ __forceinline__ void make_and_take(const float* x, float* y, int n, bool announce_first) {
  __shared__ float value[lanes];
  const int t = threadIdx.x % lanes;
  for (int step = 0; step < n / lanes; ++step) {
    if (threadIdx.x < lanes) {
      asm volatile("bar.sync 1, %0;" ::"n"(count) : "memory");  // wait
      y[lanes * step + t] = value[t ^ 1];                       // take
      asm volatile("bar.arrive 2, 64;" ::: "memory");
    } else {
      if (announce_first) asm volatile("bar.arrive 1, %0;" ::"n"(count_of_maker) : "memory");
      value[t] = x[lanes * step + t];                                                           // make
      if (!announce_first) asm volatile("bar.arrive 1, %0;" ::"n"(count_of_maker) : "memory");  // announce
      asm volatile("bar.sync 2, 64;" ::: "memory");                                             // refill
    }
  }
}

__global__ void maker_and_taker(const float* x, float* y, int n) {
  make_and_take<2 * lanes, 2 * lanes>(x, y, n, false);
}
__global__ void maker_and_taker_counted_wrong(const float* x, float* y, int n) {
  make_and_take<3 * lanes, 3 * lanes>(x, y, n, false);
}
__global__ void maker_and_taker_of_two_counts(const float* x, float* y, int n) {
  make_and_take<2 * lanes, lanes>(x, y, n, false);
}
__global__ void maker_that_announces_too_early(const float* x, float* y, int n) {
  make_and_take<2 * lanes, 2 * lanes>(x, y, n, true);
}

// Each warp of a pair waits for the other one alone.
__global__ void pairs_of_warps(const float* x, float* y, int) {
  __shared__ float values[4 * lanes];
  const unsigned t = threadIdx.x, pair = t / (2 * lanes);
  values[t] = x[t];
  asm volatile("barrier.sync %0, 64;" ::"r"(pair + 1) : "memory");
  y[t] = values[t ^ lanes];
}
__global__ void pairs_of_warps_at_the_wrong_barrier(const float* x, float* y, int) {
  __shared__ float values[4 * lanes];
  const unsigned t = threadIdx.x, pair = t / lanes % 2;
  values[t] = x[t];
  asm volatile("barrier.sync %0, 64;" ::"r"(pair + 1) : "memory");
  y[t] = values[t ^ lanes];  // second
}

}  // namespace collectives
