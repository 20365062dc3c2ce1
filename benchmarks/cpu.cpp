// The cost of kernels on the CPU: of a thread at a barrier and in an elementwise kernel, of blocks on two cores, and,
// if compiled with checks, of a memory access, of its shadow memory, and the memory that a launch leaves allocated.
// Prints lines "name<TAB>number"; benchmarks/cpu.py compiles it, runs it, and compares the numbers with the targets.
#include <trifold/launch.cuh>

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int rounds = 1000;
constexpr int64_t elements = 1 << 18;
constexpr int repeats = 15;

__global__ void barriers_kernel(int count) {
  for (int i = 0; i < count; ++i) __syncthreads();
}

__global__ void axpy_kernel(const float* x, float* y, float a, int64_t n) {
  const int64_t i = trifold::thread_index();
  if (i < n) y[i] += a * x[i];
}

__global__ void bytes_kernel(const uint8_t* x, uint8_t* y, int64_t n) {
  const int64_t i = trifold::thread_index();
  if (i < n) y[i] = x[i];
}

// Each block sums its part: log2(256) barriers per thread.
__global__ void sums_kernel(const float* x, float* y) {
  __shared__ float sums[trifold::threads_per_block];
  const int t = threadIdx.x;
  sums[t] = x[trifold::thread_index()];
  __syncthreads();
  for (int half = trifold::threads_per_block / 2; half > 0; half /= 2) {
    if (t < half) sums[t] += sums[t + half];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = sums[0];
}

void print(const char* name, double number) {
  std::printf("%s\t%.4f\n", name, number);
}

double nanoseconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

// Nanoseconds: the least of several runs. On one core, CPU time, so that other programs do not count.
template <class F>
double fastest(F run, int times = repeats, clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < times; ++repeat) {
    const double start = nanoseconds(clock);
    run();
    best = std::min(best, nanoseconds(clock) - start);
  }
  return best;
}

void barriers(const char* name, int threads) {
  const double best = fastest([&] { trifold::launch<barriers_kernel>({}, 1, threads, 0, rounds); });
  print(name, best / rounds / threads);
}

// Runs the blocks in two halves, as torch's thread pool does; includes the start of the threads, 20 µs.
void on_two_cores(int64_t count, void (*body)(int64_t, int64_t, void*), void* context) {
  std::thread other(body, count / 2, count, context);
  body(0, count / 2, context);
  other.join();
}

// Speedup of two cores: of pairs of launches, the best.
template <class F>
double speedup(F run) {
  const auto on_one_core = trifold::parallel_for;
  double one = std::numeric_limits<double>::infinity(), two = one;
  for (int pair = 0; pair < repeats; ++pair) {
    trifold::parallel_for = on_one_core;
    one = std::min(one, fastest(run, 2, CLOCK_MONOTONIC));
    trifold::parallel_for = on_two_cores;
    two = std::min(two, fastest(run, 2, CLOCK_MONOTONIC));
  }
  trifold::parallel_for = on_one_core;
  return one / two;
}

template <class T>
void axpy(const std::vector<T>& x, std::vector<T>& y) {
  const auto n = static_cast<int64_t>(x.size());
  const auto blocks = static_cast<unsigned>(n / trifold::threads_per_block);
  const T* in = x.data();
  for (const auto* tensor : {&x, static_cast<const std::vector<T>*>(&y)})
    trifold::cpu::note_tensor(tensor->data(), tensor->size() * sizeof(T));
  if constexpr (sizeof(T) == 1) {
    trifold::launch<bytes_kernel>({}, blocks, trifold::threads_per_block, 0, in, y.data(), n);
  } else {
    trifold::launch<axpy_kernel>({}, blocks, trifold::threads_per_block, 0, in, y.data(), 2.0f, n);
  }
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  long size = 0, resident = 0;
  file >> size >> resident;
  return 4096.0 * static_cast<double>(resident);
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

template <class T>
void shadow(const char* name) {
  constexpr size_t bytes = 4 << 20;
  std::vector<T> x(bytes / sizeof(T), T(1)), y(bytes / sizeof(T), T(1));
  const double before = resident_bytes();
  axpy(x, y);
  print(name, (peak_bytes() - before) / (2 * bytes));
}

// Growth of the process in KiB over a thousand launches, after a few that fill the caches.
template <class F>
void growth(const char* name, F launch) {
  for (int i = 0; i < 100; ++i) launch();
  const double before = resident_bytes();
  for (int i = 0; i < 1000; ++i) launch();
  print(name, (resident_bytes() - before) / 1024);
}

}  // namespace

int main() {
  std::vector<float> x(elements, 1.0f), y(elements), few(1024, 1.0f), few_more(1024);
  const auto sum = [&] {
    const float* in = x.data();
    const auto blocks = static_cast<unsigned>(elements / trifold::threads_per_block);
    trifold::launch<sums_kernel>({}, blocks, trifold::threads_per_block, 0, in, y.data());
  };
  if (trifold::cpu::checked) {
    shadow<float>("shadow of floats");
    shadow<uint8_t>("shadow of bytes");
    print("access", fastest([&] { axpy(x, y); }) / (3.0 * elements));
    growth("growth", [&] { axpy(few, few_more); });
  } else {
    barriers("barrier 128", 128);
    barriers("barrier 1024", 1024);
    print("elementwise", fastest([&] { axpy(x, y); }) / elements);
    print("two cores", speedup(sum));
    growth("growth", [&] { axpy(few, few_more); });
  }
}
