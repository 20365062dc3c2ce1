// CUDA's 8-bit floats, e4m3 and e5m2: storage and conversions, without arithmetic (CUDA Math API, "FP8 Intrinsics").
// A conversion to them rounds once, to nearest even.
//
//         bits of the    exponents of     largest    past the largest, if it does not saturate
//         fraction       normal numbers
//   e4m3  3              -6 … 8           448        NaN: there is no infinity
//   e5m2  2              -14 … 15         57344      infinity
#pragma once

#include <trifold/cpu/float16.h>
#include <trifold/cpu/float16_raw.h>
#include <trifold/cpu/rounding.h>
#include <trifold/cpu/vectors.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#define __CUDA_FP8_TYPES_EXIST__

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned;

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace trifold::cpu {

constexpr uint8_t nan8 = 0x7f;  // the NaN of conversions from float and narrower types, in both formats

struct E4M3 {
  static constexpr int fraction = 3, least = -6;
  static constexpr uint8_t largest = 0x7e, overflow = nan8;

  // A NaN has the sign of x; the fraction of x is lost, since the format has only one NaN.
  static uint8_t of_nan(double) { return nan8; }
  static bool is_nan(uint8_t bits) { return (bits & 0x7f) == 0x7f; }
  // Read as binary16, whose bias is larger by 8, the same bits are the number divided by 2^8; subnormal ones too.
  static float widen(uint8_t bits) {
    return Half::widen(static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7f) << 7)) * 0x1p8f;
  }
};

struct E5M2 {
  static constexpr int fraction = 2, least = -14;
  static constexpr uint8_t largest = 0x7b, overflow = 0x7c;

  // A quiet NaN with the two upper bits of the fraction of x.
  static uint8_t of_nan(double x) { return static_cast<uint8_t>(0x7e | (bit_cast<uint64_t>(x) >> 50 & 3)); }
  static bool is_nan(uint8_t bits) { return (bits & 0x7f) > overflow; }
  static float widen(uint8_t bits) { return Half::widen(static_cast<uint16_t>(bits << 8)); }
};

template <class Format>
inline uint8_t narrow8(double x, bool saturates) {
  const auto wide = bit_cast<uint64_t>(x);
  const auto sign = static_cast<uint8_t>(wide >> 63 << 7);
  const double size = std::fabs(x);
  const uint8_t beyond = saturates ? Format::largest : Format::overflow;
  if (size != size) return static_cast<uint8_t>(sign | Format::of_nan(x));
  if (size >= 0x1p16) return static_cast<uint8_t>(sign | beyond);
  int exponent = static_cast<int>(wide >> 52 & 0x7ff) - 1023;
  if (exponent < Format::least) exponent = Format::least;
  // In units of the last place; exact, since it is a division by a power of two.
  const double units = size / bit_cast<double>(static_cast<uint64_t>(exponent - Format::fraction + 1023) << 52);
  auto whole = static_cast<int>(units);
  const double rest = units - whole;
  if (rest > 0.5 || (rest == 0.5 && (whole & 1) != 0)) ++whole;
  const int bits = ((exponent - Format::least) << Format::fraction) + whole;
  return static_cast<uint8_t>(sign | (bits > Format::largest ? beyond : bits));
}

inline uint8_t narrow8(double x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
  const bool saturates = saturation == __NV_SATFINITE;
  return kind == __NV_E4M3 ? narrow8<E4M3>(x, saturates) : narrow8<E5M2>(x, saturates);
}

// Every NaN becomes the GPU's.
inline float widen8(uint8_t bits, __nv_fp8_interpretation_t kind) {
  const bool is_nan = kind == __NV_E4M3 ? E4M3::is_nan(bits) : E5M2::is_nan(bits);
  if (is_nan) return bit_cast<float>(uint32_t{0x7fffffff});
  return kind == __NV_E4M3 ? E4M3::widen(bits) : E5M2::widen(bits);
}

// The first element is the lowest byte.
constexpr __nv_fp8x2_storage_t packed8(uint8_t x, uint8_t y) {
  return static_cast<__nv_fp8x2_storage_t>(x | y << 8);
}
constexpr __nv_fp8x4_storage_t packed8(__nv_fp8x2_storage_t low, __nv_fp8x2_storage_t high) {
  return low | static_cast<__nv_fp8x4_storage_t>(high) << 16;
}

}  // namespace trifold::cpu

// ---------------------------------------------------------------------------------------------------- conversions

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturation,
                                                 __nv_fp8_interpretation_t kind) {
  return trifold::cpu::narrow8(x, saturation, kind);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
  return x != x ? trifold::cpu::nan8 : trifold::cpu::narrow8(double{x}, saturation, kind);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturation,
                                                  __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(trifold::cpu::Half::widen(x.x), saturation, kind);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturation,
                                                      __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(trifold::cpu::Bfloat16::widen(x.x), saturation, kind);
}

inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 x, __nv_saturation_t saturation,
                                                      __nv_fp8_interpretation_t kind) {
  return trifold::cpu::packed8(__nv_cvt_double_to_fp8(x.x, saturation, kind),
                               __nv_cvt_double_to_fp8(x.y, saturation, kind));
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturation,
                                                     __nv_fp8_interpretation_t kind) {
  return trifold::cpu::packed8(__nv_cvt_float_to_fp8(x.x, saturation, kind),
                               __nv_cvt_float_to_fp8(x.y, saturation, kind));
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x, __nv_saturation_t saturation,
                                                       __nv_fp8_interpretation_t kind) {
  return trifold::cpu::packed8(__nv_cvt_halfraw_to_fp8(x.x, saturation, kind),
                               __nv_cvt_halfraw_to_fp8(x.y, saturation, kind));
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw x, __nv_saturation_t saturation,
                                                           __nv_fp8_interpretation_t kind) {
  return trifold::cpu::packed8(__nv_cvt_bfloat16raw_to_fp8(x.x, saturation, kind),
                               __nv_cvt_bfloat16raw_to_fp8(x.y, saturation, kind));
}

// Exact: both formats are parts of binary16.
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
  return trifold::cpu::Half::narrow(trifold::cpu::widen8(x, kind));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(x), kind).x,
          __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(x >> 8), kind).x};
}

// ---------------------------------------------------------------------------------------------------- types

namespace trifold::cpu {

// Always inlined, so that in a checked port the access is at a line of the kernel. What is made from a number
// saturates.
template <__nv_fp8_interpretation_t kind>
struct Float8 {
  __nv_fp8_storage_t __x;

  Float8() = default;
  explicit __forceinline__ Float8(__half x) : __x(__nv_cvt_halfraw_to_fp8(x, __NV_SATFINITE, kind)) {}
  explicit __forceinline__ Float8(__nv_bfloat16 x) : __x(__nv_cvt_bfloat16raw_to_fp8(x, __NV_SATFINITE, kind)) {}
  explicit __forceinline__ Float8(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind)) {}
  explicit __forceinline__ Float8(double x) : __x(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, kind)) {}
  // An integer that a double cannot hold is far beyond the largest number.
  explicit __forceinline__ Float8(short x) : Float8(static_cast<double>(x)) {}
  explicit __forceinline__ Float8(unsigned short x) : Float8(static_cast<double>(x)) {}
  explicit __forceinline__ Float8(int x) : Float8(static_cast<double>(x)) {}
  explicit __forceinline__ Float8(unsigned x) : Float8(static_cast<double>(x)) {}
  explicit __forceinline__ Float8(long x) : Float8(static_cast<double>(x)) {}
  explicit __forceinline__ Float8(unsigned long x) : Float8(static_cast<double>(x)) {}
  explicit __forceinline__ Float8(long long x) : Float8(static_cast<double>(x)) {}
  explicit __forceinline__ Float8(unsigned long long x) : Float8(static_cast<double>(x)) {}

  explicit __forceinline__ operator float() const { return widen8(__x, kind); }
  explicit __forceinline__ operator double() const { return double{widen8(__x, kind)}; }
  explicit __forceinline__ operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, kind); }
  explicit __forceinline__ operator __nv_bfloat16() const { return widen8(__x, kind); }
  template <class Integer>
    requires std::is_integral_v<Integer>
  explicit __forceinline__ operator Integer() const {
    if constexpr (same_as<Integer, bool>)
      return (__x & 0x7f) != 0;
    else
      return to_integer<Integer>(widen8(__x, kind), Rounding::zero);
  }
};

template <__nv_fp8_interpretation_t kind>
struct alignas(2) Float8x2 {
  __nv_fp8x2_storage_t __x;

  Float8x2() = default;
  explicit __forceinline__ Float8x2(__half2 x) : __x(__nv_cvt_halfraw2_to_fp8x2(x, __NV_SATFINITE, kind)) {}
  explicit __forceinline__ Float8x2(__nv_bfloat162 x) : __x(__nv_cvt_bfloat16raw2_to_fp8x2(x, __NV_SATFINITE, kind)) {}
  explicit __forceinline__ Float8x2(float2 x) : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, kind)) {}
  explicit __forceinline__ Float8x2(double2 x) : __x(__nv_cvt_double2_to_fp8x2(x, __NV_SATFINITE, kind)) {}

  explicit __forceinline__ operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, kind); }
  explicit __forceinline__ operator float2() const {
    const __nv_fp8x2_storage_t all = __x;
    return {widen8(static_cast<uint8_t>(all), kind), widen8(static_cast<uint8_t>(all >> 8), kind)};
  }
};

template <__nv_fp8_interpretation_t kind>
struct alignas(4) Float8x4 {
  using Two = Float8x2<kind>;
  __nv_fp8x4_storage_t __x;

  Float8x4() = default;
  explicit __forceinline__ Float8x4(__half2 low, __half2 high) : __x(packed8(Two(low).__x, Two(high).__x)) {}
  explicit __forceinline__ Float8x4(__nv_bfloat162 low, __nv_bfloat162 high)
      : __x(packed8(Two(low).__x, Two(high).__x)) {}
  explicit __forceinline__ Float8x4(float4 x) : __x(packed8(Two(float2{x.x, x.y}).__x, Two(float2{x.z, x.w}).__x)) {}
  explicit __forceinline__ Float8x4(double4 x) : __x(packed8(Two(double2{x.x, x.y}).__x, Two(double2{x.z, x.w}).__x)) {}

  explicit __forceinline__ operator float4() const {
    const __nv_fp8x4_storage_t all = __x;
    return {widen8(static_cast<uint8_t>(all), kind), widen8(static_cast<uint8_t>(all >> 8), kind),
            widen8(static_cast<uint8_t>(all >> 16), kind), widen8(static_cast<uint8_t>(all >> 24), kind)};
  }
};

}  // namespace trifold::cpu

// Structs and not aliases, since programs declare them (struct __nv_fp8_e4m3;).
struct __nv_fp8_e4m3 : trifold::cpu::Float8<__NV_E4M3> {
  using Float8::Float8;
};
struct __nv_fp8_e5m2 : trifold::cpu::Float8<__NV_E5M2> {
  using Float8::Float8;
};
struct __nv_fp8x2_e4m3 : trifold::cpu::Float8x2<__NV_E4M3> {
  using Float8x2::Float8x2;
};
struct __nv_fp8x2_e5m2 : trifold::cpu::Float8x2<__NV_E5M2> {
  using Float8x2::Float8x2;
};
struct __nv_fp8x4_e4m3 : trifold::cpu::Float8x4<__NV_E4M3> {
  using Float8x4::Float8x4;
};
struct __nv_fp8x4_e5m2 : trifold::cpu::Float8x4<__NV_E5M2> {
  using Float8x4::Float8x4;
};
