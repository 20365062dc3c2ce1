// CUB's collectives as public kernels use them. The first argument is the kernel, the second one its mistake, which is
// a line that is missing or a condition that is wrong.
#include <cub/block/block_shuffle.cuh>
#include <cub/cub.cuh>

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <cuda/functional>
#include <cuda/std/functional>

#include "check.h"

constexpr int threads = 128, items = 4, tile = threads * items, warps = threads / 32;

enum Mistake {
  none,
  no_barrier,       // before the storage is used again, or another thread's result is read
  in_a_branch,      // half of the block comes to the collective
  in_two_branches,  // at two lines
  early_return,     // of the threads that have no item
  too_many_valid,   // items
  storage_of_one,   // warp, for all
  wrong_block,      // is launched
};

// A row's softmax, with one storage for both reductions.
__global__ void softmax(const float* x, float* y, int n, int mistake) {
  using Reduce = cub::BlockReduce<float, threads>;
  __shared__ typename Reduce::TempStorage temp;
  __shared__ float most, sum;
  float own = -FLT_MAX;
  for (int i = threadIdx.x; i < n; i += threads) own = fmaxf(own, x[i]);
  own = Reduce(temp).Reduce(own, cuda::maximum<>());  // first
  if (threadIdx.x == 0) most = own;
  __syncthreads();
  own = 0;
  for (int i = threadIdx.x; i < n; i += threads) own += expf(x[i] - most);
  own = Reduce(temp).Sum(own);
  if (threadIdx.x == 0) sum = own;  // written
  if (mistake != no_barrier) __syncthreads();
  for (int i = threadIdx.x; i < n; i += threads) y[i] = expf(x[i] - most) / sum;  // read
}

// Two sums with one storage.
__global__ void moments(const float* x, float* y, int n, int mistake) {
  using Reduce = cub::BlockReduce<float, threads, cub::BLOCK_REDUCE_RAKING>;
  __shared__ typename Reduce::TempStorage temp;
  float own[items];
  for (int i = 0; i < items; ++i) {
    const int at = threadIdx.x * items + i;
    own[i] = at < n ? x[at] : 0;
  }
  const float sum = Reduce(temp).Sum(own);  // first
  for (float& each : own) each *= each;
  if (mistake != no_barrier) __syncthreads();
  const float squares = Reduce(temp).Sum(own);  // second
  if (threadIdx.x == 0) y[0] = sum / n, y[1] = squares / n;
}

// As many values as there are threads, which may be fewer than the reduction was compiled for.
__global__ void mean_of_some(const float* x, float* y, int n, int mistake) {
  using Reduce = cub::BlockReduce<float, 1024>;
  __shared__ typename Reduce::TempStorage temp;
  float own = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) own += x[i];
  const int valid = mistake == too_many_valid ? n : blockDim.x;
  own = Reduce(temp).Reduce(own, cuda::std::plus<float>(), valid);  // first
  if (threadIdx.x == 0) y[0] = own / n;
}

// Mean and deviations of a row by Welford's method: the reduction of a struct.
struct Welford {
  float mean, squares, count;
};
struct Combine {
  __device__ Welford operator()(const Welford& a, const Welford& b) const {
    const float count = a.count + b.count;  // combined
    if (count == 0) return a;
    const float delta = b.mean - a.mean;
    return {a.mean + delta * b.count / count, a.squares + b.squares + delta * delta * a.count * b.count / count, count};
  }
};
__global__ void welford(const float* x, float* y, int n, int mistake) {
  using Reduce = cub::BlockReduce<Welford, threads>;
  __shared__ typename Reduce::TempStorage temp;
  if (mistake == early_return && threadIdx.x >= 77) return;
  Welford own{0, 0, 0};
  for (int i = threadIdx.x; i < n; i += threads) own = Combine()(own, {x[i], 0, 1});
  own = Reduce(temp).Reduce(own, Combine());  // first
  if (threadIdx.x == 0) y[0] = own.mean, y[1] = own.squares / own.count;
}

// The place of the largest value, in a block of two dimensions.
__global__ void arg_max(const float* x, float* y, int n, int mistake) {
  using Pair = cub::KeyValuePair<int, float>;
  using Reduce = cub::BlockReduce<Pair, 32, cub::BLOCK_REDUCE_WARP_REDUCTIONS, warps>;
  __shared__ typename Reduce::TempStorage temp;
  const int t = threadIdx.y * 32 + threadIdx.x;
  Pair best(-1, -FLT_MAX);
  for (int i = t; i < n; i += threads) best = cub::ArgMax()(best, Pair(i, x[i]));
  if (mistake == in_a_branch && t >= 64) {
    __syncthreads();  // elsewhere
    return;
  }
  best = Reduce(temp).Reduce(best, cub::ArgMax());  // first
  if (t == 0) y[0] = best.key;
}

// A row's running sum, tile by tile; what precedes a tile comes from a functor.
struct Running {
  float total;
  __device__ float operator()(float aggregate) {
    const float before = total;
    total += aggregate;
    return before;
  }
};
__global__ void running_sum(const float* x, float* y, int n, int mistake) {
  using Load = cub::BlockLoad<float, threads, items, cub::BLOCK_LOAD_TRANSPOSE>;
  using Scan = cub::BlockScan<float, threads>;
  using Store = cub::BlockStore<float, threads, items, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Scan::TempStorage scan;
    typename Store::TempStorage store;
  } temp;
  Running running{0};
  for (int base = 0; base < n; base += tile) {
    float own[items];
    const int valid = mistake == too_many_valid ? tile : n - base;
    Load(temp.load).Load(x + base, own, valid, 0.f);  // loads
    if (mistake != no_barrier) __syncthreads();
    Scan(temp.scan).InclusiveSum(own, own, running);  // scans
    __syncthreads();
    Store(temp.store).Store(y + base, own, n - base);  // stores
    __syncthreads();
  }
}

// The positive values, close together.
__global__ void compact(const float* x, float* y, int n, int mistake) {
  using Scan = cub::BlockScan<int, threads, cub::BLOCK_SCAN_WARP_SCANS>;
  __shared__ typename Scan::TempStorage temp;
  int kept = 0;
  for (int base = 0; base < n; base += threads) {
    const int i = base + threadIdx.x;
    const bool keeps = i < n && x[i] > 0;
    int place, count;
    Scan(temp).ExclusiveSum(keeps ? 1 : 0, place, count);  // scans
    if (keeps) y[kept + place] = x[i];
    kept += count;
    if (mistake != no_barrier) __syncthreads();
  }
}

// Values and their places in descending order, striped over the threads.
__global__ void sort_pairs(const float* x, float* y, int n, int mistake) {
  using Sort = cub::BlockRadixSort<float, threads, items, int>;
  using Exchange = cub::BlockExchange<int, threads, items>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Exchange::TempStorage exchange;
  } temp;
  float keys[items];
  int places[items];
  cub::LoadDirectBlocked(threadIdx.x, x, keys, n, -FLT_MAX);
  for (int i = 0; i < items; ++i) places[i] = threadIdx.x * items + i;
  Sort(temp.sort).SortDescending(keys, places);  // sorts
  if (mistake != no_barrier) __syncthreads();
  Exchange(temp.exchange).BlockedToStriped(places);  // exchanges
  cub::StoreDirectBlocked(threadIdx.x, y, keys, n);
  for (int i = 0; i < items; ++i)
    if (i * threads + threadIdx.x < n) y[tile + i * threads + threadIdx.x] = places[i];
}

// Bits 4 to 8 of numbers, sorted.
__global__ void sort_bits(const float* x, float* y, int n, int mistake) {
  using Sort = cub::BlockRadixSort<unsigned, threads, items>;
  __shared__ typename Sort::TempStorage temp;
  unsigned keys[items];
  for (int i = 0; i < items; ++i) keys[i] = static_cast<unsigned>(threadIdx.x * items + i) * 2654435761u >> 20;
  if (mistake == in_two_branches) {
    if (threadIdx.x < 64)
      Sort(temp).SortBlockedToStriped(keys, 4, 9);  // one
    else
      Sort(temp).SortBlockedToStriped(keys, 4, 9);  // other
  } else {
    Sort(temp).SortBlockedToStriped(keys, 4, 9);
  }
  cub::StoreDirectStriped<threads>(threadIdx.x, y, keys);
}

__global__ void histogram(const float* x, float* y, int n, int mistake) {
  using Histogram = cub::BlockHistogram<unsigned char, threads, items, 64, cub::BLOCK_HISTO_ATOMIC>;
  __shared__ typename Histogram::TempStorage temp;
  __shared__ unsigned counts[64];
  unsigned char own[items];
  for (int i = 0; i < items; ++i) own[i] = (threadIdx.x * items + i) % 61;
  Histogram(temp).Histogram(own, counts);  // counts
  if (mistake != no_barrier) __syncthreads();
  if (threadIdx.x < 64) y[threadIdx.x] = counts[63 - threadIdx.x];  // read
}

// How many runs of equal values there are, and the differences of neighbours.
__global__ void runs(const float* x, float* y, int n, int mistake) {
  using Flags = cub::BlockDiscontinuity<int, threads>;
  using Difference = cub::BlockAdjacentDifference<int, threads>;
  using Reduce = cub::BlockReduce<int, threads, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>;
  __shared__ typename Flags::TempStorage flags_temp;
  __shared__ typename Difference::TempStorage difference_temp;
  __shared__ typename Reduce::TempStorage temp;
  int own[items], heads[items], differences[items];
  for (int i = 0; i < items; ++i) own[i] = (threadIdx.x * items + i) / 3;
  Flags(flags_temp).FlagHeads(heads, own, cuda::std::not_equal_to<>());
  Difference(difference_temp).SubtractLeft(own, differences, cuda::std::minus<>());
  const int count = Reduce(temp).Sum(heads);  // counted
  if (mistake != no_barrier) __syncthreads();
  const int rise = Reduce(temp).Sum(differences);  // risen
  if (threadIdx.x == 0) y[0] = count, y[1] = rise;
}

// Each warp sums a row.
__global__ void warp_rows(const float* x, float* y, int n, int mistake) {
  using Reduce = cub::WarpReduce<float>;
  __shared__ typename Reduce::TempStorage temp[warps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int row = warp; row < n / 32; row += warps) {
    const int own = mistake == storage_of_one ? 2 * warp : warp;
    const float sum = Reduce(temp[own]).Sum(x[row * 32 + lane]);  // summed
    if (lane == 0) y[row] = sum;
  }
}

// Each of a warp's lanes 0 to 19 holds a value of a row: CUB exchanges them in shared memory.
__global__ void short_rows(const float* x, float* y, int n, int mistake) {
  using Reduce = cub::WarpReduce<float, 20>;
  __shared__ typename Reduce::TempStorage temp[warps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane < 20) {
    const float sum = Reduce(temp[mistake == storage_of_one ? 0 : warp]).Sum(x[warp * 20 + lane]);  // sums
    if (lane == 0) y[warp] = sum;
  }
}

// Scans of 16 lanes, and sums of segments of a warp.
__global__ void warp_scans(const float* x, float* y, int n, int mistake) {
  using Scan = cub::WarpScan<int, 16>;
  using Reduce = cub::WarpReduce<int>;
  __shared__ typename Scan::TempStorage temp[threads / 16];
  __shared__ typename Reduce::TempStorage sums[warps];
  const int t = threadIdx.x;
  int before, total;
  Scan(temp[t / 16]).ExclusiveScan(t, before, 1000, cuda::maximum<>(), total);
  const int sum = Reduce(sums[t / 32]).HeadSegmentedSum(1, t % 5 == 0);
  y[t] = before;
  y[threads + t] = total;
  y[2 * threads + t] = t % 32 == 0 || t % 5 == 0 ? sum : 0;
}

// The value of the fifth thread after one's own, around the block.
__global__ void rotate(const float* x, float* y, int n, int mistake) {
  using Shuffle = cub::BlockShuffle<float, threads>;
  __shared__ typename Shuffle::TempStorage temp;
  float other;
  Shuffle(temp).Rotate(x[threadIdx.x], other, 5);  // first
  y[threadIdx.x] = other;
}

using Kernel = void (*)(const float*, float*, int, int);

bool near(double a, double b) {
  return std::fabs(a - b) <= 1e-4 * (1 + std::fabs(b));
}

// The number of wrong results.
int check(const std::string& name, const std::vector<float>& x, const std::vector<float>& y) {
  const int n = static_cast<int>(x.size());
  std::vector<double> want;
  double sum = 0, squares = 0, exps = 0;
  int best = 0;
  for (int i = 0; i < n; ++i) {
    sum += x[i], squares += double{x[i]} * x[i], exps += std::exp(x[i]);
    if (x[i] > x[best]) best = i;
  }
  const double mean = sum / n;
  if (name == "softmax") {
    for (const float each : x) want.push_back(std::exp(each) / exps);
  } else if (name == "moments") {
    want = {mean, squares / n};
  } else if (name == "mean_of_some") {
    want = {mean};
  } else if (name == "welford") {
    want = {mean, squares / n - mean * mean};
  } else if (name == "arg_max") {
    want = {double(best)};
  } else if (name == "running_sum") {
    double total = 0;
    for (const float each : x) want.push_back(total += each);
  } else if (name == "compact") {
    for (const float each : x)
      if (each > 0) want.push_back(each);
  } else if (name == "sort_pairs") {
    int wrong = 0;
    for (int i = 0; i < n; ++i) wrong += x[static_cast<int>(y[tile + i])] != y[i] || (i > 0 && y[i - 1] < y[i]);
    return wrong;
  } else if (name == "sort_bits") {
    int wrong = 0;
    for (int i = 1; i < tile; ++i)
      wrong += (static_cast<unsigned>(y[i - 1]) >> 4 & 31) > (static_cast<unsigned>(y[i]) >> 4 & 31);
    return wrong;
  } else if (name == "histogram") {
    for (int i = 0; i < 64; ++i) want.push_back(63 - i > 60 ? 0 : tile / 61 + (63 - i < tile % 61 ? 1 : 0));
  } else if (name == "runs") {
    want = {(tile + 2) / 3, (tile - 1) / 3};
  } else if (name == "warp_rows" || name == "short_rows") {
    const int length = name == "warp_rows" ? 32 : 20, rows = name == "warp_rows" ? n / 32 : warps;
    for (int row = 0; row < rows; ++row) {
      want.push_back(0);
      for (int i = 0; i < length; ++i) want.back() += x[row * length + i];
    }
  } else if (name == "warp_scans") {
    for (int t = 0; t < threads; ++t) want.push_back(1000);
    for (int t = 0; t < threads; ++t) want.push_back(t / 16 * 16 + 15);
    for (int t = 0; t < threads; ++t) {
      int end = t + 1;
      while (end % 32 != 0 && end % 5 != 0) ++end;
      want.push_back(t % 32 == 0 || t % 5 == 0 ? end - t : 0);
    }
  } else if (name == "rotate") {
    for (int t = 0; t < threads; ++t) want.push_back(x[(t + 5) % threads]);
  }
  int wrong = 0;
  for (size_t i = 0; i < want.size(); ++i) wrong += !near(y[i], want[i]);
  return wrong;
}

int main(int argc, char** argv) {
  const struct {
    const char* name;
    Kernel kernel;
  } kernels[] = {{"softmax", softmax},
                 {"moments", moments},
                 {"mean_of_some", mean_of_some},
                 {"welford", welford},
                 {"arg_max", arg_max},
                 {"running_sum", running_sum},
                 {"compact", compact},
                 {"sort_pairs", sort_pairs},
                 {"sort_bits", sort_bits},
                 {"histogram", histogram},
                 {"runs", runs},
                 {"warp_rows", warp_rows},
                 {"short_rows", short_rows},
                 {"warp_scans", warp_scans},
                 {"rotate", rotate}};
  const std::string only = argc > 1 ? argv[1] : "";
  const int mistake = argc > 2 ? atoi(argv[2]) : none;
  const int n = 500;
  std::vector<float> x(n), y(2 * tile);
  for (int i = 0; i < n; ++i) x[i] = (i * 37 % 101 - 50) / 25.f;
  float *device_x, *device_y;
  CHECK(cudaMalloc(&device_x, n * sizeof(float)));
  CHECK(cudaMalloc(&device_y, y.size() * sizeof(float)));
  for (const auto& each : kernels) {
    if (!only.empty() && only != each.name) continue;
    CHECK(cudaMemcpy(device_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device_y, 0, y.size() * sizeof(float)));
    dim3 block = each.kernel == arg_max ? dim3(32, warps) : dim3(threads);
    if (each.kernel == mean_of_some) block = dim3(96);
    if (mistake == wrong_block) block.x *= 2;
    each.kernel<<<1, block>>>(device_x, device_y, n, mistake);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(y.data(), device_y, y.size() * sizeof(float), cudaMemcpyDeviceToHost));
    if (const int wrong = check(each.name, x, y)) printf("%s: %d wrong\n", each.name, wrong);
  }
  CHECK(cudaFree(device_x));
  CHECK(cudaFree(device_y));
  printf("done\n");
}
