// CUDA's 8-bit scale factors, e8m0: the powers of two from 2^-127 (byte 0) to 2^127 (254), and NaN (255). The sign of
// what is converted to them is lost, and what is smaller than the least becomes the least.
#pragma once

#include <trifold/cpu/float8.h>

#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

namespace trifold::cpu {

// Rounds to the power of two below (cudaRoundZero) or above (cudaRoundPosInf); CUDA asserts that it is one of these.
inline __nv_fp8_storage_t narrow_scale(double x, __nv_saturation_t saturation, cudaRoundMode rounding) {
  assert(rounding == cudaRoundZero || rounding == cudaRoundPosInf);
  constexpr uint8_t largest = 254, nan = 255;
  const double size = std::fabs(x);
  if (size != size) return nan;
  if (size <= 0x1p-127) return 0;
  const uint8_t beyond = saturation == __NV_SATFINITE ? largest : nan;
  if (size >= 0x1p128) return beyond;
  const auto wide = bit_cast<uint64_t>(size);
  const bool is_between = (wide & ((uint64_t{1} << 52) - 1)) != 0;
  const int exponent = static_cast<int>(wide >> 52) - 1023 + (is_between && rounding != cudaRoundZero ? 1 : 0);
  return exponent > 127 ? beyond : static_cast<uint8_t>(exponent + 127);
}

inline __nv_bfloat16 widen_scale(__nv_fp8_storage_t bits) {
  constexpr uint16_t least = 0x0040, nan = 0x7fff;
  return __nv_bfloat16::of_bits(bits == 0 ? least : bits == 255 ? nan : static_cast<uint16_t>(bits << 7));
}

}  // namespace trifold::cpu

// ---------------------------------------------------------------------------------------------------- conversions

inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16_raw x, __nv_saturation_t saturation,
                                                       cudaRoundMode rounding) {
  return trifold::cpu::narrow_scale(trifold::cpu::Bfloat16::widen(x.x), saturation, rounding);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float x, __nv_saturation_t saturation, cudaRoundMode rounding) {
  return trifold::cpu::narrow_scale(x, saturation, rounding);
}
// As in CUDA, through a float: towards zero, a finite number beyond float's is 2^127 also where it does not saturate.
inline __nv_fp8_storage_t __nv_cvt_double_to_e8m0(double x, __nv_saturation_t saturation, cudaRoundMode rounding) {
  constexpr double largest = std::numeric_limits<float>::max();
  const bool is_finite = std::fabs(x) <= std::numeric_limits<double>::max();
  return trifold::cpu::narrow_scale(is_finite && std::fabs(x) > largest ? largest : x, saturation, rounding);
}

inline __nv_fp8x2_storage_t __nv_cvt_bfloat162raw_to_e8m0x2(__nv_bfloat162_raw x, __nv_saturation_t saturation,
                                                            cudaRoundMode rounding) {
  return trifold::cpu::packed8(__nv_cvt_bfloat16raw_to_e8m0(x.x, saturation, rounding),
                               __nv_cvt_bfloat16raw_to_e8m0(x.y, saturation, rounding));
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_e8m0x2(float2 x, __nv_saturation_t saturation, cudaRoundMode rounding) {
  return trifold::cpu::packed8(__nv_cvt_float_to_e8m0(x.x, saturation, rounding),
                               __nv_cvt_float_to_e8m0(x.y, saturation, rounding));
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_e8m0x2(double2 x, __nv_saturation_t saturation,
                                                       cudaRoundMode rounding) {
  return trifold::cpu::packed8(__nv_cvt_double_to_e8m0(x.x, saturation, rounding),
                               __nv_cvt_double_to_e8m0(x.y, saturation, rounding));
}

inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
  return trifold::cpu::widen_scale(x);
}
inline __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x) {
  return {trifold::cpu::widen_scale(static_cast<__nv_fp8_storage_t>(x)).bits,
          trifold::cpu::widen_scale(static_cast<__nv_fp8_storage_t>(x >> 8)).bits};
}

// ---------------------------------------------------------------------------------------------------- types

// Always inlined, so that in a checked port the access is at a line of the kernel. What is made from a number is the
// power of two above, and saturates.
struct __nv_fp8_e8m0 {
  __nv_fp8_storage_t __x;

  __nv_fp8_e8m0() = default;
  explicit __forceinline__ __nv_fp8_e8m0(__half x) : __nv_fp8_e8m0(float(x)) {}
  explicit __forceinline__ __nv_fp8_e8m0(__nv_bfloat16 x) : __nv_fp8_e8m0(float(x)) {}
  explicit __forceinline__ __nv_fp8_e8m0(float x) : __nv_fp8_e8m0(double{x}) {}
  explicit __forceinline__ __nv_fp8_e8m0(double x) : __x(__nv_cvt_double_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf)) {}
  explicit __forceinline__ __nv_fp8_e8m0(short x) : __nv_fp8_e8m0(trifold::cpu::to_odd(x)) {}
  explicit __forceinline__ __nv_fp8_e8m0(unsigned short x) : __nv_fp8_e8m0(trifold::cpu::to_odd(x)) {}
  explicit __forceinline__ __nv_fp8_e8m0(int x) : __nv_fp8_e8m0(trifold::cpu::to_odd(x)) {}
  explicit __forceinline__ __nv_fp8_e8m0(unsigned x) : __nv_fp8_e8m0(trifold::cpu::to_odd(x)) {}
  explicit __forceinline__ __nv_fp8_e8m0(long x) : __nv_fp8_e8m0(trifold::cpu::to_odd(x)) {}
  explicit __forceinline__ __nv_fp8_e8m0(unsigned long x) : __nv_fp8_e8m0(trifold::cpu::to_odd(x)) {}
  explicit __forceinline__ __nv_fp8_e8m0(long long x) : __nv_fp8_e8m0(trifold::cpu::to_odd(x)) {}
  explicit __forceinline__ __nv_fp8_e8m0(unsigned long long x) : __nv_fp8_e8m0(trifold::cpu::to_odd(x)) {}

  explicit __forceinline__ operator float() const { return trifold::cpu::widen_scale(__x); }
  explicit __forceinline__ operator double() const { return double{float(*this)}; }
  explicit __forceinline__ operator __half() const { return float(*this); }
  explicit __forceinline__ operator __nv_bfloat16() const { return trifold::cpu::widen_scale(__x); }
  template <class Integer>
    requires std::is_integral_v<Integer>
  explicit __forceinline__ operator Integer() const {
    if constexpr (trifold::cpu::same_as<Integer, bool>)
      return true;  // no scale is zero
    else
      return trifold::cpu::to_integer<Integer>(float(*this), trifold::cpu::Rounding::zero);
  }
};

struct alignas(2) __nv_fp8x2_e8m0 {
  __nv_fp8x2_storage_t __x;

  __nv_fp8x2_e8m0() = default;
  explicit __forceinline__ __nv_fp8x2_e8m0(__half2 x) : __nv_fp8x2_e8m0(float2{float(x.x), float(x.y)}) {}
  explicit __forceinline__ __nv_fp8x2_e8m0(__nv_bfloat162 x) : __nv_fp8x2_e8m0(float2{float(x.x), float(x.y)}) {}
  explicit __forceinline__ __nv_fp8x2_e8m0(float2 x)
      : __x(__nv_cvt_float2_to_e8m0x2(x, __NV_SATFINITE, cudaRoundPosInf)) {}
  explicit __forceinline__ __nv_fp8x2_e8m0(double2 x)
      : __x(__nv_cvt_double2_to_e8m0x2(x, __NV_SATFINITE, cudaRoundPosInf)) {}

  explicit __forceinline__ operator __nv_bfloat162() const { return __nv_cvt_e8m0x2_to_bf162raw(__x); }
  explicit __forceinline__ operator float2() const {
    const __nv_bfloat162 both(*this);
    return {float(both.x), float(both.y)};
  }
  explicit __forceinline__ operator __half2() const {
    const __nv_bfloat162 both(*this);
    return {float(both.x), float(both.y)};
  }
};

struct alignas(4) __nv_fp8x4_e8m0 {
  using Two = __nv_fp8x2_e8m0;
  __nv_fp8x4_storage_t __x;

  __nv_fp8x4_e8m0() = default;
  explicit __forceinline__ __nv_fp8x4_e8m0(__half2 low, __half2 high)
      : __x(trifold::cpu::packed8(Two(low).__x, Two(high).__x)) {}
  explicit __forceinline__ __nv_fp8x4_e8m0(__nv_bfloat162 low, __nv_bfloat162 high)
      : __x(trifold::cpu::packed8(Two(low).__x, Two(high).__x)) {}
  explicit __forceinline__ __nv_fp8x4_e8m0(float4 x)
      : __x(trifold::cpu::packed8(Two(float2{x.x, x.y}).__x, Two(float2{x.z, x.w}).__x)) {}
  explicit __forceinline__ __nv_fp8x4_e8m0(double4 x)
      : __x(trifold::cpu::packed8(Two(double2{x.x, x.y}).__x, Two(double2{x.z, x.w}).__x)) {}

  explicit __forceinline__ operator float4() const {
    const __nv_fp8x4_storage_t all = __x;
    const auto at = [all](int i) -> float { return trifold::cpu::widen_scale(static_cast<uint8_t>(all >> 8 * i)); };
    return {at(0), at(1), at(2), at(3)};
  }
};
