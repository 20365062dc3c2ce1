// A kernel that lets the next one begin early (programmatic dependent launches), and one that is launched so: y = 2 x
// by way of t. Each mistake is one line, by its name as the program's argument.
#include <cstdio>
#include <string>

#include "check.h"

constexpr int threads = 64, blocks = 4, n = threads * blocks;

enum class Way {
  right,
  one_waits,       // right: before a barrier of its block
  asm_text,        // right: as inline PTX
  synchronised,    // right: the host waits between the launches
  not_early,       // right: without the attribute
  no_wait,         // of nobody
  read_too_early,  // before the wait
  some_wait,       // one warp of two
  overwritten,     // what the first kernel reads, without a wait
};

__global__ void produce(const int* x, int* t) {
  const int i = blockIdx.x * threads + threadIdx.x;
  cudaTriggerProgrammaticLaunchCompletion();
  t[i] = x[i];  // produced
}

__global__ void consume(int* x, const int* t, int* y, Way way) {
  const int i = blockIdx.x * threads + threadIdx.x;
  int early = 0;
  if (way == Way::read_too_early) early = t[i];  // too early
  if (way == Way::overwritten) x[i] = 0;         // overwritten
  if (way == Way::one_waits) {
    if (threadIdx.x == 0) cudaGridDependencySynchronize();
    __syncthreads();
  } else if (way == Way::asm_text) {
    asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;" ::: "memory");
  } else if (way != Way::no_wait && (way != Way::some_wait || threadIdx.x < 32)) {
    cudaGridDependencySynchronize();
  }
  y[i] = t[i] + (way == Way::read_too_early ? early : t[i]);  // consumed
}

int main(int, char** arguments) {
  const Way way = static_cast<Way>(std::stoi(arguments[1]));
  int host[n];
  for (int i = 0; i < n; ++i) host[i] = i;
  int *x, *t, *y;
  CHECK(cudaMalloc(&x, sizeof host));
  CHECK(cudaMalloc(&t, sizeof host));
  CHECK(cudaMalloc(&y, sizeof host));
  CHECK(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));

  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = way == Way::not_early ? 0 : 1;

  produce<<<blocks, threads, 0, stream>>>(x, t);
  if (way == Way::synchronised) CHECK(cudaStreamSynchronize(stream));
  const bool waits = way != Way::synchronised && way != Way::not_early;
  CHECK(cudaLaunchKernelEx(&config, consume, x, static_cast<const int*>(t), y, waits ? way : Way::no_wait));
  CHECK(cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += host[i] != 2 * i;
  printf("%d wrong\n", wrong);
  for (int* const each : {x, t, y}) CHECK(cudaFree(each));
  CHECK(cudaStreamDestroy(stream));
}
