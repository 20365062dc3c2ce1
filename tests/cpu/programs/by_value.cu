// Structs and vector types that are read as arguments by value. Each way reads what another thread writes, without a
// barrier.
#include "check.h"

struct Pair {
  int a, b;
};
struct Long {
  double values[8];
};
struct Sum {
  __device__ float operator()(float4 a, float4 b) const { return a.x + b.x; }
};
struct Holder {
  float4 value;
  __device__ Holder(float4 value) : value(value) {}
};

__device__ float first(float4 v) {
  return v.x;
}
__device__ int second(Pair v) {
  return v.b;
}
__device__ double last(Long v) {
  return v.values[7];
}
__device__ float4 operator+(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__global__ void read(int way, float4* vectors, Pair* pairs, Long* longs, float* out) {
  const int t = threadIdx.x, other = blockDim.x - 1 - t;
  vectors[t] = make_float4(t, t, t, t);
  pairs[t] = {t, t};
  for (double& value : longs[t].values) value = t;
  float x = 0;
  if (way == 0) x = first(vectors[other]);
  if (way == 1) x = second(pairs[other]);
  if (way == 2) x = last(longs[other]);
  if (way == 3) x = Sum()(vectors[other], vectors[t]);
  if (way == 4) x = Holder(vectors[other]).value.z;
  if (way == 5) x = (vectors[t] + vectors[other]).w;
  out[t] = x;
}

int main(int, char** argv) {
  float4* vectors;
  Pair* pairs;
  Long* longs;
  float* out;
  CHECK(cudaMalloc(&vectors, 32 * sizeof *vectors));
  CHECK(cudaMalloc(&pairs, 32 * sizeof *pairs));
  CHECK(cudaMalloc(&longs, 32 * sizeof *longs));
  CHECK(cudaMalloc(&out, 32 * sizeof *out));
  read<<<1, 32>>>(std::atoi(argv[1]), vectors, pairs, longs, out);
  for (void* each : {(void*)vectors, (void*)pairs, (void*)longs, (void*)out}) cudaFree(each);
}
