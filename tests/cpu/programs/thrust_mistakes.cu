// Mistakes with Thrust's vectors and algorithms; the argument selects one, and none is right.
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scatter.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <cstdio>
#include <cstring>

constexpr int n = 100;

__global__ void twice(float* x, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] *= 2;  // in a kernel
}

struct Neighbours {
  const float* x;
  int last;

  __device__ float operator()(int i) const {
    return x[i] + x[min(i + 1, last)];  // in a functor
  }
};

int main(int argc, char** argv) {
  const char* const mistake = argc > 1 ? argv[1] : "none";
  const auto is = [=](const char* name) { return std::strcmp(mistake, name) == 0; };

  thrust::device_vector<float> values(n, 1.f);
  thrust::device_vector<float> sums(n);
  float* const x = thrust::raw_pointer_cast(values.data());
  twice<<<1, 128>>>(x, is("kernel") ? n + 1 : n);

  const thrust::counting_iterator<int> first(0);
  thrust::transform(first, first + n, sums.begin(), Neighbours{x, is("functor") ? n : n - 1});

  float* memory;
  cudaMalloc(&memory, n * sizeof(float));
  if (!is("uninitialised")) cudaMemset(memory, 0, n * sizeof(float));
  const thrust::device_ptr<float> p(memory);
  float total = thrust::reduce(p, p + n);  // of cudaMalloc
  cudaFree(memory);

  total += thrust::reduce(sums.begin(), sums.begin() + (is("range") ? n + 1 : n));  // a range

  float* old;
  {
    thrust::device_vector<float> temporary(n, 1.f);
    old = thrust::raw_pointer_cast(temporary.data());
    if (!is("lifetime")) old = x;
  }
  twice<<<1, 128>>>(old, n);

  const thrust::device_vector<int> places(2, 5);
  const thrust::counting_iterator<int> from = first + 3;
  if (is("scatter")) thrust::scatter(from, from + 2, places.begin(), sums.begin());  // to one place

  thrust::device_vector<int> count(1);
  int* const found = thrust::raw_pointer_cast(count.data());
  if (is("race")) {
    thrust::for_each(first, first + n, [=] __device__(int i) {
      *found += i;  // by all
    });
  }

  thrust::host_vector<float> on_host(n, 2.f);
  if (is("host")) thrust::sort(thrust::device, on_host.begin(), on_host.end());  // of the host
  if (is("policy")) thrust::sort(x, x + n);                                      // on the host
  cudaDeviceSynchronize();
  std::printf("%g %d\n", total, int(count[0]));
}
