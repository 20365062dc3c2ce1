// Warp operations: shuffles, votes, match, rendezvous of part of a warp.
#pragma once

#include <trifold/cuda.cuh>

#include <bit>

namespace warps {

constexpr int warp = 32;
constexpr unsigned full = 0xffffffffu;
constexpr unsigned low_half = 0x0000ffffu;

__device__ inline int thread_of_grid() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}
__device__ inline int lane_of_warp() {
  return static_cast<int>(threadIdx.x) % warp;
}

__global__ void butterfly_sum(const float* x, float* sums) {
  const int i = thread_of_grid();
  float v = x[i];
  for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(full, v, distance);
  if (lane_of_warp() == 0) sums[i / warp] = v;
}

// All 32 lanes call the shuffle; the mask names 16 of them.
__global__ void shuffle_with_half_a_mask(const float* x, float* sums) {
  const int i = thread_of_grid();
  float v = x[i];
  for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(low_half, v, distance);  // first
  if (lane_of_warp() == 0) sums[i / warp] = v;
}

// Each half of the warp shuffles on its own, with a mask that names it.
__global__ void broadcast_in_each_half(const int* x, int* y) {
  const int lane = lane_of_warp();
  if (lane < 16) {
    y[lane] = __shfl_sync(low_half, x[lane], 5);
  } else {
    y[lane] = __shfl_sync(full ^ low_half, x[lane], 21);
  }
}

__global__ void tail_sum_with_zeros(const int* x, int* total, int n) {
  const int i = thread_of_grid();
  int v = i < n ? x[i] : 0;
  for (int distance = 16; distance > 0; distance /= 2) v += __shfl_down_sync(full, v, distance);
  if (i == 0) total[0] = v;
}

// The lanes that go on are voted for while all are there; the sum walks over them.
__global__ void tail_sum_with_ballot_mask(const int* x, int* total, int n) {
  const int i = thread_of_grid();
  const unsigned mask = __ballot_sync(full, i < n);
  if (i >= n) return;
  const int v = x[i];
  int s = 0;
  for (int lane = 0; lane < std::popcount(mask); ++lane) s += __shfl_sync(mask, v, lane);
  if (i == 0) total[0] = s;
}

// Each half reverses itself through shared memory; the halves need not meet.
__global__ void exchange_in_each_half(const float* x, float* y) {
  __shared__ float staged[warp];
  const int lane = threadIdx.x;
  if (lane < 16) {
    staged[lane] = x[lane];
    __syncwarp(low_half);
    y[lane] = staged[15 - lane];
  } else {
    staged[lane] = x[lane];
    __syncwarp(full ^ low_half);
    y[lane] = staged[47 - lane];
  }
}

// The upper lanes of a half read what the lower ones wrote; the lower ones have no partner to wait for.
__global__ void exchange_without_syncwarp(const float* x, float* y) {
  __shared__ float staged[warp];
  const int lane = threadIdx.x, half = lane / 16 * 16, partner = half + 15 - lane % 16;
  staged[lane] = x[lane];                         // first
  if (lane % 16 >= 8) y[lane] = staged[partner];  // second
  __syncwarp();
  y[lane] = staged[partner];
}

// All lanes come to the vote, but a vote orders no accesses of memory.
__global__ void exchange_with_a_vote_between(const float* x, float* y) {
  __shared__ float staged[warp];
  const int lane = threadIdx.x;
  staged[lane] = x[lane];  // first
  __any_sync(full, 1);
  y[lane] = staged[lane / 16 * 16 + 15 - lane % 16];  // second
}

// The rendezvous is of each half, but the partner is in the other.
__global__ void exchange_beyond_its_half(const float* x, float* y) {
  __shared__ float staged[warp];
  const int lane = threadIdx.x;
  staged[lane] = x[lane];  // first
  if (lane < 16) {
    __syncwarp(low_half);
    y[lane] = staged[lane];
  } else {
    __syncwarp(full ^ low_half);
    y[lane] = staged[31 - lane];  // second
  }
}

__global__ void syncwarp_mask_misses_its_own_lane(const float* x, float* y) {
  __shared__ float staged[warp];
  const int lane = threadIdx.x, half = lane / 16 * 16;
  staged[lane] = x[lane];
  __syncwarp(low_half);  // first
  y[lane] = staged[half + 15 - lane % 16];
}

__device__ inline int votes_below(unsigned votes, int lane) {
  return std::popcount(votes & ((1u << lane) - 1));
}

// One atomic a warp: the lanes that keep their element find their places by counting votes below them.
__global__ void compact_by_ballot(const int* x, int* y, int* count) {
  const int v = x[thread_of_grid()], lane = lane_of_warp();
  const bool keep = v > 4;
  const unsigned votes = __ballot_sync(full, keep);
  int base = 0;
  if (lane == 0) base = atomicAdd(&count[0], std::popcount(votes));
  base = __shfl_sync(full, base, 0);
  if (keep) y[base + votes_below(votes, lane)] = v;
}

__global__ void compact_with_plain_counter(const int* x, int* y, int* count) {
  const int v = x[thread_of_grid()], lane = lane_of_warp();
  const bool keep = v > 4;
  const unsigned votes = __ballot_sync(full, keep);
  int base = 0;
  if (lane == 0) {
    base = count[0];                         // second
    count[0] = base + std::popcount(votes);  // first
  }
  base = __shfl_sync(full, base, 0);
  if (keep) y[base + votes_below(votes, lane)] = v;
}

// The place is the warp's base: the count of votes below the lane is forgotten.
__global__ void compact_to_one_place_a_warp(const int* x, int* y, int* count) {
  const int v = x[thread_of_grid()];
  const bool keep = v > 4;
  const unsigned votes = __ballot_sync(full, keep);
  int base = 0;
  if (lane_of_warp() == 0) base = atomicAdd(&count[0], std::popcount(votes));
  base = __shfl_sync(full, base, 0);
  if (keep) y[base] = v;  // first
}

// Lanes with the same key elect the lowest of them, which counts for all.
__global__ void histogram_by_match(const int* x, int* hist) {
  const int v = x[thread_of_grid()];
  const unsigned same = __match_any_sync(full, v);
  if (votes_below(same, lane_of_warp()) == 0) atomicAdd(&hist[v], std::popcount(same));
}

// One lane a key writes, but each warp has one.
__global__ void histogram_by_match_without_atomic(const int* x, int* hist) {
  const int v = x[thread_of_grid()];
  const unsigned same = __match_any_sync(full, v);
  if (votes_below(same, lane_of_warp()) == 0) hist[v] += std::popcount(same);  // first
}

// Blocks of 40 threads: the second warp has 8 lanes, and its masks name these only.
__global__ void sum_in_a_partial_warp(const int* x, int* y) {
  const int i = thread_of_grid(), first = static_cast<int>(threadIdx.x) / warp * warp;
  const int rest = static_cast<int>(blockDim.x) - first, size = rest < warp ? rest : warp;
  const unsigned mask = size == warp ? full : (1u << size) - 1;
  const int v = x[i];
  int s = 0;
  for (int lane = 0; lane < size; ++lane) s += __shfl_sync(mask, v, lane);
  y[i] = s;
}

__global__ void sum_in_a_partial_warp_through_shared_memory(const int* x, int* y) {
  __shared__ int staged[40];
  const int t = threadIdx.x, first = t / warp * warp;
  const int rest = static_cast<int>(blockDim.x) - first, size = rest < warp ? rest : warp;
  staged[t] = x[thread_of_grid()];
  __syncwarp(size == warp ? full : (1u << size) - 1);
  int s = 0;
  for (int k = first; k < first + size; ++k) s += staged[k];
  y[thread_of_grid()] = s;
}

// A vote is uniform in its warp; each warp may go its own way.
__global__ void warps_take_different_ways(const int* x, int* y) {
  const int i = thread_of_grid();
  int v = x[i];
  if (__all_sync(full, v >= warp)) v = __shfl_sync(full, v, lane_of_warp()) * 2;
  y[i] = v;
}

// Odd lanes go on to the shuffle; even ones wait for their votes.
__global__ void vote_under_a_lane_condition(const int* x, int* y) {
  const int i = thread_of_grid();
  int v = x[i];
  if (v % 2 == 0 && __all_sync(full, v >= warp))  // first
    v *= 2;
  y[i] = __shfl_sync(full, v, lane_of_warp());  // second
}

}  // namespace warps
