// CUDA's runtime API: three-dimensional memory, also of arrays, and pools. Part of runtime_api.h.
#pragma once

#include <trifold/cpu/runtime_api.h>
#include <trifold/cpu/textures.h>

struct cudaPitchedPtr {
  void* ptr;
  size_t pitch, xsize, ysize;
};
struct cudaExtent {
  size_t width, height, depth;  // bytes, rows, slices
};
struct cudaPos {
  size_t x, y, z;
};
constexpr unsigned cudaArrayDefault = 0, cudaArrayLayered = 1, cudaArraySurfaceLoadStore = 2, cudaArrayCubemap = 4;
struct cudaArray {
  cudaChannelFormatDesc channels;
  cudaExtent extent;  // texels, rows, slices or layers
  unsigned flags;
  char* memory;
  size_t pitch;
};
using cudaArray_t = cudaArray*;
using cudaArray_const_t = const cudaArray*;
struct cudaMemcpy3DParms {
  cudaArray_t srcArray;
  cudaPos srcPos;
  cudaPitchedPtr srcPtr;
  cudaArray_t dstArray;
  cudaPos dstPos;
  cudaPitchedPtr dstPtr;
  cudaExtent extent;
  cudaMemcpyKind kind;
};
inline cudaPitchedPtr make_cudaPitchedPtr(void* pointer, size_t pitch, size_t width, size_t height) {
  return {pointer, pitch, width, height};
}
inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) {
  return {width, height, depth};
}
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) {
  return {x, y, z};
}

namespace trifold::cpu {

inline char* at(const cudaPitchedPtr& memory, const cudaPos& position) {
  const size_t row = position.z * memory.ysize + position.y;
  return static_cast<char*>(memory.ptr) + row * memory.pitch + position.x;
}
// A box of bytes, rows and slices in an array's memory.
inline cudaError_t require_inside(const cudaArray& array, const cudaPos& from, const cudaExtent& extent, Line line) {
  const auto fits = [](size_t begin, size_t n, size_t size) { return begin <= size && n <= size - begin; };
  if (fits(from.x, extent.width, array.extent.width * texel_bytes(array.channels)) &&
      fits(from.y, extent.height, std::max<size_t>(array.extent.height, 1)) &&
      fits(from.z, extent.depth, std::max<size_t>(array.extent.depth, 1)))
    return cudaSuccess;
  return to_cuda(
      refuse_call("a copy that exceeds its cudaArray (offsets and widths are in bytes, of cudaMemcpy3D in "
                  "elements)",
                  Error::invalid_value, line));
}
inline cudaError_t copy_volume(cudaMemcpy3DParms copied, Line line) {
  // An array counts in elements: its side, and the extent.
  const cudaArray* const counted = copied.dstArray != nullptr ? copied.dstArray : copied.srcArray;
  if (counted != nullptr) copied.extent.width *= texel_bytes(counted->channels);
  const auto use_array = [&](const cudaArray* array, cudaPos& position, cudaPitchedPtr& memory) {
    if (array == nullptr) return cudaSuccess;
    position.x *= texel_bytes(array->channels);
    memory = {array->memory, array->pitch, 0, std::max<size_t>(array->extent.height, 1)};
    return require_inside(*array, position, copied.extent, line);
  };
  if (const cudaError_t error = use_array(copied.srcArray, copied.srcPos, copied.srcPtr); error != cudaSuccess)
    return error;
  if (const cudaError_t error = use_array(copied.dstArray, copied.dstPos, copied.dstPtr); error != cudaSuccess)
    return error;
  const auto& [width, height, depth] = copied.extent;
  for (size_t z = 0; z < depth; ++z) {
    const cudaPos from{copied.srcPos.x, copied.srcPos.y, copied.srcPos.z + z};
    const cudaPos to{copied.dstPos.x, copied.dstPos.y, copied.dstPos.z + z};
    if (const cudaError_t error = copy_rows(at(copied.dstPtr, to), copied.dstPtr.pitch, at(copied.srcPtr, from),
                                            {copied.srcPtr.pitch, width, height}, copied.kind, line);
        error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}

}  // namespace trifold::cpu

inline cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent, trifold::cpu::Line line = {}) {
  *memory = {nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&memory->ptr, &memory->pitch, extent.width, extent.height * extent.depth, line);
}
inline cudaError_t cudaMemset3DAsync(cudaPitchedPtr memory, int value, cudaExtent extent, cudaStream_t stream = nullptr,
                                     trifold::cpu::Line line = {}) {
  return trifold::cpu::enqueue(stream, cudaGraphNodeTypeMemset, line, [=] {
    for (size_t z = 0; z < extent.depth; ++z)
      if (const cudaError_t error = trifold::cpu::fill_rows(trifold::cpu::at(memory, {0, 0, z}), value,
                                                            {memory.pitch, extent.width, extent.height}, line);
          error != cudaSuccess)
        return error;
    return cudaSuccess;
  });
}
inline cudaError_t cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent extent, trifold::cpu::Line line = {}) {
  const cudaError_t error = cudaMemset3DAsync(memory, value, extent, nullptr, line);
  trifold::cpu::wait_for_copy();
  return error;
}
inline cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* copied, cudaStream_t stream = nullptr,
                                     trifold::cpu::Line line = {}) {
  return trifold::cpu::enqueue(stream, cudaGraphNodeTypeMemcpy, line,
                               [=, copied = *copied] { return trifold::cpu::copy_volume(copied, line); });
}
inline cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copied, trifold::cpu::Line line = {}) {
  if (const cudaError_t error = trifold::cpu::require_no_capture(line); error != cudaSuccess) return error;
  const cudaError_t error = cudaMemcpy3DAsync(copied, nullptr, line);
  trifold::cpu::wait_for_copy();
  return error;
}

// ---------------------------------------------------------------------------------------------------- pools

// Freed memory is returned to the system at once, whatever a pool's settings are.
struct CUmemPoolHandle_st {};
using cudaMemPool_t = CUmemPoolHandle_st*;
enum cudaMemPoolAttr {
  cudaMemPoolReuseFollowEventDependencies = 1,
  cudaMemPoolReuseAllowOpportunistic = 2,
  cudaMemPoolReuseAllowInternalDependencies = 3,
  cudaMemPoolAttrReleaseThreshold = 4,
};
inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  static CUmemPoolHandle_st only;
  *pool = &only;
  return cudaSetDevice(device);
}
inline cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) {
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMallocFromPoolAsync(T** pointer, size_t bytes, cudaMemPool_t, cudaStream_t stream,
                                    trifold::cpu::Line line = {}) {
  return cudaMallocAsync(pointer, bytes, stream, line);
}
