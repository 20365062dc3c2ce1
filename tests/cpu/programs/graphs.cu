// CUDA graphs: captured from two streams, made node by node, copied, changed; and the mistakes of captures.
#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "check.h"

__global__ void scale(float* x, float factor) {
  x[threadIdx.x] *= factor;
}
__global__ void add(const float* x, const float* y, float* sum) {
  sum[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x];
}
template <class T>
__global__ void count(T* total, const T* x, int n) {
  *total = 0;
  for (int i = 0; i < n; ++i) *total += x[i];
}

const int n = 64;
const size_t bytes = n * sizeof(float);
float *x, *y, *sum;
cudaStream_t first, second;
cudaEvent_t fork_, join;

// sum = 2 x + 3 y, of which y's part runs in the second stream.
cudaError_t record(float* out, bool joins) {
  CHECK(cudaEventRecord(fork_, first));
  CHECK(cudaStreamWaitEvent(second, fork_));
  scale<<<1, n, 0, first>>>(x, 2.0f);
  scale<<<1, n, 0, second>>>(y, 3.0f);
  CHECK(cudaEventRecord(join, second));
  if (joins) CHECK(cudaStreamWaitEvent(first, join, 0));
  add<<<1, n, 0, first>>>(x, y, sum);
  return cudaMemcpyAsync(out, sum, bytes, cudaMemcpyDeviceToHost, first);
}

void captured() {
  std::vector<float> out(n);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamCaptureStatus capturing;
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  CHECK(record(out.data(), true));
  CHECK(cudaStreamIsCapturing(second, &capturing));
  CHECK(cudaStreamEndCapture(first, &graph));
  size_t nodes = 0, roots = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  printf("captured %d, %zu nodes, %zu roots, %g", capturing == cudaStreamCaptureStatusActive, nodes, roots, out[0]);
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(exec, first));
  CHECK(cudaStreamSynchronize(first));
  printf(", then %g\n", out[0]);
  CHECK(cudaGraphExecDestroy(exec));
}

void CUDART_CB add_one(void* calls) {
  ++*static_cast<int*>(calls);
}

void made() {
  std::vector<float> in(n, 0.5f);
  float result = 0;
  int calls = 0;
  cudaGraph_t graph, clone;
  cudaGraphNode_t copy, set, kernel, back, call, found;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemcpy3DParms copied = {0};
  copied.srcPtr = make_cudaPitchedPtr(in.data(), bytes, n, 1);
  copied.dstPtr = make_cudaPitchedPtr(x, bytes, n, 1);
  copied.extent = make_cudaExtent(bytes, 1, 1);
  copied.kind = cudaMemcpyHostToDevice;
  CHECK(cudaGraphAddMemcpyNode(&copy, graph, NULL, 0, &copied));
  cudaMemsetParams filled = {0};
  filled.dst = sum, filled.elementSize = 4, filled.width = n, filled.height = 1, filled.value = 0x3f800000;
  CHECK(cudaGraphAddMemsetNode(&set, graph, NULL, 0, &filled));
  int number = n;
  void* arguments[] = {&sum, &x, &number};
  cudaKernelNodeParams params = {(void*)count<float>, dim3(1), dim3(1), 0, arguments, NULL};
  // Made before those that it comes after.
  CHECK(cudaGraphAddKernelNode(&kernel, graph, NULL, 0, &params));
  const cudaGraphNode_t from[] = {copy, set}, to[] = {kernel, kernel};
  CHECK(cudaGraphAddDependencies(graph, from, to, NULL, 2));
  CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &kernel, 1, &result, sum, sizeof result, cudaMemcpyDeviceToHost));
  cudaHostNodeParams called = {add_one, &calls};
  CHECK(cudaGraphAddHostNode(&call, graph, &back, 1, &called));
  CHECK(cudaGraphClone(&clone, graph));
  CHECK(cudaGraphNodeFindInClone(&found, kernel, clone));
  cudaGraphExec_t exec, cloned;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  number = 10;
  params.func = (void*)count<float>;
  CHECK(cudaGraphKernelNodeSetParams(found, &params));
  CHECK(cudaGraphInstantiate(&cloned, clone, 0));
  CHECK(cudaGraphLaunch(exec, first));
  CHECK(cudaStreamSynchronize(first));
  printf("made %g", result);
  CHECK(cudaGraphLaunch(cloned, first));
  CHECK(cudaStreamSynchronize(first));
  printf(" %g", result);
  number = 20;
  CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel, &params));
  CHECK(cudaGraphLaunch(exec, first));
  CHECK(cudaDeviceSynchronize());
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(exec, clone, &info));
  printf(" %g, %d calls\n", result, calls);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphExecDestroy(cloned));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(clone));
}

void mistaken(const char* what) {
  float out[n];
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  CHECK(record(out, strcmp(what, "unjoined") != 0));
  if (strcmp(what, "waits") == 0) cudaDeviceSynchronize();
  if (strcmp(what, "default stream") == 0) scale<<<1, n>>>(x, 2.0f);
  if (strcmp(what, "event") == 0) cudaEventSynchronize(join);
  printf("%s\n", cudaGetErrorName(cudaStreamEndCapture(first, &graph)));
}

int main(int argc, char** argv) {
  for (float** each : {&x, &y, &sum}) CHECK(cudaMalloc(each, bytes));
  CHECK(cudaStreamCreate(&first));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
  CHECK(cudaEventCreate(&join));
  const std::vector<float> ones(n, 1.0f);
  for (float* each : {x, y}) CHECK(cudaMemcpy(each, ones.data(), bytes, cudaMemcpyHostToDevice));
  if (argc > 1) {
    mistaken(argv[1]);
  } else {
    captured();
    made();
  }
  for (float* each : {x, y, sum}) CHECK(cudaFree(each));
  for (cudaEvent_t each : {fork_, join}) CHECK(cudaEventDestroy(each));
  for (cudaStream_t each : {first, second}) CHECK(cudaStreamDestroy(each));
}
