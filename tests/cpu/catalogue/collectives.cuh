// What the lanes of a warp do with matrices together: pairs that differ in one line.
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

}  // namespace collectives
