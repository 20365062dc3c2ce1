// CUDA's runtime API for ordinary programs compiled by g++: one device, whose memory libtrifold_cpu separates from the
// host's, and on which all work has ended when a call returns; what CUDA leaves unordered is reported (streams.h).
// (CUDA Runtime API, reference manual.)
#pragma once

#include <trifold/cpu/captures.h>
#include <trifold/cpu/configuration.h>
#include <trifold/cpu/runtime_types.h>
#include <trifold/cuda.cuh>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

namespace trifold::cpu {

// A variable of the program, whose address shows where the program is loaded.
inline const bool program_began = (begin_program(&program_began), true);

inline cudaError_t check(bool right) {
  return to_cuda(set_error(right ? Error::success : Error::invalid_value));
}

}  // namespace trifold::cpu

// ---------------------------------------------------------------------------------------------------- memory

template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if (const cudaError_t error = require_no_capture(line); error != cudaSuccess) return error;
  return to_cuda(allocate(reinterpret_cast<void**>(pointer), bytes, MemoryKind::device, line));
}
template <class T>
cudaError_t cudaMallocPitch(T** pointer, size_t* pitch, size_t width, size_t height, trifold::cpu::Line line = {}) {
  constexpr size_t alignment = 512;  // of the rows, as on current devices
  *pitch = (width + alignment - 1) / alignment * alignment;
  return cudaMalloc(pointer, *pitch * height, line);
}
template <class T>
cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned = cudaMemAttachGlobal, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  return to_cuda(allocate(reinterpret_cast<void**>(pointer), bytes, MemoryKind::managed, line));
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned = cudaHostAllocDefault, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  return to_cuda(allocate(reinterpret_cast<void**>(pointer), bytes, MemoryKind::pinned, line));
}
template <class T>
cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned flags, trifold::cpu::Line line = {}) {
  return cudaMallocHost(pointer, bytes, flags, line);
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned) {
  *device = static_cast<T*>(host);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* pointer, trifold::cpu::Line line = {}) {
  return trifold::cpu::to_cuda(trifold::cpu::release(pointer, trifold::cpu::MemoryKind::device, line));
}
inline cudaError_t cudaFreeHost(void* pointer, trifold::cpu::Line line = {}) {
  return trifold::cpu::to_cuda(trifold::cpu::release(pointer, trifold::cpu::MemoryKind::pinned, line));
}
inline cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  trifold::cpu::memory_info(*free_bytes, *total_bytes);
  return cudaSuccess;
}

namespace trifold::cpu {

// For all copies, in a stream or not.
inline cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, const Rectangle& shape, cudaMemcpyKind kind,
                             Line line) {
  if (const Error error = device_error(); error != Error::success) return to_cuda(error);
  return to_cuda(copy(to, to_pitch, from, shape, static_cast<Direction>(kind), line));
}
inline cudaError_t fill_rows(void* pointer, int value, const Rectangle& shape, Line line) {
  if (const Error error = device_error(); error != Error::success) return to_cuda(error);
  return to_cuda(fill(pointer, value, shape, line));
}
template <class T>
cudaError_t copy_variable(const T& symbol, size_t offset, void* other, size_t bytes, bool to_variable, Line line) {
  if (const Error error = device_error(); error != Error::success) return to_cuda(error);
  void* const variable = const_cast<void*>(static_cast<const volatile void*>(&symbol));
  return to_cuda(copy_symbol(variable, sizeof symbol, offset, other, bytes, to_variable, line));
}

}  // namespace trifold::cpu

inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                size_t height, cudaMemcpyKind kind, trifold::cpu::Line line = {}) {
  if (const cudaError_t error = trifold::cpu::require_no_capture(line); error != cudaSuccess) return error;
  return trifold::cpu::execute(cudaGraphNodeTypeMemcpy, line, [=] {
    return trifold::cpu::copy_rows(to, to_pitch, from, {from_pitch, width, height}, kind, line);
  });
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                     size_t height, cudaMemcpyKind kind, cudaStream_t stream = nullptr,
                                     trifold::cpu::Line line = {}) {
  return trifold::cpu::enqueue(stream, cudaGraphNodeTypeMemcpy, line, [=] {
    return trifold::cpu::copy_rows(to, to_pitch, from, {from_pitch, width, height}, kind, line);
  });
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                              trifold::cpu::Line line = {}) {
  return cudaMemcpy2D(to, bytes, from, bytes, bytes, 1, kind, line);
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream = nullptr, trifold::cpu::Line line = {}) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream, line);
}
inline cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t stream = nullptr, trifold::cpu::Line line = {}) {
  return trifold::cpu::enqueue(stream, cudaGraphNodeTypeMemset, line,
                               [=] { return trifold::cpu::fill_rows(pointer, value, {pitch, width, height}, line); });
}
inline cudaError_t cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height,
                                trifold::cpu::Line line = {}) {
  return trifold::cpu::execute(cudaGraphNodeTypeMemset, line,
                               [=] { return trifold::cpu::fill_rows(pointer, value, {pitch, width, height}, line); });
}
inline cudaError_t cudaMemset(void* pointer, int value, size_t bytes, trifold::cpu::Line line = {}) {
  return cudaMemset2D(pointer, bytes, value, bytes, 1, line);
}
inline cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream = nullptr,
                                   trifold::cpu::Line line = {}) {
  return cudaMemset2DAsync(pointer, bytes, value, bytes, 1, stream, line);
}

template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                    cudaMemcpyKind = cudaMemcpyHostToDevice, cudaStream_t stream = nullptr,
                                    trifold::cpu::Line line = {}) {
  return trifold::cpu::enqueue(stream, cudaGraphNodeTypeMemcpy, line, [=, &symbol] {
    return trifold::cpu::copy_variable(symbol, offset, const_cast<void*>(from), bytes, true, line);
  });
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind = cudaMemcpyDeviceToHost, cudaStream_t stream = nullptr,
                                      trifold::cpu::Line line = {}) {
  return trifold::cpu::enqueue(stream, cudaGraphNodeTypeMemcpy, line, [=, &symbol] {
    return trifold::cpu::copy_variable(symbol, offset, to, bytes, false, line);
  });
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice, trifold::cpu::Line line = {}) {
  if (const cudaError_t error = trifold::cpu::require_no_capture(line); error != cudaSuccess) return error;
  const cudaError_t error = cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, nullptr, line);
  trifold::cpu::wait_for_copy();
  return error;
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost, trifold::cpu::Line line = {}) {
  if (const cudaError_t error = trifold::cpu::require_no_capture(line); error != cudaSuccess) return error;
  const cudaError_t error = cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, nullptr, line);
  trifold::cpu::wait_for_copy();
  return error;
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
  *address = const_cast<void*>(static_cast<const volatile void*>(&symbol));
  trifold::cpu::note_symbol(*address, sizeof symbol);
  return cudaSuccess;
}
template <class T, class Symbol>
cudaError_t cudaGetSymbolAddress(T** address, const Symbol& symbol) {
  return cudaGetSymbolAddress(reinterpret_cast<void**>(address), symbol);
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T& symbol) {
  *bytes = sizeof symbol;
  return cudaSuccess;
}
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  auto kind = trifold::cpu::MemoryKind::device;
  const bool found = trifold::cpu::find_memory(pointer, kind);
  constexpr cudaMemoryType types[] = {cudaMemoryTypeDevice, cudaMemoryTypeManaged, cudaMemoryTypeHost};
  void* const address = const_cast<void*>(pointer);
  *attributes = {found ? types[static_cast<int>(kind)] : cudaMemoryTypeUnregistered, 0, found ? address : nullptr,
                 kind == trifold::cpu::MemoryKind::device && found ? nullptr : address};
  return cudaSuccess;
}
// The memory remains the program's own.
inline cudaError_t cudaHostRegister(void*, size_t, unsigned) {
  return cudaSuccess;
}
inline cudaError_t cudaHostUnregister(void*) {
  return cudaSuccess;
}

// ---------------------------------------------------------------------------------------------------- errors

inline cudaError_t cudaGetLastError() {
  return trifold::cpu::to_cuda(trifold::cpu::last_error(true));
}
inline cudaError_t cudaPeekAtLastError() {
  return trifold::cpu::to_cuda(trifold::cpu::last_error(false));
}
inline const char* cudaGetErrorName(cudaError_t error) {
  return trifold::cpu::text_of(error).name;
}
inline const char* cudaGetErrorString(cudaError_t error) {
  return trifold::cpu::text_of(error).says;
}

// ---------------------------------------------------------------------------------------------------- the device

inline cudaError_t cudaDeviceSynchronize(trifold::cpu::Line line = {}) {
  if (const cudaError_t error = trifold::cpu::require_no_capture(line); error != cudaSuccess) return error;
  return trifold::cpu::to_cuda(trifold::cpu::synchronise());
}
inline cudaError_t cudaDeviceReset() {
  trifold::cpu::reset_device();
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  using namespace trifold::cpu;
  return to_cuda(set_error(device == 0 ? Error::success : Error::invalid_device));
}
inline cudaError_t cudaSetDeviceFlags(unsigned) {
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  size_t free_bytes = 0;
  trifold::cpu::memory_info(free_bytes, properties->totalGlobalMem);
  const trifold::cpu::DeviceShape shape = trifold::cpu::device_shape();
  properties->major = shape.major;
  properties->minor = shape.minor;
  properties->multiProcessorCount = shape.multiprocessors;
  properties->maxThreadsPerMultiProcessor = shape.threads;
  properties->maxBlocksPerMultiProcessor = shape.blocks;
  properties->sharedMemPerBlockOptin = shape.block_shared_bytes;
  properties->sharedMemPerMultiprocessor = shape.shared_bytes;
  properties->clusterLaunch = shape.major >= 9 ? 1 : 0;
  return cudaSetDevice(device);
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(properties.sharedMemPerBlock); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(properties.sharedMemPerBlockOptin); break;
    case cudaDevAttrWarpSize: *value = properties.warpSize; break;
    case cudaDevAttrClockRate: *value = properties.clockRate; break;
    case cudaDevAttrIntegrated: *value = properties.integrated; break;
    case cudaDevAttrComputeMode: *value = properties.computeMode; break;
    case cudaDevAttrCooperativeLaunch: *value = properties.cooperativeLaunch; break;
    case cudaDevAttrClusterLaunch: *value = properties.clusterLaunch; break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrMaxBlockDimX: *value = properties.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = properties.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = properties.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = properties.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = properties.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = properties.maxGridSize[2]; break;
    case cudaDevAttrTotalConstantMemory: *value = static_cast<int>(properties.totalConstMem); break;
    case cudaDevAttrMaxRegistersPerBlock: *value = properties.regsPerBlock; break;
    case cudaDevAttrMemoryClockRate: *value = properties.memoryClockRate; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = properties.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = properties.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = properties.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrConcurrentKernels: *value = properties.concurrentKernels; break;
    case cudaDevAttrUnifiedAddressing: *value = properties.unifiedAddressing; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = properties.regsPerMultiprocessor; break;
    case cudaDevAttrManagedMemory: *value = properties.managedMemory; break;
    case cudaDevAttrConcurrentManagedAccess: *value = properties.concurrentManagedAccess; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = properties.maxBlocksPerMultiProcessor; break;
    case cudaDevAttrMaxPitch: *value = static_cast<int>(properties.memPitch); break;
    case cudaDevAttrTextureAlignment: *value = static_cast<int>(properties.textureAlignment); break;
    case cudaDevAttrGpuOverlap: *value = properties.deviceOverlap; break;
    case cudaDevAttrKernelExecTimeout: *value = properties.kernelExecTimeoutEnabled; break;
    case cudaDevAttrCanMapHostMemory: *value = properties.canMapHostMemory; break;
    case cudaDevAttrSurfaceAlignment: *value = static_cast<int>(properties.surfaceAlignment); break;
    case cudaDevAttrEccEnabled: *value = properties.ECCEnabled; break;
    case cudaDevAttrPciBusId: *value = properties.pciBusID; break;
    case cudaDevAttrPciDeviceId: *value = properties.pciDeviceID; break;
    case cudaDevAttrTccDriver: *value = properties.tccDriver; break;
    case cudaDevAttrAsyncEngineCount: *value = properties.asyncEngineCount; break;
    case cudaDevAttrPciDomainId: *value = properties.pciDomainID; break;
    case cudaDevAttrTexturePitchAlignment: *value = static_cast<int>(properties.texturePitchAlignment); break;
    case cudaDevAttrStreamPrioritiesSupported: *value = properties.streamPrioritiesSupported; break;
    case cudaDevAttrGlobalL1CacheSupported: *value = properties.globalL1CacheSupported; break;
    case cudaDevAttrLocalL1CacheSupported: *value = properties.localL1CacheSupported; break;
    case cudaDevAttrIsMultiGpuBoard: *value = properties.isMultiGpuBoard; break;
    case cudaDevAttrMultiGpuBoardGroupID: *value = properties.multiGpuBoardGroupID; break;
    case cudaDevAttrHostNativeAtomicSupported: *value = properties.hostNativeAtomicSupported; break;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: *value = 2; break;
    case cudaDevAttrPageableMemoryAccess: *value = properties.pageableMemoryAccess; break;
    case cudaDevAttrComputePreemptionSupported: *value = properties.computePreemptionSupported; break;
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
      *value = properties.pageableMemoryAccessUsesHostPageTables;
      break;
    case cudaDevAttrDirectManagedMemAccessFromHost: *value = properties.directManagedMemAccessFromHost; break;
    case cudaDevAttrMaxPersistingL2CacheSize: *value = properties.persistingL2CacheMaxSize; break;
    case cudaDevAttrMaxAccessPolicyWindowSize: *value = properties.accessPolicyMaxWindowSize; break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = static_cast<int>(properties.reservedSharedMemPerBlock);
      break;
    case cudaDevAttrSparseCudaArraySupported: *value = properties.sparseCudaArraySupported; break;
    case cudaDevAttrIpcEventSupport: *value = properties.ipcEventSupported; break;
    case cudaDevAttrMemoryPoolsSupported: *value = properties.memoryPoolsSupported; break;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    default: return trifold::cpu::check(false);
  }
  return cudaSetDevice(device);
}
// There is no other device.
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
inline cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetPCIBusId(char* name, int size, int device) {
  if (device == 0) std::snprintf(name, static_cast<size_t>(size), "0000:00:00.0");
  return cudaSetDevice(device);
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  using namespace trifold::cpu;
  return to_cuda(set_error(Error::invalid_device));
}
inline cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                       cudaStream_t stream = nullptr, trifold::cpu::Line line = {}) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream, line);
}
inline cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes, trifold::cpu::Line line = {}) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice, line);
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

#include <trifold/cpu/runtime_graphs.h>
#include <trifold/cpu/runtime_hints.h>
#include <trifold/cpu/runtime_launches.h>
#include <trifold/cpu/runtime_streams.h>
#include <trifold/cpu/runtime_textures.h>
#include <trifold/cpu/runtime_volumes.h>
