// features: kernels that use what a CUDA kernel may use beside arithmetic; the number says which.
#pragma once

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

#include <trifold/cuda.cuh>

#include <cassert>
#include <cstdio>

namespace cg = cooperative_groups;

constexpr int block = 64;

// ---------------------------------------------------------------------------------------------------- shared arrays

extern __shared__ float of_the_file[];

__global__ void extern_kernel(const float* x, float* y) {
  extern __shared__ __align__(16) unsigned char bytes[];
  float* const tile = reinterpret_cast<float*>(bytes);
  const int t = threadIdx.x;
  tile[t] = x[t];
  __syncthreads();
  y[t] = of_the_file[block - 1 - t];
}

template <class T>
struct Scratch {
  __device__ static T* memory() {
    extern __shared__ double scratch[];
    return reinterpret_cast<T*>(scratch);
  }
};

__global__ void scratch_kernel(const float* x, float* y) {
  const int t = threadIdx.x, i = blockIdx.x * block + t;
  static __shared__ float2 pairs[block / 2];
  Scratch<float>::memory()[t] = x[i];
  __syncthreads();
  if (t < block / 2) pairs[t] = reinterpret_cast<float2*>(Scratch<char>::memory())[t];
  __syncthreads();
  y[i] = pairs[t / 2].x + pairs[t / 2].y;
}

// ---------------------------------------------------------------------------------------------------- globals

__constant__ float weights[4] = {1, 2, 3, 4};
__device__ float total;
static __device__ int counts[block];
namespace tables {
__device__ float squares[4] = {0, 1, 4, 9};
}

__global__ void constants_kernel(const float* x, float* y) {
  const int t = threadIdx.x;
  y[t] = x[t] * weights[t % 4] + tables::squares[t % 4];
}

template <bool atomic>
__global__ void global_kernel(const float* x) {
  if (atomic) {
    atomicAdd(&total, x[threadIdx.x]);
  } else {
    total += x[threadIdx.x];
  }
}

__global__ void beyond_kernel(float* y, int beyond) {
  counts[threadIdx.x] = threadIdx.x % 4;
  y[threadIdx.x] = tables::squares[counts[threadIdx.x] + (threadIdx.x == 5 ? beyond : 0)];
}

// ---------------------------------------------------------------------------------------------------- endings

__global__ void assert_kernel(float* y, int worst) {
  const int t = threadIdx.x + blockIdx.x * blockDim.x;
  assert(t != worst);
  y[t] = 1;
}

__global__ void late_assert_kernel(float* y, int worst) {
  __syncthreads();
  assert(static_cast<int>(threadIdx.x) != worst);
  __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void trap_kernel(float* y) {
  if (threadIdx.x == 3) __trap();
  y[threadIdx.x] = 1;
}

// ---------------------------------------------------------------------------------------------------- warps and groups

__global__ void reductions_kernel(float* y) {
  const int t = threadIdx.x, lane = t % 32;
  const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u, three = 0x80000005u;
  bool right = __reduce_add_sync(0xffffffffu, lane) == 496 && __reduce_max_sync(half, lane) == (lane < 16 ? 15 : 31) &&
               __reduce_min_sync(0xffffffffu, -lane) == -31 && __reduce_or_sync(half, 1u << lane) == half &&
               __reduce_and_sync(half, ~(1u << lane)) == ~half && __reduce_xor_sync(0xffffffffu, 1u << lane) == ~0u;
  if (three >> lane & 1) right = right && __reduce_add_sync(three, lane + 1u) == 1 + 3 + 32;
  y[t] = right;
}

__global__ void groups_kernel(const float* x, float* y) {
  const cg::thread_block all = cg::this_thread_block();
  const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(all);
  const auto quarter = cg::tiled_partition<2>(tile);
  const int t = all.thread_rank();
  float sum = x[t];
  for (int delta = tile.size() / 2; delta > 0; delta /= 2) sum += tile.shfl_xor(sum, delta);
  const int first = t / 8 * 8;
  bool right = sum == cg::reduce(tile, x[t], cg::plus<float>()) && tile.meta_group_rank() == t / 8u &&
               tile.meta_group_size() == block / 8 && tile.thread_rank() == t % 8u && quarter.meta_group_size() == 4 &&
               quarter.meta_group_rank() == t % 8 / 2u && tile.ballot(t % 2) == 0xaa && tile.any(t == first) &&
               !tile.all(t == first) && tile.shfl(t, 3) == first + 3 &&
               tile.shfl_down(t, 7) == (t == first ? t + 7 : t) &&
               tile.match_any(t / 4) == (t % 8 < 4 ? 0x0fu : 0xf0u) && all.size() == block &&
               cg::reduce(tile, t, cg::greater<int>()) == first + 7 && cg::reduce(tile, t, cg::less<int>()) == first &&
               cg::inclusive_scan(tile, 1) == t % 8 + 1 && cg::exclusive_scan(tile, 2) == t % 8 * 2;
  if (t % 3 == 1) {
    const cg::coalesced_group some = cg::coalesced_threads();
    const int members = (31 - (t < 32 ? 1 : 2)) / 3 + 1, lowest = t < 32 ? 1 : 34;
    right = right && static_cast<int>(some.size()) == members && some.shfl(t, 0) == lowest &&
            some.shfl(t, members - 1) == lowest + 3 * (members - 1) && some.thread_rank() == (t - lowest) / 3u &&
            cg::reduce(some, 1, cg::plus<int>()) == members && some.ballot(1) == (1u << members) - 1;
    some.sync();
    int calls = 0;
    cg::invoke_one(some, [&](int more) { calls += more; }, 2);
    right = right && cg::reduce(some, calls, cg::plus<int>()) == 2 &&
            cg::invoke_one_broadcast(some, [&] { return 7 * t; }) == 7 * lowest;
  }
  cg::sync(all);
  all.sync();
  y[t] = right ? sum : -1.0f;
}

__global__ void grid_barrier_kernel(float* y) {
  const cg::grid_group grid = cg::this_grid();
  y[threadIdx.x] = static_cast<float>(grid.thread_rank());
  grid.sync();
}

// ---------------------------------------------------------------------------------------------------- atomics

template <class T>
__device__ bool adds(T* cell) {
  atomicAdd(cell, T(2));
  atomicAdd_block(cell, T(3));
  atomicAdd_system(cell, T(4));
  return true;
}

// Of all types, on memory of the block's; what they leave is compared by thread 0.
__global__ void atomics_kernel(float* y) {
  __shared__ int i[8];
  __shared__ unsigned u[6];
  __shared__ unsigned long long wide[6];
  __shared__ long long l[2];
  __shared__ float f[2];
  __shared__ double d;
  __shared__ __half h;
  __shared__ __half2 h2;
  __shared__ __nv_bfloat16 b;
  __shared__ __nv_bfloat162 b2;
  __shared__ unsigned short s;
  __shared__ float4 v;
  const int t = threadIdx.x;
  if (t == 0) {
    for (int& one : i) one = 0;
    for (unsigned& one : u) one = 0;
    for (unsigned long long& one : wide) one = 0;
    l[0] = l[1] = 0;
    f[0] = f[1] = 0;
    d = 0;
    h = 0.0f;
    h2 = __float2half2_rn(0.0f);
    b = 0.0f;
    b2 = __float2bfloat162_rn(0.0f);
    s = 0;
    v = make_float4(0, 0, 0, 0);
    i[4] = u[4] = ~0u;
    wide[4] = ~0ull;
  }
  __syncthreads();
  atomicAdd(&i[0], t);
  atomicSub(&i[1], t);
  atomicMin(&i[2], -t);
  atomicMax(&i[3], t);
  atomicAnd(&i[4], ~(1 << t % 32));
  atomicOr(&i[5], 1 << t % 31);
  atomicXor(&i[6], t);
  atomicCAS(&i[7], t, t + 1);
  atomicAdd(&u[0], 1u);
  atomicInc(&u[1], 9);
  atomicDec(&u[2], 9);
  atomicMax(&u[3], 3000000000u + t);
  atomicAnd(&u[4], ~(1u << t % 32));
  atomicExch(&u[5], 7u);
  atomicAdd(&wide[0], 1ull << 40);
  atomicMax(&wide[1], 1ull << t);
  atomicOr(&wide[2], 1ull << t);
  atomicXor(&wide[3], 1ull << t);
  atomicAnd(&wide[4], ~(1ull << t));
  atomicCAS(&wide[5], t, t + 1);
  atomicMin(&l[0], -t * 10000000000ll);
  atomicMax(&l[1], t * 10000000000ll);
  atomicAdd(&f[0], 0.5f);
  atomicExch(&f[1], 2.5f);
  atomicAdd(&d, 0.25);
  atomicAdd(&h, __float2half(1.0f));
  atomicAdd(&h2, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(&b, __float2bfloat16(1.0f));
  atomicAdd(&b2, __floats2bfloat162_rn(1.0f, 2.0f));
  atomicCAS(&s, static_cast<unsigned short>(t), static_cast<unsigned short>(t + 1));
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if (t == 0) atomicAdd(&v.x, 1.0f);
#endif
  __syncthreads();
  const bool integers = i[0] == 2016 && i[1] == -2016 && i[2] == -63 && i[3] == 63 && i[4] == 0 && i[5] == 0x7fffffff &&
                        i[6] == 0 && i[7] >= 1;
  const bool words = u[0] == 64 && u[1] == 4 && u[2] == 6 && u[3] == 3000000063u && u[4] == 0 && u[5] == 7;
  const bool longs = wide[0] == 64ull << 40 && wide[1] == 1ull << 63 && wide[2] == ~0ull && wide[3] == ~0ull &&
                     wide[4] == 0 && wide[5] >= 1 && l[0] == -630000000000ll && l[1] == 630000000000ll;
  const bool floats = f[0] == 32 && f[1] == 2.5f && d == 16 && __half2float(h) == 64 && __low2float(h2) == 64 &&
                      __high2float(h2) == 128 && __bfloat162float(b) == 64 && __high2float(b2) == 128 && v.x == 1;
  y[t] = integers + 10 * words + 100 * longs + 1000 * floats + 10000 * (s >= 1);
}

__global__ void not_atomic_kernel(float* y) {
  if (threadIdx.x == 0) atomicAdd(&y[blockIdx.x / 8], 1.0f);
  if (threadIdx.x == 1 && blockIdx.x == 1) y[0] = 2;
}

// ---------------------------------------------------------------------------------------------------- and the rest

__global__ void __launch_bounds__(block) rest_kernel(const float* __restrict__ x, float* __restrict__ y) {
  const int t = threadIdx.x;
  const long long start = clock64();
  float sum = __ldg(x + t);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum += i;
  __stcs(y + t, __ldcg(x + t) + sum);
  __nanosleep(10);
  __threadfence_system();
  if (t == 0 && clock64() < start) __trap();
  if (t == 0 && x[0] < 0) printf("negative\n");
  __builtin_assume(t >= 0);
  const auto* aligned = static_cast<const float4*>(__builtin_assume_aligned(x, 16));
  if (aligned[0].x != x[0] || CUDART_PI_F < 3) y[t] = CUDART_NAN_F;
}

// Inline PTX, with a barrier or without.
template <bool meets>
__global__ void ptx_kernel(const float* x, float* y) {
  const int t = threadIdx.x;
  float value;
  asm("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(x + t));
  asm volatile(
      "{ .reg .u64 slot;\n\t"
      "cvta.to.shared.u64 slot, %0;\n\t"
      "st.shared.f32 [slot], %1; }" ::"l"(of_the_file + t),
      "f"(value)
      : "memory");
  if (meets) asm volatile("bar.sync 0;" ::: "memory");
  y[t] = of_the_file[t ^ 1];
}

// Pointers to tensors, as accessors have them.
struct Pair {
  int columns;
  const float* from;
  float* to;
};

__global__ void struct_kernel(Pair pair, int first) {
  const int i = first + threadIdx.x;
  pair.to[i] = pair.from[i % pair.columns] + 1;
}

__global__ void written_ldg_kernel(float* y) {
  y[threadIdx.x] = 1;
  y[threadIdx.x + block] = __ldg(y + (threadIdx.x + 1) % block);
}
