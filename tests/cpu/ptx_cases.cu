// Inline PTX that reads and writes memory, waits, and exchanges values between lanes: for test_inline_ptx.py. Case 0
// counts in wrong[i] the threads for which check i fails; each other case is a separate kernel, right or wrong.
#include <stdint.h>

#define CHECK(number, condition) \
  if (!(condition)) atomicAdd(&wrong[number], 1u)

// A load whose text is a macro's.
#define LOAD(value, address, space)                     \
  asm volatile("ld.global.f32 %0, [%1];" /* one line */ \
               : "=f"(value)                            \
               : "l"(address))

// The address of shared memory, as ld.shared and st.shared want it.
__device__ uint64_t shared(const void* pointer) {
  uint64_t address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
  return address;
}

__device__ uint32_t special(int which) {
  uint32_t value = 0;
  switch (which) {
    case 0: asm("mov.u32 %0, %%tid.x;" : "=r"(value)); break;
    case 1: asm("mov.u32 %0, %%ctaid.x;" : "=r"(value)); break;
    case 2: asm("mov.u32 %0, %%ntid.x;" : "=r"(value)); break;
    case 3: asm("mov.u32 %0, %%laneid;" : "=r"(value)); break;
    case 4: asm("mov.u32 %0, %%warpid;" : "=r"(value)); break;
    case 5: asm("mov.u32 %0, %%lanemask_lt;" : "=r"(value)); break;
    case 6: asm("mov.u32 %0, WARP_SZ;" : "=r"(value)); break;
  }
  return value;
}

__device__ void loads(const float* x, uint32_t* wrong) {
  const uint32_t thread = threadIdx.x;
  float value, four[4];
  asm("ld.global.nc.L1::no_allocate.L2::128B.f32 %0, [%1+4];" : "=f"(value) : "l"(x + thread));
  CHECK(0, value == x[thread + 1]);
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(four[0]), "=f"(four[1]), "=f"(four[2]), "=f"(four[3])
               : "l"(x + 4 * (thread % 4))
               : "memory");
  CHECK(1, four[0] == x[4 * (thread % 4)] && four[3] == x[4 * (thread % 4) + 3]);
  LOAD(value, x + thread, 1);
  CHECK(2, value == x[thread]);
  const signed char bytes[] = {-1, 5};
  uint32_t zeros, sign;
  asm("ld.u8 %0, [%1];" : "=r"(zeros) : "l"(bytes));
  asm("ld.s8 %0, [%1];" : "=r"(sign) : "l"(bytes));
  CHECK(3, zeros == 255 && sign == ~0u);
  asm("{ .reg .pred some; setp.ne.u32 some, %2, 0; mov.f32 %0, 0f00000000; @some ld.global.f32 %0, [%1]; }"
      : "=f"(value)
      : "l"(thread == 0 ? x + (1 << 20) : x + thread), "r"(thread));
  CHECK(4, value == (thread == 0 ? 0 : x[thread]));
}

__device__ void shared_memory(uint32_t* wrong) {
  __shared__ uint2 slots[64];
  __shared__ uint32_t least, sum, count;
  const uint32_t thread = threadIdx.x;
  if (thread == 0) {
    least = 100;
    sum = count = 0;
  }
  asm volatile(
      "{ .reg .u64 slot;\n\t"
      "cvta.to.shared.u64 slot, %0;\n\t"
      "st.shared.v2.b32 [slot], {%1, %2};\n\t"
      "bar.sync 0; }" ::"l"(&slots[thread]),
      "r"(thread), "r"(~thread)
      : "memory");
  uint32_t x, y, old;
  asm volatile("{ .reg .u64 slot; cvta.to.shared.u64 slot, %2; ld.volatile.shared.v2.u32 {%0, %1}, [slot]; }"
               : "=r"(x), "=r"(y)
               : "l"(&slots[63 - thread]));
  CHECK(5, x == 63 - thread && y == ~x);
  asm volatile(
      "{ .reg .u64 a, b; cvta.to.shared.u64 a, %1; cvta.to.shared.u64 b, %2;\n\t"
      "red.shared.min.u32 [a], %3; atom.shared::cta.add.u32 %0, [b], 2; }"
      : "=r"(old)
      : "l"(&least), "l"(&sum), "r"(thread + 3)
      : "memory");
  CHECK(6, old % 2 == 0 && old < 128);
  asm volatile("{ .reg .u64 a; cvta.to.shared.u64 a, %1; atom.acq_rel.cta.shared.inc.u32 %0, [a], 15; }"
               : "=r"(old)
               : "l"(&count)
               : "memory");
  CHECK(7, old < 16);
  uint32_t odd;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; bar.red.popc.u32 %0, 0, p; }" : "=r"(odd) : "r"(thread & 1));
  CHECK(8, odd == 32 && least == 3 && sum == 128 && count == 0);
  uint32_t low, some;
  asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 5; bar.red.popc.u32 %0, 3, 64, p; }" : "=r"(low) : "r"(thread));
  asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 63; barrier.red.or.pred p, %2, p; selp.u32 %0, 1, 0, p; }"
               : "=r"(some)
               : "r"(thread), "r"(low + 10));
  CHECK(19, low == 5 && some == 1);
  __barrier_sync(7);
  __barrier_sync_count(thread / 32 + 1, 32);
  asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;" ::: "memory");
}

__device__ void atomics(uint32_t* counters, float* sums, uint32_t* wrong) {
  const uint32_t thread = threadIdx.x;
  uint32_t old;
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counters) : "memory");
  asm volatile("atom.global.max.s32 %0, [%1], %2;" : "=r"(old) : "l"(counters + 1), "r"(-static_cast<int>(thread)));
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(sums), "f"(0.5f));
  asm volatile("atom.add.v2.f32 {_, %0}, [%1], {%2, %2};" : "=f"(sums[2 + thread]) : "l"(sums + 66), "f"(1.0f));
  asm volatile("red.add.noftz.f16x2 [%0], %1;" ::"l"(counters + 2), "r"(0x3c004000u));
  // The smallest power of two that no thread has taken, by compare and swap.
  uint32_t mine;
  asm volatile(
      "{ .reg .u32 seen, next, before; .reg .pred again;\n\t"
      "ld.relaxed.gpu.global.u32 seen, [%1];\n\t"
      "next_try:\n\t"
      "add.u32 next, seen, 1;\n\t"
      "atom.global.cas.b32 before, [%1], seen, next;\n\t"
      "setp.ne.u32 again, before, seen;\n\t"
      "mov.u32 seen, before;\n\t"
      "@again bra next_try;\n\t"
      "mov.u32 %0, seen; }"
      : "=r"(mine)
      : "l"(counters + 3)
      : "memory");
  CHECK(9, mine < 64);
  asm volatile("fence.acq_rel.gpu; membar.cta; prefetch.global.L2 [%0]; nanosleep.u32 20;" ::"l"(counters) : "memory");
}

__device__ void lanes(uint32_t* wrong) {
  const uint32_t lane = threadIdx.x % 32, value = 3 * threadIdx.x;
  uint32_t got, in_range;
  asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, 1, 0, 0xffffffff; selp.u32 %1, 1, 0, p; }"
               : "=r"(got), "=r"(in_range)
               : "r"(value));
  CHECK(10, in_range == (lane != 0) && got == (lane == 0 ? value : value - 3));
  asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, -1;" : "=r"(got) : "r"(value));
  CHECK(11, got == 3 * (threadIdx.x ^ 1));
  asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 5; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
               : "=r"(got)
               : "r"(lane));
  CHECK(12, got == 31);
  asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(got) : "r"(lane / 8));
  CHECK(13, got == 0xffu << 8 * (lane / 8));
  asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(got) : "r"(lane));
  CHECK(14, got == 496);
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(got));
  CHECK(15, __popc(__ballot_sync(~0u, got != 0)) == 1);
  asm volatile("activemask.b32 %0;" : "=r"(got));
  CHECK(16, (got >> lane & 1) != 0);
  const uint32_t expected[] = {threadIdx.x, blockIdx.x, blockDim.x, lane, threadIdx.x / 32, (1u << lane) - 1, 32};
  for (int i = 0; i < 7; ++i) CHECK(17, special(i) == expected[i]);
}

// Thread 0 of the first block passes a value on to thread 0 of the last one.
__device__ void message(float* x, uint32_t* flag, int which) {
  uint32_t seen;
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    x[0] = 7;
    if (which == 1) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
    if (which == 2) asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
    if (which == 3) asm volatile("st.release.cta.global.u32 [%0], 1;" ::"l"(flag) : "memory");
  }
  if (blockIdx.x == gridDim.x - 1) {
    asm volatile(
        "{ .reg .pred p;\n\t"
        "wait: ld.acquire.gpu.global.u32 %0, [%1];\n\t"
        "setp.eq.u32 p, %0, 0;\n\t"
        "@p bra wait; }"
        : "=r"(seen)
        : "l"(flag)
        : "memory");
    x[1] = x[0];
  }
}

__global__ void cases(float* x, uint32_t* counters, float* sums, uint32_t* wrong, int which) {
  __shared__ float tile[64];
  const uint32_t thread = threadIdx.x;
  float value = 1;
  switch (which) {
    case 0:
      loads(x, wrong);
      shared_memory(wrong);
      atomics(counters, sums, wrong);
      lanes(wrong);
      asm volatile("{ .reg .pred p; setp.gt.u32 p, %0, 9; @p exit; }" ::"r"(thread));
      CHECK(18, thread < 10);
      atomicAdd(&counters[4], 1u);
      break;
    case 1:
    case 2:
    case 3: message(x, counters, which); break;
    case 4:  // race: no barrier after the second store
      tile[thread] = 0;
      __syncthreads();
      asm volatile("st.shared.f32 [%0], %1;" ::"l"(shared(tile + thread)), "f"(value) : "memory");
      x[thread] = tile[63 - thread];
      break;
    case 5:  // right
      asm volatile("st.shared.f32 [%0], %1;" ::"l"(shared(tile + thread)), "f"(value) : "memory");
      asm volatile("bar.sync 0;" ::: "memory");
      x[thread] = tile[63 - thread];
      break;
    case 6:  // past the end, in the second line of the text
      asm volatile(
          "ld.global.f32 %0, [%1];\n\t"
          "ld.global.f32 %0, [%1 + 1024];"
          : "=f"(value)
          : "l"(x + thread));
      x[thread] = value;
      break;
    case 7:  // nobody wrote it
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "l"(shared(tile + thread)));
      x[thread] = value;
      break;
    case 8:  // four floats from one that is not the first of four
      asm volatile("ld.global.v4.f32 {%0, _, _, _}, [%1 + 4];" : "=f"(value) : "l"(x));
      x[thread] = value;
      break;
    case 9:  // a part of the warp meets
      if (thread % 32 < 16) asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
      break;
    case 10:  // a trap
      asm volatile("trap;");
      break;
  }
}
