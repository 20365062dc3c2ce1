// Arguments of launches are converted to the kernel's parameters once, by the host.
#include <cstdio>
#include <vector>

#include "check.h"

// An array that is copied to the device when it is first used there; it cannot be copied.
class Lazy {
 public:
  explicit Lazy(int n) : host_(n, 1) {}
  Lazy(const Lazy&) = delete;
  ~Lazy() { CHECK(cudaFree(device_)); }

  operator int*() const {
    ++conversions;
    const size_t bytes = host_.size() * sizeof(int);
    if (device_ == nullptr) {
      CHECK(cudaMalloc(&device_, bytes));
      CHECK(cudaMemcpy(device_, host_.data(), bytes, cudaMemcpyHostToDevice));
    }
    return device_;
  }

  mutable int conversions = 0;

 private:
  std::vector<int> host_;
  mutable int* device_ = nullptr;
};

int views = 0;
struct View {
  int* data;
  int number;
  View(int* data) : data(data), number(++views) {}
};
struct Point {
  int x, y;
};

__global__ void increment(int* x) {
  ++x[threadIdx.x];
}
template <class T, int n>
__global__ void add(T* x, const T by) {
  x[threadIdx.x] += n * by;
}
__global__ void write_number(View view) {
  view.data[threadIdx.x] = view.number;
}
__global__ void sum(volatile int* to, Point point, const float* bias, unsigned char small) {
  to[threadIdx.x] = point.x + point.y + (bias == nullptr ? 100 : 0) + small;
}

int first_of(const int* device) {
  int value = -1;
  CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

int main() {
  Lazy array(32);
  increment<<<1, 32>>>(array);
  add<int, 3><<<1, 32>>>(array, 2.9);
  int* const device = array;
  printf("%d conversions: %d\n", array.conversions, first_of(device));

  write_number<<<1, 32>>>(device);
  printf("%d view: %d\n", views, first_of(device));

  sum<<<1, 32>>>(device, {3, 4}, 0, 2.5);
  printf("%d\n", first_of(device));
#define LAUNCH(by) add<int, by><<<1, 32>>>(device, 1)
  LAUNCH(2);
  volatile int* const same = device;
  Point point = {1, 1};
  const float* bias = nullptr;
  unsigned char small = 7;
  void* arguments[] = {(void*)&same, &point, &bias, &small};
  CHECK(cudaLaunchKernel((void*)sum, 1, 32, arguments));
  printf("%d\n", first_of(device));
  CHECK(cudaDeviceSynchronize());
}
