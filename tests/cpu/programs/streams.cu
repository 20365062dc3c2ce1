// Work in several streams, in forms that are each right, or with the argument "wrong" lack what orders two operations.
// A comment with a form's name marks the calls that then conflict.
#include <cstdio>
#include <cstring>

#include "check.h"

constexpr int n = 256, part = n / 2;
constexpr size_t bytes = n * sizeof(int);

bool right = true;
int *x, *y, *pinned, *managed;
cudaStream_t first, second, third, free_running;
cudaEvent_t done, other;

__constant__ int factor;
__device__ int table[n];

__global__ void scale(int* v) {
  v[threadIdx.x] *= 2;  // scale
}
__global__ void sum(const int* v, int* w) {
  w[threadIdx.x] += v[threadIdx.x];  // sum
}
__global__ void count(int* v, bool atomic) {
  if (atomic)
    atomicAdd(v + threadIdx.x % 4, 1);
  else if (threadIdx.x < 4)
    v[threadIdx.x] += 1;  // count
}
__global__ void multiply(int* v) {
  v[threadIdx.x] = factor;  // multiply
}
__global__ void look_up(int* v) {
  v[threadIdx.x] = table[threadIdx.x];  // look_up
}

void order(cudaStream_t before, cudaStream_t after) {
  CHECK(cudaEventRecord(done, before));
  CHECK(cudaStreamWaitEvent(after, done));
}
// Each form begins here, at some distance to the calls of the last one.
void begin() {
  CHECK(cudaDeviceSynchronize());
}

void no_event() {
  begin();
  CHECK(cudaMemcpyAsync(x, pinned, bytes, cudaMemcpyHostToDevice, first));  // no_event
  if (right) order(first, second);
  scale<<<1, n, 0, second>>>(x);  // no_event
}
void early_event() {
  begin();
  if (!right) CHECK(cudaEventRecord(done, first));
  scale<<<1, n, 0, first>>>(x);  // early_event
  if (right) CHECK(cudaEventRecord(done, first));
  CHECK(cudaStreamWaitEvent(second, done));
  sum<<<1, n, 0, second>>>(x, y);  // early_event
}
void wrong_event() {
  begin();
  scale<<<1, n, 0, first>>>(x);  // wrong_event
  CHECK(cudaEventRecord(done, first));
  CHECK(cudaEventRecord(other, third));
  CHECK(cudaStreamWaitEvent(second, right ? done : other));
  CHECK(cudaMemsetAsync(x, 0, bytes, second));  // wrong_event
}
void unrecorded_event() {
  begin();
  cudaEvent_t fresh;
  CHECK(cudaEventCreateWithFlags(&fresh, cudaEventDisableTiming));
  scale<<<1, n, 0, first>>>(x);  // unrecorded_event
  if (right) CHECK(cudaEventRecord(fresh, first));
  CHECK(cudaStreamWaitEvent(second, fresh));
  if (!right) CHECK(cudaEventRecord(fresh, first));
  CHECK(cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice, second));  // unrecorded_event
  CHECK(cudaEventDestroy(fresh));
}
void early_read() {
  begin();
  CHECK(cudaMemcpyAsync(pinned, x, bytes, cudaMemcpyDeviceToHost, first));  // early_read
  if (right) CHECK(cudaStreamSynchronize(first));
  const int value = pinned[5];  // early_read
  if (value < 0) std::printf("%d\n", value);
}
// In the default stream, too, and by the host's functions.
void early_overwrite() {
  begin();
  CHECK(cudaMemcpyAsync(x, pinned, bytes, cudaMemcpyHostToDevice));  // early_overwrite
  CHECK(cudaEventRecord(done));
  if (right) CHECK(cudaEventSynchronize(done));
  pinned[n - 1] = 7;  // early_overwrite
}
void free_running_stream() {
  begin();
  CHECK(cudaMemset(x, 0, bytes));                       // free_running_stream
  scale<<<1, n, 0, right ? first : free_running>>>(x);  // free_running_stream
}
void default_stream_after() {
  begin();
  scale<<<1, n, 0, right ? first : free_running>>>(x);  // default_stream_after
  sum<<<1, n>>>(x, y);                                  // default_stream_after
}
void early_free() {
  begin();
  int* temporary;
  CHECK(cudaMallocAsync(&temporary, bytes, first));
  CHECK(cudaMemsetAsync(temporary, 0, bytes, first));
  order(first, second);
  scale<<<1, n, 0, second>>>(temporary);  // early_free
  if (right) order(second, first);
  CHECK(cudaFreeAsync(temporary, first));  // early_free
}
void early_use() {
  begin();
  int* temporary;
  CHECK(cudaMallocAsync(&temporary, bytes, first));  // early_use
  if (right) order(first, second);
  CHECK(cudaMemsetAsync(temporary, 0, bytes, second));  // early_use
  CHECK(cudaFreeAsync(temporary, second));
}
void free_without_wait() {
  begin();
  int* temporary;
  CHECK(cudaMallocAsync(&temporary, bytes, first));
  CHECK(cudaMemsetAsync(temporary, 0, bytes, first));
  scale<<<1, n, 0, first>>>(temporary);  // free_without_wait
  if (right) CHECK(cudaStreamSynchronize(first));
  CHECK(cudaFree(temporary));  // free_without_wait
}
// Two buffers in turn: a copy may overwrite one only when the kernel that used it has ended.
void two_buffers() {
  begin();
  int* const buffers[] = {x, y};
  cudaEvent_t used[2];
  for (cudaEvent_t& each : used) CHECK(cudaEventCreate(&each));
  for (int i = 0; i < 4; ++i) {
    if (right && i >= 2) CHECK(cudaStreamWaitEvent(first, used[i % 2]));
    CHECK(cudaMemcpyAsync(buffers[i % 2], pinned, bytes, cudaMemcpyHostToDevice, first));  // two_buffers
    order(first, second);
    scale<<<1, n, 0, second>>>(buffers[i % 2]);  // two_buffers
    CHECK(cudaEventRecord(used[i % 2], second));
  }
  for (cudaEvent_t each : used) CHECK(cudaEventDestroy(each));
}
// Each stream has a part of one array; parts that share one element conflict.
void parts() {
  begin();
  CHECK(cudaMemcpyAsync(x, pinned, part * sizeof(int), cudaMemcpyHostToDevice, first));
  CHECK(cudaMemcpyAsync(x + part, pinned + part, part * sizeof(int), cudaMemcpyHostToDevice, second));
  scale<<<1, part, 0, first>>>(x);                            // parts
  scale<<<1, part, 0, second>>>(x + part - (right ? 0 : 1));  // parts
  CHECK(cudaMemcpyAsync(pinned, x, 64, cudaMemcpyDeviceToHost, first));
}
void managed_memory() {
  begin();
  scale<<<1, part, 0, first>>>(managed);  // managed_memory
  managed[part] = 1;                      // the other half, in the same page
  if (right) CHECK(cudaStreamSynchronize(first));
  managed[3] += 1;  // managed_memory
}
void constant_memory() {
  begin();
  multiply<<<1, n, 0, first>>>(x);  // constant_memory
  if (right) order(first, second);
  CHECK(cudaMemcpyToSymbolAsync(factor, pinned, sizeof factor, 0, cudaMemcpyHostToDevice, second));  // constant_memory
}
void variable_of_device() {
  begin();
  CHECK(cudaMemcpyToSymbolAsync(table, pinned, sizeof table, 0, cudaMemcpyHostToDevice, first));  // variable_of_device
  if (right) order(first, second);
  look_up<<<1, n, 0, second>>>(x);  // variable_of_device
}
void atomics() {
  begin();
  count<<<1, n, 0, first>>>(x, true);
  count<<<1, n, 0, second>>>(x, true);
  begin();
  count<<<1, n, 0, first>>>(x, right);   // atomics
  count<<<1, n, 0, second>>>(x, right);  // atomics
}
void per_thread_stream() {
  begin();
  scale<<<1, n, 0, cudaStreamPerThread>>>(x);      // per_thread_stream
  if (right) CHECK(cudaMemsetAsync(y, 0, bytes));  // in the default stream, for which both wait
  sum<<<1, n, 0, first>>>(x, y);                   // per_thread_stream
}
void read_first(void* memory) {
  const int value = static_cast<volatile int*>(memory)[0];  // read_first
  if (value < 0) std::printf("%d\n", value);
}
// The host's atomics, and its volatile accesses, may meet the atomics of a kernel, and nothing else.
void host_atomics() {
  begin();
  count<<<1, n, 0, first>>>(managed, right);             // host_atomics
  __atomic_fetch_add(&managed[2], 5, __ATOMIC_RELAXED);  // host_atomics
  const volatile int* const seen = managed + 3;
  if (*seen < 0) std::printf("%d\n", *seen);
}
void host_function() {
  begin();
  CHECK(cudaMemcpyAsync(pinned, x, bytes, cudaMemcpyDeviceToHost, first));  // host_function
  CHECK(cudaLaunchHostFunc(right ? first : second, read_first, pinned));    // host_function
}
void nodes_of_graph() {
  begin();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  order(first, second);
  scale<<<1, n, 0, first>>>(x);  // nodes_of_graph
  if (right) order(first, second);
  sum<<<1, n, 0, second>>>(x, y);  // nodes_of_graph
  order(second, first);
  CHECK(cudaStreamEndCapture(first, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, third));
  CHECK(cudaGraphLaunch(exec, third));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}
void after_graph() {
  begin();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  scale<<<1, n, 0, first>>>(x);  // after_graph
  CHECK(cudaStreamEndCapture(first, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, second));
  if (right) CHECK(cudaStreamSynchronize(second));
  sum<<<1, n, 0, first>>>(x, y);  // after_graph
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// Right whatever the argument is.
void readers() {
  begin();
  sum<<<1, part, 0, first>>>(x, y);
  sum<<<1, part, 0, second>>>(x, y + part);
  CHECK(cudaMemcpyAsync(pinned, x, bytes, cudaMemcpyDeviceToHost, third));
  CHECK(cudaStreamSynchronize(third));
  read_first(pinned);
}
// The default stream waits for blocking streams, and they for it; a synchronous copy waits for the device.
void default_stream_between() {
  begin();
  scale<<<1, n, 0, first>>>(x);
  scale<<<1, n>>>(x);
  scale<<<1, n, 0, second>>>(x);
  int host[n];
  CHECK(cudaMemcpy(host, x, bytes, cudaMemcpyDeviceToHost));
  scale<<<1, n, 0, free_running>>>(x);
}
void queries() {
  begin();
  CHECK(cudaMemcpyAsync(pinned, x, bytes, cudaMemcpyDeviceToHost, first));
  CHECK(cudaEventRecord(done, first));
  while (cudaEventQuery(done) == cudaErrorNotReady) {
  }
  read_first(pinned);
  CHECK(cudaMemcpyAsync(pinned, x, bytes, cudaMemcpyDeviceToHost, second));
  while (cudaStreamQuery(second) == cudaErrorNotReady) {
  }
  pinned[0] = 1;
}
// Streams that come and go, and an event that joins all of them.
void many_streams() {
  begin();
  for (int i = 0; i < 8; ++i) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemsetAsync(x + i * 32, i, 32 * sizeof(int), stream));
    scale<<<1, 32, 0, stream>>>(x + i * 32);
    order(stream, first);
    CHECK(cudaStreamDestroy(stream));
  }
  sum<<<1, n, 0, first>>>(x, y);
}
// Unrelated allocations and frees, of which cudaMalloc and cudaFree order all streams.
void allocations_between() {
  begin();
  int* other_memory;
  scale<<<1, n, 0, first>>>(x);
  CHECK(cudaMalloc(&other_memory, bytes));
  scale<<<1, n, 0, second>>>(x);
  CHECK(cudaFree(other_memory));
  scale<<<1, n, 0, third>>>(x);
}

int main(int argc, char** argv) {
  right = argc < 2 || std::strcmp(argv[1], "wrong") != 0;
  CHECK(cudaMalloc(&x, bytes));
  CHECK(cudaMalloc(&y, bytes));
  CHECK(cudaMallocHost(&pinned, bytes));
  CHECK(cudaMallocManaged(&managed, bytes));
  std::memset(pinned, 0, bytes);
  std::memset(managed, 0, bytes);
  CHECK(cudaMemset(x, 0, bytes));
  CHECK(cudaMemset(y, 0, bytes));
  for (cudaStream_t* stream : {&first, &second, &third}) CHECK(cudaStreamCreate(stream));
  CHECK(cudaStreamCreateWithFlags(&free_running, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&done));
  CHECK(cudaEventCreate(&other));

  no_event(), early_event(), wrong_event(), unrecorded_event();
  early_read(), early_overwrite(), managed_memory(), host_atomics(), host_function();
  free_running_stream(), default_stream_after(), per_thread_stream();
  early_free(), early_use(), free_without_wait();
  two_buffers(), parts(), constant_memory(), variable_of_device(), atomics();
  nodes_of_graph(), after_graph();
  readers(), default_stream_between(), queries(), many_streams(), allocations_between();

  CHECK(cudaDeviceSynchronize());
  for (cudaStream_t stream : {first, second, third, free_running}) CHECK(cudaStreamDestroy(stream));
  CHECK(cudaEventDestroy(done));
  CHECK(cudaEventDestroy(other));
  CHECK(cudaFree(x));
  CHECK(cudaFree(y));
  CHECK(cudaFree(managed));
  CHECK(cudaFreeHost(pinned));
  std::printf("done\n");
  return 0;
}
