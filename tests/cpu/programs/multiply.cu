// Elementwise product with a grid-stride loop, timed by events.
#include <cuda_runtime.h>
#include <stdio.h>

#include <vector>

#include "check.h"

template <typename T>
__global__ void __launch_bounds__(256)
    multiply(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ out, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = a[i] * b[i];
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : n_(n) { CHECK(cudaMalloc(&data_, n * sizeof(T))); }
  ~DeviceArray() { cudaFree(data_); }
  T* data() { return data_; }
  void from(const std::vector<T>& host) {
    CHECK(cudaMemcpy(data_, host.data(), n_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> to_host() const {
    std::vector<T> host(n_);
    CHECK(cudaMemcpy(host.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t n_;
};

template <typename T>
void run(const char* name, size_t n) {
  std::vector<T> a(n), b(n);
  for (size_t i = 0; i < n; ++i) a[i] = T(i), b[i] = T(0.5);
  DeviceArray<T> da(n), db(n), dout(n);
  da.from(a);
  db.from(b);
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  CHECK(cudaEventRecord(start));
  multiply<T><<<4, 256>>>(da.data(), db.data(), dout.data(), n);
  CHECK(cudaEventRecord(stop));
  CHECK(cudaEventSynchronize(stop));
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
  const std::vector<T> out = dout.to_host();
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) wrong += out[i] != a[i] * b[i];
  printf("%s: %zu wrong, %s\n", name, wrong, milliseconds >= 0 ? "timed" : "not timed");
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(stop));
}

int main(int argc, char** argv) {
  int device = -1, count = 0;
  cudaDeviceProp prop;
  CHECK(cudaGetDeviceCount(&count));
  CHECK(cudaGetDevice(&device));
  CHECK(cudaGetDeviceProperties(&prop, device));
  if (count < 1 || prop.warpSize != 32 || prop.maxThreadsPerBlock < 256) return 1;
  const size_t n = argc > 1 ? atoi(argv[1]) : 3000;
  run<float>("float", n);
  run<double>("double", n);
}
