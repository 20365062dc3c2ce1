// Functions of the runtime API beside the most common ones: each answer that is not CUDA's is printed.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <vector>

#define EXPECT(condition) \
  if (!(condition)) std::printf("line %d: %s\n", __LINE__, #condition)

__constant__ float table[4];

__global__ void fill(int* x, int value, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}

__global__ void rows(const char* in, size_t pitch, float* out) {
  out[threadIdx.y * blockDim.x + threadIdx.x] =
      table[threadIdx.x] * reinterpret_cast<const float*>(in + threadIdx.y * pitch)[threadIdx.x];
}

void memory() {
  int *x, *y, *pinned;
  EXPECT(cudaHostAlloc(&pinned, 64, cudaHostAllocMapped) == cudaSuccess);
  EXPECT(cudaMalloc(&x, 64) == cudaSuccess);
  EXPECT(cudaMallocAsync(&y, 64, 0) == cudaSuccess);
  int value = 5, n = 16;
  void* arguments[] = {&x, &value, &n};
  EXPECT(cudaLaunchKernel(fill, dim3(2), dim3(8), arguments, 0, nullptr) == cudaSuccess);
  EXPECT(cudaMemcpy(y, x, 64, cudaMemcpyDeviceToDevice) == cudaSuccess);
  EXPECT(cudaMemcpy(pinned, y, 64, cudaMemcpyDefault) == cudaSuccess);
  EXPECT(pinned[0] == 5 && pinned[15] == 5);
  fill<<<1, 16>>>(pinned, 6, 16);  // a GPU reaches pinned memory
  EXPECT(cudaDeviceSynchronize() == cudaSuccess && pinned[15] == 6);
  cudaPointerAttributes attributes;
  EXPECT(cudaPointerGetAttributes(&attributes, x) == cudaSuccess && attributes.type == cudaMemoryTypeDevice);
  EXPECT(cudaPointerGetAttributes(&attributes, &n) == cudaSuccess && attributes.type == cudaMemoryTypeUnregistered);
  size_t free_bytes = 0, total = 0;
  EXPECT(cudaMemGetInfo(&free_bytes, &total) == cudaSuccess && free_bytes > 0 && free_bytes < total);
  int* huge = nullptr;
  EXPECT(cudaMalloc(&huge, size_t{1} << 60) == cudaErrorMemoryAllocation && huge == nullptr);
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
  EXPECT(cudaFree(nullptr) == cudaSuccess);
  EXPECT(cudaFree(x) == cudaSuccess && cudaFreeAsync(y, 0) == cudaSuccess && cudaFreeHost(pinned) == cudaSuccess);
}

void rectangles() {
  const int width = 4, height = 3;
  const float factors[width] = {1, 10, 100, 1000};
  EXPECT(cudaMemcpyToSymbol(table, factors, sizeof factors) == cudaSuccess);
  EXPECT(cudaMemcpyToSymbolAsync(table, factors + 1, 4, 4, cudaMemcpyHostToDevice, 0) == cudaSuccess);
  std::vector<float> host(width * height, 2), back(width * height);
  char* pitched;
  float* out;
  size_t pitch = 0;
  EXPECT(cudaMallocPitch(&pitched, &pitch, width * sizeof(float), height) == cudaSuccess && pitch >= 16);
  EXPECT(cudaMalloc(&out, width * height * sizeof(float)) == cudaSuccess);
  EXPECT(cudaMemcpy2D(pitched, pitch, host.data(), 16, 16, height, cudaMemcpyHostToDevice) == cudaSuccess);
  EXPECT(cudaMemset2D(pitched, pitch, 0, 16, 1) == cudaSuccess);
  rows<<<1, dim3(width, height)>>>(pitched, pitch, out);
  EXPECT(cudaMemcpy(back.data(), out, width * height * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
  EXPECT(back[0] == 0 && back[4] == 2 && back[11] == 2000);
  cudaFree(pitched);
  cudaFree(out);
}

void device() {
  cudaDeviceProp properties;
  int value = 0, blocks = 0, grid = 0, block = 0;
  EXPECT(cudaGetDeviceProperties(&properties, 0) == cudaSuccess && properties.major == 9);
  EXPECT(cudaSetDevice(1) == cudaErrorInvalidDevice && cudaGetLastError() == cudaErrorInvalidDevice);
  EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess && value == 132);
  EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolsSupported, 0) == cudaSuccess && value == 1);
  EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccess, 0) == cudaSuccess && value == 0);
  EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrGpuOverlap, 0) == cudaSuccess && value == 1);
  EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrMaxPitch, 0) == cudaSuccess && value == properties.memPitch);
  EXPECT(properties.memoryPoolsSupported && properties.streamPrioritiesSupported && !properties.pageableMemoryAccess);
  EXPECT(properties.concurrentKernels && properties.asyncEngineCount > 0 && properties.uuid.bytes[0] != 0);
  EXPECT(properties.persistingL2CacheMaxSize == 0 && properties.maxTexture2D[1] == 65536);
  EXPECT(cudaSetDeviceFlags(cudaDeviceBlockingSync | cudaDeviceMapHost | cudaDeviceLmemResizeToMax) == cudaSuccess);
  EXPECT(cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000) == cudaSuccess);
  EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 256, 0) == cudaSuccess && blocks == 8);
  EXPECT(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill) == cudaSuccess && block == 1024 && grid == 264);
  EXPECT(std::strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
  EXPECT(std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
  EXPECT(std::strcmp(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code") == 0);
  cudaStream_t stream;
  cudaEvent_t event;
  EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  EXPECT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  EXPECT(cudaEventRecord(event, stream) == cudaSuccess && cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
  EXPECT(cudaStreamQuery(stream) == cudaSuccess && cudaEventQuery(event) == cudaSuccess);
  int called = 0;
  const auto callback = [](cudaStream_t, cudaError_t status, void* data) { *static_cast<int*>(data) = 1 + status; };
  EXPECT(cudaStreamAddCallback(stream, callback, &called, 0) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess && called == 1);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

// Calls that change no result, in the forms of CUDA 12 and 13; and attributes of kernels.
void hints() {
  int* x;
  int least = 0, greatest = 0, blocks = 0, value = 0;
  cudaStream_t stream;
  cudaFuncAttributes attributes;
  const cudaMemLocation device{cudaMemLocationTypeDevice, 0};
  EXPECT(cudaMallocManaged(&x, 64) == cudaSuccess);
  EXPECT(cudaMemAdvise(x, 64, cudaMemAdviseSetPreferredLocation, 0) == cudaSuccess);
  EXPECT(cudaMemAdvise(x, 64, cudaMemAdviseSetReadMostly, device) == cudaSuccess);
  EXPECT(cudaMemPrefetchAsync(x, 64, 0) == cudaSuccess && cudaMemPrefetchAsync(x, 64, device, 0) == cudaSuccess);
  EXPECT(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20) == cudaSuccess);
  EXPECT(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  EXPECT(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest) == cudaSuccess);
  EXPECT(cudaStreamAttachMemAsync(stream, x) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
  EXPECT(cudaFuncGetAttributes(&attributes, fill) == cudaSuccess && attributes.maxThreadsPerBlock == 1024);
  EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, fill, 256, 0, cudaOccupancyDefault) ==
         cudaSuccess);
  EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerMultiProcessor, 0) == cudaSuccess && value == 2048);
  EXPECT(cudaHostRegister(&value, sizeof value, cudaHostRegisterDefault) == cudaSuccess);
  EXPECT(cudaHostUnregister(&value) == cudaSuccess && cudaFree(x) == cudaSuccess);
}

int main(int argc, char**) {
  if (argc > 1) {
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    std::printf("%d.%d, %zu bytes\n", properties.major, properties.minor, properties.sharedMemPerBlockOptin);
    return 0;
  }
  memory();
  rectangles();
  device();
  hints();
}
