// What a thread costs on the CPU: at a barrier, in an elementwise kernel, and, where it is compiled with checks, an
// access of memory. Prints lines "name<TAB>nanoseconds"; benchmarks/host.py compiles and runs it.
#include <trifold/launch.cuh>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <vector>

namespace {

constexpr int rounds = 1000;
constexpr int64_t elements = 1 << 18;

__global__ void barriers_kernel(int count) {
  for (int i = 0; i < count; ++i) __syncthreads();
}

__global__ void axpy_kernel(const float* x, float* y, float a, int64_t n) {
  const int64_t i = trifold::thread_index();
  if (i < n) y[i] += a * x[i];
}

// The least of several runs, for one of `parts`.
template <class F>
void report(const char* name, double parts, F run) {
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%s\t%.2f\n", name, best / parts);
}

void barriers(const char* name, int threads) {
  report(name, double{rounds} * threads, [&] { trifold::launch<barriers_kernel>({}, 1, threads, 0, rounds); });
}

}  // namespace

int main() {
  std::vector<float> x(elements, 1.0f), y(elements);
  for (const auto* tensor : {&x, &y}) trifold::host::note_tensor(tensor->data(), elements * sizeof(float));
  const auto axpy = [&] {
    const float* in = x.data();
    trifold::launch<axpy_kernel>({}, elements / trifold::threads_per_block, trifold::threads_per_block, 0, in, y.data(),
                                 2.0f, elements);
  };
  if (trifold::host::checked) {
    report("an access with checks", 3.0 * elements, axpy);
  } else {
    barriers("a thread's barrier, 128 threads", 128);
    barriers("a thread's barrier, 1024 threads", 1024);
    report("a thread of an elementwise kernel", elements, axpy);
  }
}
