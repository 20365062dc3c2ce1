// Kernels with mistakes after which a launch can go on; the first argument says which.
#include <cstdio>
#include <cstring>

constexpr int N = 64;

__global__ void flagged(int* flag, float* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  *flag = i;  // trifold: allow race, any of them will do
  // trifold: allow misaligned, an older version had one
  x[i] = 2;
}

__global__ void unflagged(int* flag, float* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  *flag = i;
  x[i] = 2;
}

// 16 bytes of which the race of the first 4 is accepted, and that of the others is not.
__global__ void half_flagged(int* flag, float* x) {
  if (threadIdx.x == 0) x[0] = 1;  // trifold: allow race, only this element
  if (threadIdx.x == 0) x[1] = 1;
  if (threadIdx.x == 1) *reinterpret_cast<float4*>(x) = make_float4(2, 2, 2, 2);
}

// 39 threads write what was there, and 24 write something else.
__global__ void same_or_other(int* flag, float* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  *flag = i < 40 ? -1 : i;
  x[i] = 2;
}

// Plain reads beside atomics, for which no compare-and-swap follows, but another operation on the element, a barrier,
// or the thread's end.
__global__ void looks(int* flag, float* x) {
  const int i = threadIdx.x;
  if (i == 0) {
    atomicAdd(flag, 1);
    atomicAdd(&x[61], 1.0f);
  } else {
    x[i] = *flag;
    atomicCAS(flag, -1, -1);
    x[i] += x[61];
  }
  __syncthreads();
  if (i == 0) {
    atomicAdd(&x[62], 1.0f);
  } else {
    x[i] += x[62];
  }
}

__constant__ float factor[1];

// Nothing outside of an array changes, and each thread but 5 and 6 comes to its end.
__global__ void out_of_bounds(int* flag, float* x, int n) {
  __shared__ float rows[2][4];
  const int i = threadIdx.x;
  float own[4] = {1, 2, 3, 4};
  if (i < 8) rows[i / 4][i % 4] = 3;
  __syncthreads();
  if (i == 0) x[N + n] = 5;
  if (i == 1 && x[N + n] == x[N + n]) *flag = -1;  // poison is not a number
  if (i == 2) atomicAdd(&x[N + n], 1.0f);
  if (i == 3) rows[0][4 + n] = 7;  // the first element of the next row
  if (i == 4) factor[0] = 2;
  if (i == 5) own[4 + n] = 9;
  if (i == 6) *static_cast<float*>(nullptr) = 1;
  if (i == 7) memcpy(x, x + N - 1, 4 * (2 + n));
  if (i == 8) *reinterpret_cast<int*>(reinterpret_cast<char*>(x + 32) + 1 + n) = 0;  // misaligned, and done
  __syncthreads();
  x[i] = own[i % 4] + rows[1][0];
}

__global__ void two_barriers(int* flag, float* x) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  if (threadIdx.x < 8) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  atomicAdd(&count, 1);
  __syncthreads();
  x[threadIdx.x] = count;
}

__global__ void deadlock(int* flag, float* x) {
  while (atomicAdd(flag, 0) == 0) __nanosleep(1);
}

int main(int, char** arguments) {
  const auto named = [&](const char* name) { return strcmp(arguments[1], name) == 0; };
  int* flag;
  float* x;
  cudaMalloc(&flag, sizeof(int));
  cudaMalloc(&x, N * sizeof(float));
  cudaMemset(flag, 0, sizeof(int));
  cudaMemset(x, 0, N * sizeof(float));
  for (int launch = 0; launch < 2; ++launch) {
    if (named("flagged")) flagged<<<2, 32>>>(flag, x);
    if (named("unflagged")) unflagged<<<2, 32>>>(flag, x);
    if (named("half flagged")) half_flagged<<<1, 32>>>(flag, x);
    if (named("same or other")) same_or_other<<<2, 32>>>(flag, x);
    if (named("looks")) looks<<<1, 32>>>(flag, x);
    if (named("out of bounds")) out_of_bounds<<<1, N>>>(flag, x, 0);
    if (named("two barriers")) two_barriers<<<1, N>>>(flag, x);
    if (named("deadlock")) deadlock<<<1, 1>>>(flag, x);
  }
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  int seen;
  float values[N];
  cudaMemcpy(&seen, flag, sizeof seen, cudaMemcpyDeviceToHost);
  cudaMemcpy(values, x, sizeof values, cudaMemcpyDeviceToHost);
  printf("%d: %g %g %g %g\n", seen, values[0], values[4], values[5], values[63]);
  cudaFree(flag);
  cudaFree(x);
}
