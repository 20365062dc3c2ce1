// CUB's algorithms of a whole device, each called twice: for the size of its temporary storage, and to run.
#include <cub/cub.cuh>

#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda/functional>
#include <cuda/std/functional>

#include "check.h"

constexpr int n = 1000;

template <class T>
T* device(const std::vector<T>& values) {
  T* made;
  CHECK(cudaMalloc(&made, values.size() * sizeof(T)));
  CHECK(cudaMemcpy(made, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return made;
}
template <class T>
std::vector<T> host(const T* values, int count) {
  std::vector<T> made(count);
  CHECK(cudaMemcpy(made.data(), values, count * sizeof(T), cudaMemcpyDeviceToHost));
  return made;
}

// Calls an algorithm twice.
template <class Call>
void run(Call call) {
  void* temp = nullptr;
  size_t bytes = 0;
  CHECK(call(temp, bytes));
  CHECK(cudaMalloc(&temp, bytes));
  CHECK(call(temp, bytes));
  CHECK(cudaFree(temp));
}

struct IsOdd {
  __host__ __device__ bool operator()(int x) const { return x % 2 != 0; }
};

int main(int argc, char** argv) {
  const int length = argc > 1 && strcmp(argv[1], "too long") == 0 ? n + 1 : n;
  std::vector<int> values(n), offsets{0, 10, 10, n};
  std::vector<float> keys(n);
  std::vector<char> flags(n);
  for (int i = 0; i < n; ++i) {
    values[i] = i / 2;
    keys[i] = static_cast<float>(i * 37 % 101 - 50);
    flags[i] = i % 3 == 0;
  }
  int *x = device(values), *out = device(values), *moved = device(values), *at = device(offsets),
      *count = device(offsets);
  float *k = device(keys), *sorted = device(keys);
  char* f = device(flags);

  run([&](void* temp, size_t& bytes) { return cub::DeviceReduce::Sum(temp, bytes, x, out, length); });
  run([&](void* temp, size_t& bytes) { return cub::DeviceReduce::Min(temp, bytes, x, out + 1, n); });
  run([&](void* temp, size_t& bytes) { return cub::DeviceReduce::Max(temp, bytes, x, out + 2, n); });
  run([&](void* temp, size_t& bytes) {
    return cub::DeviceReduce::Reduce(temp, bytes, x, out + 3, n, cuda::maximum<>(), 7777);
  });
  auto got = host(out, 4);
  printf("%d %d %d %d\n", got[0], got[1], got[2], got[3]);

  run([&](void* temp, size_t& bytes) { return cub::DeviceSegmentedReduce::Sum(temp, bytes, x, out, 3, at, at + 1); });
  got = host(out, 3);
  printf("%d %d %d\n", got[0], got[1], got[2]);

  run([&](void* temp, size_t& bytes) { return cub::DeviceScan::ExclusiveSum(temp, bytes, x, out, n); });
  got = host(out, n);
  printf("%d %d %d\n", got[0], got[3], got[n - 1]);
  run([&](void* temp, size_t& bytes) { return cub::DeviceScan::InclusiveSum(temp, bytes, x, out, n); });
  run([&](void* temp, size_t& bytes) {
    return cub::DeviceScan::ExclusiveScan(temp, bytes, x, out + 1, cuda::maximum<>(), 3, n - 1);
  });
  run([&](void* temp, size_t& bytes) {
    return cub::DeviceScan::InclusiveScan(temp, bytes, x, moved, cuda::std::plus<>(), n);
  });
  got = host(out, n);
  printf("%d %d %d\n", got[0], got[1], got[n - 1]);

  run([&](void* temp, size_t& bytes) { return cub::DeviceSelect::If(temp, bytes, x, out, count, n, IsOdd()); });
  got = host(out, n);
  printf("%d odd: %d %d\n", host(count, 1)[0], got[0], got[2]);
  run([&](void* temp, size_t& bytes) { return cub::DeviceSelect::Flagged(temp, bytes, x, f, out, count, n); });
  got = host(out, n);
  printf("%d flagged: %d %d\n", host(count, 1)[0], got[0], got[2]);
  run([&](void* temp, size_t& bytes) { return cub::DeviceSelect::Unique(temp, bytes, x, out, count, n); });
  got = host(out, n);
  printf("%d different: %d %d\n", host(count, 1)[0], got[0], got[2]);

  cub::KeyValuePair<int, int>* extreme = nullptr;
  CHECK(cudaMalloc(&extreme, sizeof *extreme));
  run([&](void* temp, size_t& bytes) { return cub::DeviceReduce::ArgMax(temp, bytes, x + 1, extreme, n - 1); });
  const auto largest = host(extreme, 1)[0];
  printf("%d at %d\n", largest.value, largest.key);
  run([&](void* temp, size_t& bytes) { return cub::DeviceReduce::ArgMin(temp, bytes, x + 1, out, count, n - 1); });
  printf("%d at %d\n", host(out, 1)[0], host(count, 1)[0]);
  CHECK(cudaFree(extreme));
  run([&](void* temp, size_t& bytes) {
    return cub::DeviceRunLengthEncode::Encode(temp, bytes, x, out, moved, count, n);
  });
  printf("%d runs: %d is there %d times\n", host(count, 1)[0], host(out, 2)[1], host(moved, 2)[1]);
  run([&](void* temp, size_t& bytes) {
    return cub::DeviceReduce::ReduceByKey(temp, bytes, x, out, x, moved, count, cuda::std::plus<>(), n);
  });
  printf("%d runs: the sum of %d is %d\n", host(count, 1)[0], host(out, 2)[1], host(moved, 2)[1]);
  run([&](void* temp, size_t& bytes) {
    return cub::DeviceHistogram::HistogramEven(temp, bytes, x, out, 5, 0, 200, n);
  });
  got = host(out, 4);
  printf("histogram: %d %d %d %d\n", got[0], got[1], got[2], got[3]);
  const int levels[] = {1, 3, 499};
  CHECK(cudaMemcpy(moved, levels, sizeof levels, cudaMemcpyHostToDevice));
  run([&](void* temp, size_t& bytes) {
    return cub::DeviceHistogram::HistogramRange(temp, bytes, x, out, 3, moved, n);
  });
  printf("ranges: %d %d\n", host(out, 2)[0], host(out, 2)[1]);
  run([&](void* temp, size_t& bytes) {
    return cub::DeviceScan::InclusiveScan(temp, bytes, x, moved, cuda::std::plus<>(), n);
  });

  run([&](void* temp, size_t& bytes) { return cub::DeviceRadixSort::SortPairs(temp, bytes, k, sorted, x, moved, n); });
  got = host(moved, n);
  printf("%g at %d, %g at %d\n", host(sorted, 1)[0], got[0], host(sorted, n)[n - 1], got[n - 1]);
  run([&](void* temp, size_t& bytes) { return cub::DeviceRadixSort::SortKeysDescending(temp, bytes, k, sorted, n); });
  printf("%g first\n", host(sorted, 1)[0]);
  cub::DoubleBuffer<float> both(k, sorted);
  cub::DoubleBuffer<int> pair(x, moved);
  run([&](void* temp, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairsDescending(temp, bytes, both, pair, n, 0, 32);
  });
  printf("%g at %d\n", host(both.Current(), 1)[0], host(pair.Current(), 1)[0]);
  for (void* each :
       {static_cast<void*>(x), static_cast<void*>(out), static_cast<void*>(moved), static_cast<void*>(at),
        static_cast<void*>(count), static_cast<void*>(k), static_cast<void*>(sorted), static_cast<void*>(f)})
    CHECK(cudaFree(each));
}
