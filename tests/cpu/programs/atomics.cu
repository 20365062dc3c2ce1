// cuda::atomic and cuda::atomic_ref of each scope. "relaxed" and "block": the flag does not publish what was written.
#include <cuda/atomic>
#include <cuda/std/limits>

#include <cstdio>
#include <cstring>

#include "check.h"

template <cuda::thread_scope scope>
__global__ void hand_over(int* data, int* flag, cuda::memory_order order) {
  const cuda::atomic_ref<int, scope> published(*flag);
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    data[0] = 42;
    published.store(1, order);
  } else {
    while (published.load(cuda::std::memory_order_acquire) == 0) {
    }
    data[1] = data[0];
  }
}

__device__ cuda::atomic<int, cuda::thread_scope_device> lock{0};

__global__ void count_with_lock(int* count) {
  if (threadIdx.x != 0) return;
  while (lock.exchange(1, cuda::memory_order_acquire) == 1) __nanosleep(20);
  *count += 1;
  lock.store(0, cuda::memory_order_release);
}

__global__ void count_with_swap(int* count, unsigned* taken) {
  if (threadIdx.x != 0) return;
  const cuda::atomic_ref<unsigned> of_all(*taken);
  unsigned expected = 0;
  while (!of_all.compare_exchange_weak(expected, 1u, cuda::memory_order_acquire, cuda::memory_order_relaxed))
    expected = 0;
  *count += 1;
  cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
  of_all.store(0, cuda::memory_order_relaxed);
}

// Each operation, on shared memory.
__global__ void operations(int* wrong) {
  __shared__ cuda::atomic<int, cuda::thread_scope_block> sum, most, bits;
  __shared__ cuda::atomic<float, cuda::thread_scope_block> real;
  if (threadIdx.x == 0) {
    new (&sum) cuda::atomic<int, cuda::thread_scope_block>(0);
    most = cuda::std::numeric_limits<int>::min();
    bits = 0;
    real = 0.5f;
  }
  __syncthreads();
  sum.fetch_add(2, cuda::memory_order_relaxed);
  --sum;
  most.fetch_max(static_cast<int>(threadIdx.x));
  bits |= 1 << threadIdx.x % 32;
  real += 1.0f;
  __syncthreads();
  if (threadIdx.x == 0 && (sum != 64 || most.load() != 63 || bits != -1 || real != 64.5f)) *wrong = 1;
}

int main(int argc, char** argv) {
  const auto is = [&](const char* mode) { return argc > 1 && std::strcmp(argv[1], mode) == 0; };
  int* x;
  CHECK(cudaMalloc(&x, 8 * sizeof *x));
  CHECK(cudaMemset(x, 0, 8 * sizeof *x));
  if (is("block"))
    hand_over<cuda::thread_scope_block><<<2, 32>>>(x, x + 2, cuda::memory_order_release);
  else
    hand_over<cuda::thread_scope_device>
        <<<2, 32>>>(x, x + 2, is("relaxed") ? cuda::memory_order_relaxed : cuda::memory_order_release);
  count_with_lock<<<8, 32>>>(x + 3);
  count_with_swap<<<8, 32>>>(x + 3, reinterpret_cast<unsigned*>(x + 4));
  operations<<<1, 64>>>(x + 5);
  int got[8];
  CHECK(cudaMemcpy(got, x, sizeof got, cudaMemcpyDeviceToHost));
  std::printf("%d %d %d\n", got[1], got[3], got[5]);
  CHECK(cudaFree(x));
}
