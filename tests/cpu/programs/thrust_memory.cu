// Thrust's vectors, pointers, iterators, policies, function objects and random numbers.
#include <thrust/copy.h>
#include <thrust/device_free.h>
#include <thrust/device_malloc.h>
#include <thrust/execution_policy.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/generate.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/reverse_iterator.h>
#include <thrust/iterator/tabulate_output_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/transform_output_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/pair.h>
#include <thrust/random.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/system_error.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/tuple.h>
#include <thrust/universal_vector.h>
#include <thrust/zip_function.h>

#include <iostream>
#include <iterator>
#include <list>

#include "thrust_check.h"

using Ints = thrust::device_vector<int>;

struct Point {
  float x, y;
};
struct Square {
  template <class T>
  __host__ __device__ T operator()(const T& x) const {
    return x * x;
  }
};
struct Fused {
  template <class Tuple>
  __host__ __device__ void operator()(Tuple t) {
    thrust::get<2>(t) = thrust::get<0>(t) + 10 * thrust::get<1>(t);
  }
};
struct Longer {
  __host__ __device__ bool operator()(const thrust::tuple<int, float>& a, const thrust::tuple<int, float>& b) const {
    return thrust::get<1>(a) > thrust::get<1>(b);
  }
};

void vectors() {
  thrust::host_vector<int> h(4, 1);
  h[2] = 5;
  Ints d = h, copy(d), part(d.begin() + 2, d.end()), empty;
  d[0] = 9;
  d[1] += 2;
  ++d[3];
  d[2] = d[0];
  EXPECT(d, {9, 3, 9, 2});
  EXPECT(copy, {1, 1, 5, 1});
  EXPECT(part, {5, 1});
  EXPECT(empty.empty() && empty.size() == 0);
  EXPECT(d != copy && copy == h);
  EXPECT(d[0] == 9 && d.front() == d[2] && d.back() == 2 && d.data() == d.begin().base());
  h = d;
  EXPECT(h, {9, 3, 9, 2});
  thrust::device_vector<float> f = h;
  EXPECT(f, {9.f, 3.f, 9.f, 2.f});
  d.push_back(7);
  d.insert(d.begin() + 1, 2, 0);
  d.erase(d.begin());
  EXPECT(d, {0, 0, 3, 9, 2, 7});
  d.resize(2);
  d.resize(4, 6);
  d.swap(part);
  EXPECT(d.size() == 2 && part.capacity() >= 4);
  part.assign(2, 3);
  EXPECT(part, {3, 3});
  std::vector<int> from(part.size());
  thrust::copy(part.begin(), part.end(), from.begin());
  std::list<int> list{4, 5};
  d.assign(list.begin(), list.end());
  EXPECT(d, {4, 5});
  d.clear();
  d.shrink_to_fit();
  thrust::device_vector<Point> points(2, Point{1, 2});
  const Point last = points.back();
  EXPECT(last.y == 2);
  thrust::device_vector<bool> flags(3, true);
  EXPECT(thrust::reduce(flags.begin(), flags.end(), 0) == 3);
  thrust::universal_vector<int> shared(3, 2);
  shared[1] = 4;
  thrust::transform(shared.begin(), shared.end(), shared.begin(), Square());
  EXPECT(shared[0] == 4 && shared[1] == 16);
  std::cout << part[0] << ": ";
  thrust::copy(part.begin(), part.end(), std::ostream_iterator<int>(std::cout, " "));
  std::cout << std::endl;
}

__global__ void doubled(thrust::device_ptr<int> x, int* y) {
  y[threadIdx.x] = 2 * x[threadIdx.x];
  *(x + threadIdx.x) = thrust::reduce(thrust::seq, y + threadIdx.x, y + threadIdx.x + 1, 1);
}

void pointers_and_policies() {
  thrust::device_ptr<int> p = thrust::device_malloc<int>(4);
  thrust::fill(p, p + 4, 3);
  int *raw, on_host[4];
  cudaMalloc(&raw, 4 * sizeof(int));
  doubled<<<1, 4>>>(p, raw);
  EXPECT(thrust::reduce(p, p + 4) == 28);
  EXPECT(thrust::reduce(thrust::device, raw, raw + 4) == 24);
  thrust::device_ptr<int> q = thrust::device_pointer_cast(raw);
  thrust::sequence(q, q + 4);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  thrust::inclusive_scan(thrust::cuda::par.on(stream), raw, raw + 4, raw);
  thrust::transform(thrust::cuda::par_nosync.on(stream), q, q + 4, q, thrust::negate<int>());
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  thrust::copy(q, q + 4, on_host);
  EXPECT(on_host[3] == -6 && q[2] == -3);
  thrust::sort(thrust::host, on_host, on_host + 4);
  thrust::transform(on_host, on_host + 4, on_host, Square());
  EXPECT(on_host[0] == 36 && on_host[3] == 0);
  thrust::copy(on_host, on_host + 4, p);
  EXPECT(*p == 36 && thrust::raw_pointer_cast(p) == p.get());
  thrust::device_free(p);
  cudaFree(raw);
  thrust::host_vector<int> h(3);
  int next = 0;
  thrust::generate(h.begin(), h.end(), [&] { return next++; });
  EXPECT(h, {0, 1, 2});
  try {
    throw thrust::system_error(cudaErrorInvalidValue, thrust::cuda_category(), "wrong");
  } catch (const thrust::system_error& error) {
    EXPECT(error.code().value() == cudaErrorInvalidValue);
  }
}

void iterators() {
  Ints x{3, 1, 2}, y(3), order{2, 0, 1};
  thrust::device_vector<float> f{.5f, 2.5f, 1.5f};
  auto squares = thrust::make_transform_iterator(x.begin(), Square());
  EXPECT(thrust::reduce(squares, squares + 3) == 14);
  EXPECT(thrust::reduce(thrust::make_constant_iterator(2), thrust::make_constant_iterator(2) + 5) == 10);
  thrust::counting_iterator<int> first(1);
  EXPECT(thrust::transform_reduce(first, first + 4, Square(), 0, thrust::plus<int>()) == 30);
  auto permuted = thrust::make_permutation_iterator(x.begin(), order.begin());
  thrust::copy(permuted, permuted + 3, y.begin());
  EXPECT(y, {2, 3, 1});
  auto zipped = thrust::make_zip_iterator(thrust::make_tuple(x.begin(), order.begin(), y.begin()));
  thrust::for_each(zipped, zipped + 3, Fused());
  EXPECT(y, {23, 1, 12});
  auto pairs = thrust::make_zip_iterator(x.begin(), f.begin());
  thrust::sort(pairs, pairs + 3, Longer());
  EXPECT(x, {1, 2, 3});
  EXPECT(f, {2.5f, 1.5f, .5f});
  thrust::transform(pairs, pairs + 3, f.begin(),
                    thrust::make_zip_function([] __host__ __device__(int a, float b) { return a * b; }));
  EXPECT(f, {2.5f, 3.f, 1.5f});
  const thrust::tuple<int, float> one = pairs[1];
  EXPECT(thrust::get<0>(one) == 2 && thrust::get<1>(one) == 3);
  auto reversed = thrust::make_reverse_iterator(x.end());
  thrust::copy(reversed, reversed + 3, y.begin());
  EXPECT(y, {3, 2, 1});
  thrust::copy(x.rbegin(), x.rend(), y.begin());
  auto ends = thrust::reduce_by_key(x.begin(), x.end(), thrust::make_constant_iterator(1),
                                    thrust::make_discard_iterator(), y.begin());
  EXPECT(ends.second == y.end());
  thrust::copy(x.begin(), x.end(), thrust::make_transform_output_iterator(y.begin(), Square()));
  EXPECT(y, {1, 4, 9});
  int* raw = thrust::raw_pointer_cast(y.data());
  thrust::copy(x.begin(), x.end(),
               thrust::make_tabulate_output_iterator([raw] __device__(int i, int value) { raw[i] = value - i; }));
  EXPECT(y, {1, 1, 1});
  using namespace thrust::placeholders;
  thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), 2 * _1 + _2);
  EXPECT(y, {3, 5, 7});
  thrust::pair<int, float> both = thrust::make_pair(1, 2.f);
  int a;
  float b;
  thrust::tie(a, b) = thrust::make_tuple(both.first, both.second);
  EXPECT(a == 1 && b == 2);
}

struct Draw {
  __host__ __device__ float operator()(unsigned n) const {
    thrust::default_random_engine engine;
    thrust::uniform_real_distribution<float> uniform(1.f, 2.f);
    engine.discard(n);
    return uniform(engine);
  }
};

void random_numbers() {
  thrust::minstd_rand minstd;
  thrust::minstd_rand0 minstd0;
  thrust::taus88 taus;
  minstd.discard(9999);
  minstd0.discard(9999);
  taus.discard(9999);
  // The numbers of the engines' documentation.
  EXPECT(minstd() == 399268537u && minstd0() == 1043618065u && taus() == 3535848941u);
  thrust::default_random_engine engine(7);
  thrust::uniform_int_distribution<int> dice(1, 6);
  thrust::random::normal_distribution<double> normal(3, 2);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) sum += normal(engine) + 0 * dice(engine);
  EXPECT(sum > 2800 && sum < 3200);
  thrust::device_vector<float> numbers(4);
  thrust::transform(thrust::counting_iterator<unsigned>(0), thrust::counting_iterator<unsigned>(4), numbers.begin(),
                    Draw());
  thrust::default_random_engine again;
  thrust::uniform_real_distribution<float> uniform(1.f, 2.f);
  EXPECT(numbers, {uniform(again), uniform(again), uniform(again), uniform(again)});
}

int main() {
  vectors();
  pointers_and_policies();
  iterators();
  random_numbers();
  std::printf("%d failures\n", failures);
  return failures;
}
