// Addresses of shared memory in 32 bits, for test_mbarriers.py: wrong[k] counts the threads for which check k failed.
#include <cuda_fp16.h>
#include <stdint.h>

#define CHECK(number, condition) \
  if (!(condition)) atomicAdd(&wrong[number], 1u)

__global__ void __cluster_dims__(2) addresses(unsigned* wrong) {
  extern __shared__ __align__(1024) unsigned char dynamic[];
  __shared__ alignas(128) float fixed[64];
  __shared__ alignas(16) __half matrix[8][8];
  __shared__ unsigned counter;
  const uint32_t t = threadIdx.x;
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const auto fixed_at = static_cast<uint32_t>(__cvta_generic_to_shared(fixed));
  const uint32_t dynamic_at = __cvta_generic_to_shared(dynamic);
  CHECK(0, fixed_at >= 1024 && fixed_at < 1 << 24 && fixed_at % 128 == 0 && dynamic_at % 1024 == 0);
  CHECK(1, __cvta_shared_to_generic(fixed_at + 4 * t) == fixed + t &&
               __cvta_generic_to_shared(fixed + t) - fixed_at == 4 * t);
  fixed[t] = t;
  if (t == 0) counter = 0;
  for (int i = 0; i < 2; ++i) matrix[t / 4][t % 4 * 2 + i] = __float2half(2 * t + i);
  __syncthreads();

  // Loads, stores and atomics, with the address in 32 bits, in 64 bits, and as a pointer.
  float a, b, c;
  uint64_t wide;
  asm("{ .reg .u64 u; cvta.to.shared.u64 u, %1; cvt.u32.u64 %0, u; }" : "=r"(rank) : "l"(fixed));
  CHECK(2, rank == fixed_at);
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(wide) : "l"(fixed + t));
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(a) : "r"(fixed_at + 4 * t));
  asm volatile("ld.shared::cta.f32 %0, [%1];" : "=f"(b) : "l"(wide));
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(c) : "l"(fixed + t));
  CHECK(3, a == t && b == t && c == t);
  void* back;
  asm("cvta.shared.u64 %0, %1;" : "=l"(back) : "l"(wide));
  CHECK(4, back == fixed + t);
  asm volatile("st.shared.v2.b32 [%0+8], {%1, %2};" ::"r"(dynamic_at + 16 * t), "r"(t), "r"(~t) : "memory");
  CHECK(5, reinterpret_cast<uint32_t*>(dynamic)[4 * t + 3] == ~t);
  const auto counter_at = static_cast<uint32_t>(__cvta_generic_to_shared(&counter));
  uint32_t old;
  asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(old) : "r"(counter_at) : "memory");
  asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(counter_at) : "memory");
  CHECK(6, old < 64);
  __syncthreads();
  CHECK(7, counter == 2 * blockDim.x);

  uint32_t two;
  const auto row = static_cast<uint32_t>(__cvta_generic_to_shared(matrix[t % 8]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(two) : "r"(row));
  CHECK(8, two == reinterpret_cast<const uint32_t*>(matrix)[t]);
  __syncwarp();
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared::cta.b16 [%0], {%1};" ::"r"(row), "r"(two) : "memory");

  // Where addresses lead to.
  unsigned spaces = 0;
  asm("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(spaces) : "l"(fixed + t));
  CHECK(9, spaces == 1 && __isShared(fixed) && !__isGlobal(fixed) && !__isLocal(fixed));
  asm("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(spaces) : "l"(wrong));
  CHECK(10, spaces == 1 && !__isShared(wrong) && __isLocal(&spaces));

  // Of the other block.
  const uint32_t other = rank ^ 1;
  uint32_t there, whose;
  uint64_t pointer, wide_there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(fixed_at), "r"(other));
  asm("mapa.u64 %0, %1, %2;" : "=l"(pointer) : "l"(fixed + t), "r"(other));
  asm("mapa.shared::cluster.u64 %0, %1, %2;" : "=l"(wide_there) : "l"(wide), "r"(other));
  asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(whose) : "r"(there));
  CHECK(11, whose == other && wide_there == there + 4 * t && __cvta_generic_to_shared((void*)pointer) == wide_there);
  asm("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(spaces) : "l"(pointer));
  CHECK(12, spaces == 1 && !__isShared((void*)pointer) && __isClusterShared((void*)pointer));
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 4 * (63 - t)), "f"(100.f + t) : "memory");
  asm volatile("atom.cluster.shared::cluster.add.u32 %0, [%1], 1;"
               : "=r"(old)
               : "r"(counter_at + there - fixed_at)
               : "memory");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  CHECK(13, fixed[63 - t] == 100 + t && counter == 3 * blockDim.x);
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(a) : "l"(wide_there));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(b) : "r"(fixed_at + 4 * t));
  CHECK(14, a == t && b == t);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// One thread of each block reads what its case says, at an address in 32 bits.
__global__ void __cluster_dims__(2) reads(float* y, int which) {
  __shared__ float tile[32];
  tile[threadIdx.x] = 1;
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  uint32_t peer;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(address), "r"(blockIdx.x ^ 1));
  float value = 0;
  if (threadIdx.x == 0 && which == 1) asm volatile("ld.shared::cta.f32 %0, [%1];" : "=f"(value) : "r"(peer));
  if (threadIdx.x == 0 && which == 2) asm volatile("ld.shared.f32 %0, [%1+128];" : "=f"(value) : "r"(address));
  if (threadIdx.x == 0 && which == 3) asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(64));
  if (threadIdx.x == 0 && which == 4) address = static_cast<uint32_t>(__cvta_generic_to_shared(y));
  if (threadIdx.x == 0 && which == 5)
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(7 << 24 | 2048));
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  y[blockIdx.x * 32 + threadIdx.x] = value;
}
