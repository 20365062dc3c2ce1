// Barriers in shared memory, and what passes through it. Blocks have 64 threads.
#pragma once

#include "instructions.cuh"

// A ring of two slots between two warps, which cuda::ptx keeps: y has each row of 32 numbers backwards.
__global__ void ring(const float* x, float* y, int rows) {
  __shared__ alignas(8) uint64_t full[2], empty[2];
  __shared__ float slot[2][32];
  const unsigned t = threadIdx.x % 32, base = 32 * rows * blockIdx.x;
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      ptx::mbarrier_init(&full[s], 32);
      ptx::mbarrier_init(&empty[s], 32);
    }
  }
  __syncthreads();  // initialised
  if (threadIdx.x < 32) {
    for (int i = 0; i < rows; ++i) {
      const int s = i % 2, round = i / 2;
      while (!ptx::mbarrier_try_wait_parity(&empty[s], (round & 1) ^ 1)) {
      }  // empty
      slot[s][t] = x[base + 32 * i + t];  // written
      ptx::mbarrier_arrive(&full[s]);     // full
    }
  } else {
    for (int i = 0; i < rows; ++i) {
      const int s = i % 2, round = i / 2;
      while (!ptx::mbarrier_try_wait_parity(&full[s], round & 1)) {
      }  // wait
      y[base + 32 * i + t] = slot[s][31 - t];  // read
      ptx::mbarrier_arrive(&empty[s]);         // released
    }
  }
}

// The same by inline PTX, with addresses in 32 bits, as published kernels have it; one lane of each warp arrives.
__global__ void ring_of_ptx(const float* x, float* y, int rows) {
  __shared__ alignas(8) uint64_t full[2], empty[2];
  __shared__ float slot[2][32];
  const unsigned t = threadIdx.x % 32, base = 32 * rows * blockIdx.x;
  const uint32_t fulls = window(full), empties = window(empty), slots = window(slot);
  if (threadIdx.x < 2) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(fulls + 8 * threadIdx.x));
    asm volatile("mbarrier.init.shared::cta.b64 [%0+0], %1;" ::"r"(empties + 8 * threadIdx.x), "r"(1));
  }
  __syncthreads();
  const auto wait = [](uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred P1;\n"
        "LAB_WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1, 0x989680;\n"
        "@P1 bra DONE;\n"
        "bra LAB_WAIT;\n"
        "DONE:\n"
        "}" ::"r"(barrier),
        "r"(parity)
        : "memory");
  };
  const auto arrive = [](uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
  };
  for (int i = 0; i < rows; ++i) {
    const uint32_t s = i % 2, round = i / 2, of_slot = slots + 128 * s;
    if (threadIdx.x < 32) {
      wait(empties + 8 * s, (round & 1) ^ 1);
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(of_slot + 4 * t), "f"(x[base + 32 * i + t]) : "memory");
      __syncwarp();  // all have written
      if (t == 0) arrive(fulls + 8 * s);
    } else {
      wait(fulls + 8 * s, round & 1);
      float value;
      asm volatile("ld.shared.f32 %0, [%1+124];" : "=f"(value) : "r"(of_slot - 4 * t) : "memory");
      y[base + 32 * i + t] = value;
      __syncwarp();  // all have read
      if (t == 0) arrive(empties + 8 * s);
    }
  }
}

// One thread ends phase after phase; the others wait for the last one. y = x.
__global__ void phases(const float* x, float* y, int rows) {
  __shared__ uint64_t barrier, last;
  __shared__ float tile[64];
  const unsigned t = threadIdx.x, base = 64 * blockIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&barrier, 1);  // one thread arrives
    ptx::mbarrier_init(&last, 1);
  }
  __syncthreads();
  const bool ended = ptx::mbarrier_test_wait_parity(&last, 1);  // the phase before the first one
  __syncthreads();
  if (t == 0) {
    for (int i = 0; i < rows; ++i) {
      ptx::mbarrier_arrive(&barrier);  // arrives
      while (!ptx::mbarrier_try_wait_parity(&barrier, i & 1)) {
      }  // has seen the phase
    }
    for (unsigned i = 0; i < 64; ++i) tile[i] = x[base + i];  // fills
    ptx::mbarrier_arrive(&last);
  }
  while (!ptx::mbarrier_test_wait_parity(&last, 0)) {
  }
  y[base + t] = ended ? tile[t] : -1;
}

// Memory of a barrier is used for data, and then for a barrier again. y = x of the other half.
__global__ void twice(const float* x, float* y) {
  __shared__ uint64_t storage[33];
  float* const tile = reinterpret_cast<float*>(storage);
  uint64_t* const barrier = &storage[32];  // after the data
  const unsigned t = threadIdx.x, base = 64 * blockIdx.x;
  float sum = 0;
  for (int round = 0; round < 2; ++round) {
    if (t == 0) ptx::mbarrier_init(barrier, 64);  // by one thread
    __syncthreads();
    tile[t] = x[base + t];  // data
    const uint64_t state = ptx::mbarrier_arrive(barrier);
    while (!ptx::mbarrier_try_wait(barrier, state)) {
    }
    sum += tile[t ^ 32] / 2;
    __syncthreads();
    if (t == 0) asm volatile("mbarrier.inval.b64 [%0];" ::"l"(barrier) : "memory");  // its end
  }
  y[base + t] = sum;
}

// Each block of a cluster sends its row to the next one, which waits at its own barrier. y = x of the block
// before.
__global__ void __cluster_dims__(4) neighbours(const float* x, float* y) {
  __shared__ uint64_t full;
  __shared__ float tile[64];
  const auto cluster = cg::this_cluster();
  const unsigned t = threadIdx.x, i = 64 * blockIdx.x + t, next = (ptx::get_sreg_cluster_ctarank() + 1) % 4;
  cluster.sync();
  if (t == 0) ptx::mbarrier_init(&full, 64);
  cluster.sync();  // all are initialised
  const uint32_t to = at_rank(&tile[t], next), barrier = at_rank(&full, next);
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(x[i]) : "memory");                        // sent
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");  // arrives
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &full, 0)) {
  }  // wait
  y[i] = tile[t];  // received
  cluster.sync();
}

// The same with pointers, and what cuda::ptx has; the initialisation is published by a relaxed arrival, and each block
// signals the one before it that its data have been read.
__global__ void __cluster_dims__(4) neighbours_by_pointers(const float* x, float* y) {
  __shared__ uint64_t full, empty;
  __shared__ float tile[64];
  const auto cluster = cg::this_cluster();
  const unsigned t = threadIdx.x, i = 64 * blockIdx.x + t, next = (cluster.block_rank() + 1) % 4;
  if (t == 0) {
    ptx::mbarrier_init(&full, 64);
    ptx::mbarrier_init(&empty, 64);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);  // known
  }
  ptx::barrier_cluster_arrive(ptx::sem_relaxed);
  ptx::barrier_cluster_wait();
  uint64_t* const next_full = cluster.map_shared_rank(&full, next);
  uint64_t* const last_empty = cluster.map_shared_rank(&empty, (next + 2) % 4);
  for (int round = 0; round < 2; ++round) {
    cluster.map_shared_rank(tile, next)[t] = x[i] * (1 + round);  // sent
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, next_full);
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &full, round)) {
    }
    y[i] = tile[t] / (1 + round);                                                                // received
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, last_empty);  // released
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &empty, round)) {
    }  // may be sent again
  }
}

// What a relaxed arrival does not release, a fence before it does. y = x of the other half.
__global__ void relaxed(const float* x, float* y) {
  __shared__ uint64_t barrier;
  __shared__ float tile[64];
  const unsigned t = threadIdx.x, base = 64 * blockIdx.x;
  if (t == 0) ptx::mbarrier_init(&barrier, 64);
  __syncthreads();
  tile[t] = x[base + t];  // written
  __threadfence_block();  // released
  ptx::mbarrier_arrive(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, &barrier);
  while (!ptx::mbarrier_try_wait_parity(&barrier, 0)) {
  }
  y[base + t] = tile[t ^ 32];  // read
}

// Counts, states, bytes that threads expect and complete, arrivals that drop out. wrong[k]: how often check k failed.
__global__ void counts(unsigned* wrong) {
  __shared__ uint64_t barrier;
  if (threadIdx.x != 0) return;
  const auto check = [&](int number, bool condition) {
    if (!condition) atomicAdd(&wrong[number], 1u);
  };
  const auto pending = [](uint64_t state) {
    uint32_t count;
    asm("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
    return count;
  };
  const uint32_t at = window(&barrier);
  ptx::mbarrier_init(&barrier, 5);                                        // for five
  check(0, pending(ptx::mbarrier_arrive_no_complete(&barrier, 2)) == 5);  // two
  const uint64_t state = ptx::mbarrier_arrive(&barrier, 2);               // and two more
  check(1, pending(state) == 3 && !ptx::mbarrier_test_wait(&barrier, state));
  asm volatile("mbarrier.expect_tx.shared::cta.b64 [%0], 96;" ::"r"(at));  // bytes
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier, 32);
  check(2, !ptx::mbarrier_test_wait_parity(&barrier, 0));
  asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], 128;" ::"r"(at));  // have come
  check(3, ptx::mbarrier_test_wait(&barrier, state) && ptx::mbarrier_test_wait_parity(&barrier, 0));
  // Bytes before they are expected; two arrivals come no more.
  asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], 16;" ::"r"(at));
  asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0], 2;" ::"r"(at));
  check(4, !ptx::mbarrier_test_wait_parity(&barrier, 1));
  uint64_t before;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1], 2;" : "=l"(before) : "l"(&barrier) : "memory");
  check(5, pending(before) == 3);
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier, 16);
  check(6, ptx::mbarrier_test_wait_parity(&barrier, 1));
  check(7, pending(ptx::mbarrier_arrive(&barrier, 3)) == 3);  // ends the third phase
  check(8, ptx::mbarrier_test_wait_parity(&barrier, 0));
}

// cuda::barrier and CUDA's primitives. y = x of the other half.
__global__ void classes(const float* x, float* y) {
  __shared__ cuda::barrier<cuda::thread_scope_block> both, some;
  __shared__ __mbarrier_t old;
  __shared__ float tile[64];
  const unsigned t = threadIdx.x, base = 64 * blockIdx.x;
  if (t == 0) {
    init(&both, 64);
    init(&some, 64);
    __mbarrier_init(&old, 64);
  }
  __syncthreads();
  float sum = 0;
  for (int round = 0; round < 4; ++round) {
    tile[t] = x[base + t];
    both.arrive_and_wait();  // all have written
    sum += tile[t ^ 32] / 4;
    const __mbarrier_token_t token = __mbarrier_arrive(&old);
    while (!__mbarrier_try_wait(&old, token, 1000)) {
    }
  }
  if (t < 32) {
    some.arrive_and_drop();
  } else {
    tile[t] = sum;
    some.wait(some.arrive());
    auto token = cuda::device::barrier_arrive_tx(some, 1, 0);
    some.wait(static_cast<decltype(token)&&>(token));
    ptx::mbarrier_arrive(cuda::device::barrier_native_handle(some));
    some.wait_parity(false);
  }
  y[base + t] = sum;
}
