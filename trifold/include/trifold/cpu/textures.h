// Reads of texture objects and accesses of surface objects in device code. Texels are read by plain loads, which are
// checked like others. (CUDA C++ Programming Guide, "Texture Fetching", "Texture Functions", "Surface Functions".)
#pragma once

#include <trifold/cpu/float16.h>
#include <trifold/cpu/qualifiers.h>
#include <trifold/cpu/vectors.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

using cudaTextureObject_t = unsigned long long;
using cudaSurfaceObject_t = unsigned long long;

enum cudaChannelFormatKind {
  cudaChannelFormatKindSigned = 0,
  cudaChannelFormatKindUnsigned = 1,
  cudaChannelFormatKindFloat = 2,
  cudaChannelFormatKindNone = 3,
};
struct cudaChannelFormatDesc {
  int x, y, z, w;  // bits
  cudaChannelFormatKind f;
};
enum cudaTextureAddressMode {
  cudaAddressModeWrap = 0,
  cudaAddressModeClamp = 1,
  cudaAddressModeMirror = 2,
  cudaAddressModeBorder = 3,
};
enum cudaTextureFilterMode { cudaFilterModePoint = 0, cudaFilterModeLinear = 1 };
enum cudaTextureReadMode { cudaReadModeElementType = 0, cudaReadModeNormalizedFloat = 1 };
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero = 0, cudaBoundaryModeClamp = 1, cudaBoundaryModeTrap = 2 };

namespace trifold::cpu {

constexpr size_t texel_bytes(const cudaChannelFormatDesc& channels) {
  return static_cast<size_t>(channels.x + channels.y + channels.z + channels.w) / 8;
}

// The type and the number of a vector's components.
template <class T, class = void>
struct ComponentsOf {
  using type = T;
};
template <class T>
struct ComponentsOf<T, std::enable_if_t<std::is_arithmetic_v<decltype(T::x)>>> {
  using type = decltype(T::x);
};
template <class T>
using ComponentOf = typename ComponentsOf<T>::type;
template <class T>
constexpr int components_of = sizeof(T) / sizeof(ComponentOf<T>);

template <class T>
cudaChannelFormatDesc channels_of() {
  using Component = ComponentOf<T>;
  constexpr int bits = sizeof(Component) * 8, n = components_of<T>;
  constexpr bool whole = std::is_integral_v<Component>;
  constexpr auto kind = !whole                        ? cudaChannelFormatKindFloat
                        : std::is_signed_v<Component> ? cudaChannelFormatKindSigned
                                                      : cudaChannelFormatKindUnsigned;
  return {bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 3 ? bits : 0, kind};
}

// What a texture object or a surface object stands for.
struct Image {
  char* memory = nullptr;
  size_t pitch = 0;
  int size[3] = {1, 1, 1};  // in texels; of a layered one, the layers come last
  cudaChannelFormatDesc channels{};
  bool layered = false, normalized = false, live = true;
  cudaTextureAddressMode address[3] = {};
  cudaTextureFilterMode filter = cudaFilterModePoint;
  cudaTextureReadMode read = cudaReadModeElementType;
  float border[4] = {};
  Line made{nullptr, 0};
};

// Not checked, since the descriptor is not memory of the kernel.
[[gnu::noinline]] __attribute__((no_sanitize("thread", "bounds", "alignment"))) inline Image image_of(
    unsigned long long object, Line line) {
  if (object < 4096) stop_launch("a texture or surface object that was not created,", line);
  const Image image = *reinterpret_cast<const Image*>(object);
  if (!image.live) stop_launch("a texture or surface object that was destroyed,", line);
  return image;
}

inline char* texel_at(const Image& image, const int (&at)[3]) {
  const size_t row = static_cast<size_t>(at[2]) * static_cast<size_t>(image.size[1]) + static_cast<size_t>(at[1]);
  return image.memory + row * image.pitch + static_cast<size_t>(at[0]) * texel_bytes(image.channels);
}

// A component as a number; as a fraction of the largest one if `normalized`.
template <class Number>
double number_at(const char* place, bool normalized) {
  const Number value = *reinterpret_cast<const Number*>(place);
  if (!normalized) return static_cast<double>(value);
  return std::max(static_cast<double>(value) / std::numeric_limits<Number>::max(), -1.0);
}
inline double component_at(const char* place, int bits, cudaChannelFormatKind kind, bool normalized) {
  if (kind == cudaChannelFormatKindFloat)
    return bits == 16 ? static_cast<float>(*reinterpret_cast<const __half*>(place)) : number_at<float>(place, false);
  const bool is_signed = kind == cudaChannelFormatKindSigned;
  if (bits == 8) return is_signed ? number_at<int8_t>(place, normalized) : number_at<uint8_t>(place, normalized);
  if (bits == 16) return is_signed ? number_at<int16_t>(place, normalized) : number_at<uint16_t>(place, normalized);
  return is_signed ? number_at<int32_t>(place, false) : number_at<uint32_t>(place, false);
}

// The index in [0, size) that an address mode makes of any index; -1: the border.
inline int index_by(cudaTextureAddressMode mode, bool normalized, int index, int size) {
  const auto modulo = [index](int n) { return (index % n + n) % n; };
  if (mode == cudaAddressModeBorder) return index >= 0 && index < size ? index : -1;
  // Wrap and mirror need normalised coordinates, and clamp otherwise.
  if (mode == cudaAddressModeWrap && normalized) return modulo(size);
  if (mode == cudaAddressModeMirror && normalized) {
    const int there = modulo(2 * size);
    return there < size ? there : 2 * size - 1 - there;
  }
  return std::clamp(index, 0, size - 1);
}

// The texels that a sample is made of, and their shares in it.
struct Corners {
  int count = 0;
  const char* place[8];  // null: the border
  double share[8];
};
inline Corners corners_of(const Image& image, const float (&coordinates)[3], int axes, int layer) {
  int low[3] = {0, 0, 0}, high[3] = {0, 0, 0};
  double weight[3] = {0, 0, 0};  // of the higher one
  const bool linear = image.filter == cudaFilterModeLinear;
  for (int axis = 0; axis < axes; ++axis) {
    const int size = image.size[axis];
    double at = static_cast<double>(coordinates[axis]) * (image.normalized ? size : 1);
    if (linear) at -= 0.5;
    constexpr double most = 1 << 30;
    const double whole = std::clamp(std::isnan(at) ? 0.0 : std::floor(at), -most, most);
    low[axis] = index_by(image.address[axis], image.normalized, static_cast<int>(whole), size);
    high[axis] = index_by(image.address[axis], image.normalized, static_cast<int>(whole) + 1, size);
    // Weights have 8 bits of fraction.
    if (linear) weight[axis] = std::round((at - whole) * 256) / 256;
  }
  if (image.layered) low[2] = high[2] = std::clamp(layer, 0, image.size[2] - 1);
  Corners corners;
  for (int corner = 0; corner < 1 << axes; ++corner) {
    int at[3] = {low[0], low[1], low[2]};
    double share = 1;
    for (int axis = 0; axis < axes; ++axis) {
      const bool is_high = (corner >> axis & 1) != 0;
      if (is_high) at[axis] = high[axis];
      share *= is_high ? weight[axis] : 1 - weight[axis];
    }
    if (share == 0) continue;
    corners.place[corners.count] = std::min({at[0], at[1], at[2]}) < 0 ? nullptr : texel_at(image, at);
    corners.share[corners.count++] = share;
  }
  return corners;
}

struct alignas(16) RawTexel {
  char bytes[16];
};
struct Texel {
  double c[4] = {0, 0, 0, 0};
};
inline Texel mixed(const Image& image, const Corners& corners, const RawTexel* raw) {
  const int bits[4] = {image.channels.x, image.channels.y, image.channels.z, image.channels.w};
  Texel sum;
  for (int corner = 0; corner < corners.count; ++corner) {
    const char* place = raw[corner].bytes;
    for (int i = 0; i < 4; ++i) {
      const bool border = corners.place[corner] == nullptr;
      if (!border && bits[i] == 0) break;
      const bool normalized = image.read == cudaReadModeNormalizedFloat;
      const double value = border ? image.border[i] : component_at(place, bits[i], image.channels.f, normalized);
      sum.c[i] += corners.share[corner] * value;
      place += bits[i] / 8;
    }
  }
  return sum;
}

// Inlined, so that the loads are found at the line of the program.
__forceinline__ Texel loaded(const Image& image, const Corners& corners) {
  RawTexel raw[8];
  for (int corner = 0; corner < corners.count; ++corner)
    if (corners.place[corner] != nullptr)
      std::memcpy(raw[corner].bytes, corners.place[corner], texel_bytes(image.channels));
  return mixed(image, corners, raw);
}

template <class T>
T from_texel(const Texel& value) {
  using Component = ComponentOf<T>;
  Component components[components_of<T>];
  for (int i = 0; i < components_of<T>; ++i) components[i] = static_cast<Component>(value.c[i]);
  T result;
  __builtin_memcpy(&result, components, sizeof result);
  return result;
}

template <class T>
__forceinline__ T sampled(unsigned long long texture, const float (&coordinates)[3], int axes, int layer, Line line) {
  const Image image = image_of(texture, line);
  return from_texel<T>(loaded(image, corners_of(image, coordinates, axes, layer)));
}

// The place of a surface's access of T; null: it reads zero and writes nothing.
template <class T>
T* surface_place(unsigned long long surface, int x_bytes, int y, int z, cudaSurfaceBoundaryMode mode, Line line) {
  const Image image = image_of(surface, line);
  const int width = static_cast<int>(static_cast<size_t>(image.size[0]) * texel_bytes(image.channels));
  const int last = width - static_cast<int>(sizeof(T));
  const bool inside = x_bytes >= 0 && x_bytes <= last && y >= 0 && y < image.size[1] && z >= 0 && z < image.size[2];
  if (!inside && mode == cudaBoundaryModeTrap)
    stop_launch("an access outside of a surface, whose x is in bytes (cudaBoundaryModeTrap),", line);
  if (!inside && mode == cudaBoundaryModeZero) return nullptr;
  if (x_bytes % static_cast<int>(sizeof(T)) != 0)
    stop_launch("an access of a surface whose x, in bytes, is not a multiple of the size,", line);
  const int at[3] = {0, std::clamp(y, 0, image.size[1] - 1), std::clamp(z, 0, image.size[2] - 1)};
  return reinterpret_cast<T*>(texel_at(image, at) + std::clamp(x_bytes, 0, last));
}
template <class T>
__forceinline__ T load_surface(unsigned long long surface, int x, int y, int z, cudaSurfaceBoundaryMode mode,
                               Line line) {
  const T* const place = surface_place<T>(surface, x, y, z, mode, line);
  return place == nullptr ? T{} : *place;
}
template <class T>
__forceinline__ void store_surface(T value, unsigned long long surface, int x, int y, int z,
                                   cudaSurfaceBoundaryMode mode, Line line) {
  if (T* const place = surface_place<T>(surface, x, y, z, mode, line); place != nullptr) *place = value;
}

}  // namespace trifold::cpu

// Outside of the memory, it reads zero.
template <class T>
__device__ __forceinline__ T tex1Dfetch(cudaTextureObject_t texture, int x, trifold::cpu::Line line = {}) {
  const trifold::cpu::Image image = trifold::cpu::image_of(texture, line);
  if (x < 0 || x >= image.size[0]) return trifold::cpu::from_texel<T>({});
  return trifold::cpu::from_texel<T>(trifold::cpu::loaded(image, {1, {trifold::cpu::texel_at(image, {x, 0, 0})}, {1}}));
}
template <class T>
__device__ __forceinline__ T tex1D(cudaTextureObject_t texture, float x, trifold::cpu::Line line = {}) {
  return trifold::cpu::sampled<T>(texture, {x, 0, 0}, 1, 0, line);
}
template <class T>
__device__ __forceinline__ T tex2D(cudaTextureObject_t texture, float x, float y, trifold::cpu::Line line = {}) {
  return trifold::cpu::sampled<T>(texture, {x, y, 0}, 2, 0, line);
}
template <class T>
__device__ __forceinline__ T tex3D(cudaTextureObject_t texture, float x, float y, float z,
                                   trifold::cpu::Line line = {}) {
  return trifold::cpu::sampled<T>(texture, {x, y, z}, 3, 0, line);
}
template <class T>
__device__ __forceinline__ T tex1DLayered(cudaTextureObject_t texture, float x, int layer,
                                          trifold::cpu::Line line = {}) {
  return trifold::cpu::sampled<T>(texture, {x, 0, 0}, 1, layer, line);
}
template <class T>
__device__ __forceinline__ T tex2DLayered(cudaTextureObject_t texture, float x, float y, int layer,
                                          trifold::cpu::Line line = {}) {
  return trifold::cpu::sampled<T>(texture, {x, y, 0}, 2, layer, line);
}
template <class T>
__device__ __forceinline__ void tex1Dfetch(T* result, cudaTextureObject_t texture, int x,
                                           trifold::cpu::Line line = {}) {
  *result = tex1Dfetch<T>(texture, x, line);
}
template <class T>
__device__ __forceinline__ void tex1D(T* result, cudaTextureObject_t texture, float x, trifold::cpu::Line line = {}) {
  *result = tex1D<T>(texture, x, line);
}
template <class T>
__device__ __forceinline__ void tex2D(T* result, cudaTextureObject_t texture, float x, float y,
                                      trifold::cpu::Line line = {}) {
  *result = tex2D<T>(texture, x, y, line);
}
template <class T>
__device__ __forceinline__ void tex3D(T* result, cudaTextureObject_t texture, float x, float y, float z,
                                      trifold::cpu::Line line = {}) {
  *result = tex3D<T>(texture, x, y, z, line);
}

// x is in bytes.
#define TRIFOLD_SURFACE(name, parameters, x, y, z)                                                              \
  template <class T>                                                                                            \
  __device__ __forceinline__ T name##read(cudaSurfaceObject_t surface, TRIFOLD_UNPACK parameters,               \
                                          cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap,                  \
                                          trifold::cpu::Line line = {}) {                                       \
    return trifold::cpu::load_surface<T>(surface, x, y, z, mode, line);                                         \
  }                                                                                                             \
  template <class T>                                                                                            \
  __device__ __forceinline__ void name##read(T* result, cudaSurfaceObject_t surface, TRIFOLD_UNPACK parameters, \
                                             cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap,               \
                                             trifold::cpu::Line line = {}) {                                    \
    *result = trifold::cpu::load_surface<T>(surface, x, y, z, mode, line);                                      \
  }                                                                                                             \
  template <class T>                                                                                            \
  __device__ __forceinline__ void name##write(T value, cudaSurfaceObject_t surface, TRIFOLD_UNPACK parameters,  \
                                              cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap,              \
                                              trifold::cpu::Line line = {}) {                                   \
    trifold::cpu::store_surface<T>(value, surface, x, y, z, mode, line);                                        \
  }
#define TRIFOLD_UNPACK(...) __VA_ARGS__
TRIFOLD_SURFACE(surf1D, (int x), x, 0, 0)
TRIFOLD_SURFACE(surf2D, (int x, int y), x, y, 0)
TRIFOLD_SURFACE(surf3D, (int x, int y, int z), x, y, z)
TRIFOLD_SURFACE(surf1DLayered, (int x, int layer), x, 0, layer)
TRIFOLD_SURFACE(surf2DLayered, (int x, int y, int layer), x, y, layer)
#undef TRIFOLD_UNPACK
#undef TRIFOLD_SURFACE
