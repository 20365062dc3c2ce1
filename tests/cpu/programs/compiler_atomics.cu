// nvcc's built-in atomic functions: every one of them; a message that is published, or (argument "relaxed") is not.
#include "check.h"

__global__ void count(int* sums, float* total, unsigned long long* least) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  __nv_atomic_add(&sums[0], i, __NV_ATOMIC_RELAXED);
  __nv_atomic_sub(&sums[1], 1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
  __nv_atomic_max(&sums[2], i, __NV_ATOMIC_RELAXED);
  __nv_atomic_or(&sums[3], 1 << i % 8, __NV_ATOMIC_RELAXED);
  __nv_atomic_and(&sums[4], i % 2 == 0 ? ~1 : ~2, __NV_ATOMIC_RELAXED);
  __nv_atomic_fetch_xor(&sums[5], i, __NV_ATOMIC_RELAXED);
  __nv_atomic_fetch_add(total, 0.5, __NV_ATOMIC_RELAXED);
  __nv_atomic_fetch_min(least, 1000 - i, __NV_ATOMIC_RELAXED);
  int* const turn = &sums[6];
  int seen = __nv_atomic_load_n(turn, __NV_ATOMIC_RELAXED);
  while (!__nv_atomic_compare_exchange_n(turn, &seen, seen + 2, true, __NV_ATOMIC_ACQ_REL, __NV_ATOMIC_RELAXED)) {
  }
}

__global__ void publish(int* data, int* flag, int order) {
  if (blockIdx.x == 0) {
    int made = 41, value = 1, old = -1;
    __nv_atomic_exchange(data, &made, &old, __NV_ATOMIC_RELAXED);
    *data = made + 1 + old;
    if (order == __NV_ATOMIC_RELEASE)
      __nv_atomic_store_n(flag, 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
    else
      __nv_atomic_store(flag, &value, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
  } else {
    int flagged = 0;
    while (flagged == 0) __nv_atomic_load(flag, &flagged, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE);
    data[1] = *data;
    __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_SYSTEM);
    __nv_atomic_exchange_n(flag, 2, __NV_ATOMIC_SEQ_CST);
  }
}

int main(int argc, char**) {
  int* sums;
  float* total;
  unsigned long long* least;
  CHECK(cudaMallocManaged(&sums, 16 * sizeof *sums));
  CHECK(cudaMallocManaged(&total, sizeof *total));
  CHECK(cudaMallocManaged(&least, sizeof *least));
  for (int i = 0; i < 16; ++i) sums[i] = i == 4 ? -1 : 0;
  *total = 0;
  *least = 5000;
  count<<<2, 64>>>(sums, total, least);
  CHECK(cudaDeviceSynchronize());
  printf("%d %d %d %d %d %d %d, %g %llu\n", sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], *total,
         *least);
  publish<<<2, 1>>>(sums + 8, sums + 10, argc > 1 ? __NV_ATOMIC_RELAXED : __NV_ATOMIC_RELEASE);
  CHECK(cudaDeviceSynchronize());
  printf("%d %d\n", sums[9], sums[10]);
  CHECK(cudaFree(sums));
  CHECK(cudaFree(total));
  CHECK(cudaFree(least));
}
