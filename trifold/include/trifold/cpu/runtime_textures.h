// CUDA's runtime API: arrays, texture objects and surface objects. Part of runtime_api.h; device code reads and writes
// them by textures.h. Without mipmaps and cubemaps. (CUDA C++ Programming Guide, "Texture and Surface Memory".)
#pragma once

#include <trifold/cpu/runtime_volumes.h>
#include <trifold/cpu/textures.h>

enum cudaResourceType {
  cudaResourceTypeArray = 0,
  cudaResourceTypeMipmappedArray = 1,
  cudaResourceTypeLinear = 2,
  cudaResourceTypePitch2D = 3,
};
struct cudaResourceDesc {
  cudaResourceType resType;
  union {
    struct {
      cudaArray_t array;
    } array;
    struct {
      void* devPtr;
      cudaChannelFormatDesc desc;
      size_t sizeInBytes;
    } linear;
    struct {
      void* devPtr;
      cudaChannelFormatDesc desc;
      size_t width, height, pitchInBytes;
    } pitch2D;
  } res;
};
struct cudaTextureDesc {
  cudaTextureAddressMode addressMode[3];
  cudaTextureFilterMode filterMode;
  cudaTextureReadMode readMode;
  int sRGB;
  float borderColor[4];
  int normalizedCoords;
  unsigned maxAnisotropy;
  cudaTextureFilterMode mipmapFilterMode;
  float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
  int disableTrilinearOptimization, seamlessCubemap;
};
struct cudaResourceViewDesc;

inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
template <class T>
cudaChannelFormatDesc cudaCreateChannelDesc() {
  return trifold::cpu::channels_of<T>();
}

// ---------------------------------------------------------------------------------------------------- arrays

inline cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* channels, cudaExtent extent,
                                     unsigned flags = 0, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if ((flags & cudaArrayCubemap) != 0)
    return to_cuda(refuse_call("a cubemap, which is not there on the CPU", Error::not_supported, line));
  cudaArray made{*channels, extent, flags, nullptr, 0};
  const size_t rows = std::max<size_t>(extent.height, 1) * std::max<size_t>(extent.depth, 1);
  const cudaError_t error =
      cudaMallocPitch(&made.memory, &made.pitch, extent.width * texel_bytes(*channels), rows, line);
  *array = error == cudaSuccess ? new cudaArray(made) : nullptr;
  return error;
}
inline cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* channels, size_t width,
                                   size_t height = 0, unsigned flags = 0, trifold::cpu::Line line = {}) {
  return cudaMalloc3DArray(array, channels, {width, height, 0}, flags, line);
}
inline cudaError_t cudaFreeArray(cudaArray_t array, trifold::cpu::Line line = {}) {
  if (array == nullptr) return cudaSuccess;
  const cudaError_t error = cudaFree(array->memory, line);
  if (error == cudaSuccess) delete array;
  return error;
}
inline cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* channels, cudaExtent* extent, unsigned* flags,
                                    cudaArray_t array) {
  if (channels != nullptr) *channels = array->channels;
  if (extent != nullptr) *extent = array->extent;
  if (flags != nullptr) *flags = array->flags;
  return cudaSuccess;
}
inline cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* channels, cudaArray_const_t array) {
  *channels = array->channels;
  return cudaSuccess;
}

// Offsets and widths are in bytes.
inline cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch,
                                            size_t width, size_t height, cudaMemcpyKind kind,
                                            cudaStream_t stream = nullptr, trifold::cpu::Line line = {}) {
  if (const cudaError_t error = trifold::cpu::require_inside(*to, {x, y, 0}, {width, height, 1}, line);
      error != cudaSuccess)
    return error;
  return cudaMemcpy2DAsync(to->memory + y * to->pitch + x, to->pitch, from, pitch, width, height, kind, stream, line);
}
inline cudaError_t cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                              size_t width, size_t height, cudaMemcpyKind kind,
                                              cudaStream_t stream = nullptr, trifold::cpu::Line line = {}) {
  if (const cudaError_t error = trifold::cpu::require_inside(*from, {x, y, 0}, {width, height, 1}, line);
      error != cudaSuccess)
    return error;
  return cudaMemcpy2DAsync(to, pitch, from->memory + y * from->pitch + x, from->pitch, width, height, kind, stream,
                           line);
}
inline cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                                       size_t height, cudaMemcpyKind kind, trifold::cpu::Line line = {}) {
  return cudaMemcpy2DToArrayAsync(to, x, y, from, pitch, width, height, kind, nullptr, line);
}
inline cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                         size_t width, size_t height, cudaMemcpyKind kind,
                                         trifold::cpu::Line line = {}) {
  return cudaMemcpy2DFromArrayAsync(to, pitch, from, x, y, width, height, kind, nullptr, line);
}
inline cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x,
                                            size_t y, size_t width, size_t height,
                                            cudaMemcpyKind kind = cudaMemcpyDeviceToDevice,
                                            trifold::cpu::Line line = {}) {
  if (const cudaError_t error = trifold::cpu::require_inside(*from, {x, y, 0}, {width, height, 1}, line);
      error != cudaSuccess)
    return error;
  return cudaMemcpy2DToArray(to, to_x, to_y, from->memory + y * from->pitch + x, from->pitch, width, height, kind,
                             line);
}
// Rows of the array one after the other.
inline cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes,
                                     cudaMemcpyKind kind, trifold::cpu::Line line = {}) {
  const size_t row = to->extent.width * trifold::cpu::texel_bytes(to->channels);
  if (bytes <= row - std::min(x, row)) return cudaMemcpy2DToArray(to, x, y, from, bytes, bytes, 1, kind, line);
  if (x != 0 || bytes % row != 0)
    return trifold::cpu::to_cuda(trifold::cpu::refuse_call("a copy of parts of several rows: use cudaMemcpy2DToArray",
                                                           trifold::cpu::Error::not_supported, line));
  return cudaMemcpy2DToArray(to, 0, y, from, row, row, bytes / row, kind, line);
}
inline cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                       cudaMemcpyKind kind, trifold::cpu::Line line = {}) {
  const size_t row = from->extent.width * trifold::cpu::texel_bytes(from->channels);
  if (bytes <= row - std::min(x, row)) return cudaMemcpy2DFromArray(to, bytes, from, x, y, bytes, 1, kind, line);
  if (x != 0 || bytes % row != 0)
    return trifold::cpu::to_cuda(trifold::cpu::refuse_call("a copy of parts of several rows: use cudaMemcpy2DFromArray",
                                                           trifold::cpu::Error::not_supported, line));
  return cudaMemcpy2DFromArray(to, row, from, 0, y, row, bytes / row, kind, line);
}

// ---------------------------------------------------------------------------------------------------- objects

namespace trifold::cpu {

inline cudaError_t make_image(unsigned long long* object, const cudaResourceDesc* from, const cudaTextureDesc* as,
                              Line line) {
  Image image;
  image.made = line;
  switch (from->resType) {
    case cudaResourceTypeArray: {
      const cudaArray* const array = from->res.array.array;
      if (array == nullptr) return check(false);
      image.channels = array->channels;
      image.memory = array->memory;
      image.pitch = array->pitch;
      image.layered = (array->flags & cudaArrayLayered) != 0;
      image.size[0] = static_cast<int>(array->extent.width);
      image.size[1] = static_cast<int>(std::max<size_t>(array->extent.height, 1));
      image.size[2] = static_cast<int>(std::max<size_t>(array->extent.depth, 1));
      break;
    }
    case cudaResourceTypeLinear: {
      const auto& linear = from->res.linear;
      image.channels = linear.desc;
      image.memory = static_cast<char*>(linear.devPtr);
      image.pitch = linear.sizeInBytes;
      image.size[0] = static_cast<int>(linear.sizeInBytes / std::max<size_t>(texel_bytes(linear.desc), 1));
      break;
    }
    case cudaResourceTypePitch2D: {
      const auto& plane = from->res.pitch2D;
      image.channels = plane.desc;
      image.memory = static_cast<char*>(plane.devPtr);
      image.pitch = plane.pitchInBytes;
      image.size[0] = static_cast<int>(plane.width);
      image.size[1] = static_cast<int>(plane.height);
      break;
    }
    default: return to_cuda(refuse_call("a mipmap, which is not there on the CPU", Error::not_supported, line));
  }
  if (texel_bytes(image.channels) == 0) return check(false);
  if (as != nullptr) {
    for (int axis = 0; axis < 3; ++axis) {
      image.address[axis] = as->addressMode[axis];
      image.border[axis] = as->borderColor[axis];
    }
    image.border[3] = as->borderColor[3];
    image.filter = as->filterMode;
    image.read = as->readMode;
    image.normalized = as->normalizedCoords != 0;
    if (as->sRGB != 0) return to_cuda(refuse_call("a texture in sRGB", Error::not_supported, line));
    const bool whole = image.channels.f != cudaChannelFormatKindFloat && image.read == cudaReadModeElementType;
    if (whole && image.filter == cudaFilterModeLinear)
      return to_cuda(refuse_call("a linear filter for a texture that is read as integers", Error::invalid_value, line));
  }
  *object = reinterpret_cast<unsigned long long>(new Image(image));
  return cudaSuccess;
}
// The descriptor stays, so that a later use is recognised.
inline cudaError_t end_image(unsigned long long object) {
  if (object != 0) reinterpret_cast<Image*>(object)->live = false;
  return cudaSuccess;
}

}  // namespace trifold::cpu

inline cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* from,
                                           const cudaTextureDesc* as, const cudaResourceViewDesc* view,
                                           trifold::cpu::Line line = {}) {
  if (view != nullptr)
    return trifold::cpu::to_cuda(trifold::cpu::refuse_call("a view of a texture's resource in another format",
                                                           trifold::cpu::Error::not_supported, line));
  return trifold::cpu::make_image(object, from, as, line);
}
inline cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  return trifold::cpu::end_image(object);
}
inline cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* from,
                                           trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  const bool array = from->resType == cudaResourceTypeArray && from->res.array.array != nullptr;
  if (!array || (from->res.array.array->flags & cudaArraySurfaceLoadStore) == 0)
    return to_cuda(refuse_call("a surface of what is not an array made with cudaArraySurfaceLoadStore",
                               Error::invalid_value, line));
  return make_image(object, from, nullptr, line);
}
inline cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return trifold::cpu::end_image(object);
}
