// CUDA's 16-bit floats: IEEE binary16 and bfloat16. An operation is computed in double and rounded, with the result of
// the GPU, which rounds once: for +, -, *, / and the square root, rounding to 53 bits and then to 11 or 8 gives the
// same.
#pragma once

#include <trifold/cpu/rounding.h>
#include <trifold/cpu/vectors.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace trifold::cpu {

// The value nearest to a double, as bits, in a format with `fraction` bits whose exponents begin at `least`.
template <int fraction, int least>
inline uint16_t narrow(double x, Rounding mode) {
  const auto wide = bit_cast<uint64_t>(x);
  const bool negative = wide >> 63 != 0;
  const double size = std::fabs(x);
  if (size != size) return 0x7fff;
  constexpr int infinity = (3 - 2 * least) << fraction;  // the exponent field after the largest
  const uint16_t sign = negative ? 0x8000 : 0;
  if (size > std::numeric_limits<double>::max()) return static_cast<uint16_t>(sign | infinity);
  int exponent = static_cast<int>(wide >> 52 & 0x7ff) - 1023;
  if (exponent < least) exponent = least;
  // In units of the last place; exact, since it is a division by a power of two.
  const double units = size / bit_cast<double>(static_cast<uint64_t>(exponent - fraction + 1023) << 52);
  if (exponent > 1 - least)
    return static_cast<uint16_t>(sign | (infinity - (rounds_to_infinity(mode, negative) ? 0 : 1)));
  auto whole = static_cast<int>(units);
  const double rest = units - whole;
  const bool up = mode == Rounding::nearest ? rest > 0.5 || (rest == 0.5 && (whole & 1) != 0)
                                            : rest > 0 && rounds_away(mode, negative);
  whole += up ? 1 : 0;
  return static_cast<uint16_t>(sign | (((exponent - least) << fraction) + whole));
}

struct Half {
  static constexpr uint16_t infinity = 0x7c00;

  // Branch-free, so that a loop of conversions is vectorised.
  static float widen(uint16_t bits) {
    const uint32_t shifted = uint32_t{bits & 0x7fffu} << 13;
    const uint32_t normal = shifted + ((127u - 15u) << 23);
    const uint32_t special = normal + ((128u - 16u) << 23);
    const float subnormal = bit_cast<float>(shifted + (113u << 23)) - 0x1p-14f;
    const uint32_t size = shifted >= 0x0f800000u  ? special
                          : shifted < 0x00800000u ? bit_cast<uint32_t>(subnormal)
                                                  : normal;
    return bit_cast<float>(size | uint32_t{bits & 0x8000u} << 16);
  }
  static uint16_t narrow(float x) {
    const auto all = bit_cast<uint32_t>(x);
    const uint32_t sign = all >> 16 & 0x8000u, size = all & 0x7fffffffu;
    const uint32_t normal = (size - ((127u - 15u) << 23) + 0xfffu + (size >> 13 & 1u)) >> 13;
    // The last place of the sum is that of the subnormal numbers.
    const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(size) + 0.5f) - (126u << 23);
    const uint32_t special = size > 0x7f800000u ? 0x7fffu : 0x7c00u;
    const uint32_t bits = size >= (143u << 23) ? special : size < (113u << 23) ? subnormal : normal;
    return static_cast<uint16_t>(size > 0x7f800000u ? 0x7fffu : bits | sign);
  }
  static uint16_t narrow(double x, Rounding mode = Rounding::nearest) { return cpu::narrow<10, -14>(x, mode); }
};

struct Bfloat16 {
  static constexpr uint16_t infinity = 0x7f80;

  static float widen(uint16_t bits) { return bit_cast<float>(uint32_t{bits} << 16); }
  static uint16_t narrow(float x) {
    const auto word = bit_cast<uint32_t>(x);
    const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    return nan ? uint16_t{0x7fff} : static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  static uint16_t narrow(double x, Rounding mode = Rounding::nearest) { return cpu::narrow<7, -126>(x, mode); }
};

// The common part of __half and __nv_bfloat16. Always inlined, so that in a checked port the access is at a line of the
// kernel.
template <class Self, class Format_>
struct Float16 {
  using Format = Format_;
  uint16_t bits;

  Float16() = default;
  template <class Number>
    requires std::is_arithmetic_v<Number>
  __forceinline__ Float16(Number x) {
    if constexpr (same_as<Number, float>) {
      bits = Format::narrow(x);
    } else if constexpr (same_as<Number, double> || sizeof(Number) <= 4) {
      bits = Format::narrow(static_cast<double>(x), Rounding::nearest);
    } else {
      bits = Format::narrow(to_odd(x), Rounding::nearest);
    }
  }
  static __forceinline__ Self of(double x, Rounding mode = Rounding::nearest) {
    return of_bits(Format::narrow(x, mode));
  }
  static __forceinline__ Self of_bits(uint16_t bits) {
    Self made;
    made.bits = bits;
    return made;
  }

  __forceinline__ operator float() const { return Format::widen(bits); }
  template <class Integer>
    requires std::is_integral_v<Integer>
  __forceinline__ operator Integer() const {
    if constexpr (same_as<Integer, bool>)
      return (bits & 0x7fff) != 0;
    else
      return to_integer<Integer>(Format::widen(bits), Rounding::zero);
  }

  friend __forceinline__ Self operator+(Self a, Self b) { return of(double{float(a)} + float(b)); }
  friend __forceinline__ Self operator-(Self a, Self b) { return of(double{float(a)} - float(b)); }
  friend __forceinline__ Self operator*(Self a, Self b) { return of(double{float(a)} * float(b)); }
  friend __forceinline__ Self operator/(Self a, Self b) { return of(double{float(a)} / float(b)); }
  friend __forceinline__ Self operator+(Self a) { return a; }
  friend __forceinline__ Self operator-(Self a) { return of_bits(a.bits ^ 0x8000); }
  friend __forceinline__ Self& operator+=(Self& a, Self b) { return a = a + b; }
  friend __forceinline__ Self& operator-=(Self& a, Self b) { return a = a - b; }
  friend __forceinline__ Self& operator*=(Self& a, Self b) { return a = a * b; }
  friend __forceinline__ Self& operator/=(Self& a, Self b) { return a = a / b; }
  friend __forceinline__ Self& operator++(Self& a) { return a = a + Self(1.0f); }
  friend __forceinline__ Self& operator--(Self& a) { return a = a - Self(1.0f); }
  friend __forceinline__ Self operator++(Self& a, int) {
    const Self before = a;
    ++a;
    return before;
  }
  friend __forceinline__ Self operator--(Self& a, int) {
    const Self before = a;
    --a;
    return before;
  }
  friend __forceinline__ bool operator==(Self a, Self b) { return float(a) == float(b); }
  friend __forceinline__ bool operator!=(Self a, Self b) { return float(a) < float(b) || float(a) > float(b); }
  friend __forceinline__ bool operator<(Self a, Self b) { return float(a) < float(b); }
  friend __forceinline__ bool operator<=(Self a, Self b) { return float(a) <= float(b); }
  friend __forceinline__ bool operator>(Self a, Self b) { return float(a) > float(b); }
  friend __forceinline__ bool operator>=(Self a, Self b) { return float(a) >= float(b); }
};

// Two of them in a word.
template <class Self, class Element>
struct alignas(4) Pair {
  using Scalar = Element;
  Element x, y;

  Pair() = default;
  __forceinline__ Pair(Element x, Element y) : x(x), y(y) {}

  friend __forceinline__ Self operator+(Self a, Self b) { return {a.x + b.x, a.y + b.y}; }
  friend __forceinline__ Self operator-(Self a, Self b) { return {a.x - b.x, a.y - b.y}; }
  friend __forceinline__ Self operator*(Self a, Self b) { return {a.x * b.x, a.y * b.y}; }
  friend __forceinline__ Self operator/(Self a, Self b) { return {a.x / b.x, a.y / b.y}; }
  friend __forceinline__ Self operator-(Self a) { return {-a.x, -a.y}; }
  friend __forceinline__ Self& operator+=(Self& a, Self b) { return a = a + b; }
  friend __forceinline__ Self& operator-=(Self& a, Self b) { return a = a - b; }
  friend __forceinline__ Self& operator*=(Self& a, Self b) { return a = a * b; }
  friend __forceinline__ Self& operator/=(Self& a, Self b) { return a = a / b; }
  // Whether the comparison holds for both elements.
  friend __forceinline__ bool operator==(Self a, Self b) { return a.x == b.x && a.y == b.y; }
  friend __forceinline__ bool operator!=(Self a, Self b) { return a.x != b.x && a.y != b.y; }
  friend __forceinline__ bool operator<(Self a, Self b) { return a.x < b.x && a.y < b.y; }
  friend __forceinline__ bool operator<=(Self a, Self b) { return a.x <= b.x && a.y <= b.y; }
  friend __forceinline__ bool operator>(Self a, Self b) { return a.x > b.x && a.y > b.y; }
  friend __forceinline__ bool operator>=(Self a, Self b) { return a.x >= b.x && a.y >= b.y; }
};

template <class T>
concept SmallFloat = derived_from<T, Float16<T, typename T::Format>>;
template <class T>
concept SmallPair = derived_from<T, Pair<T, typename T::Scalar>>;

}  // namespace trifold::cpu

struct __nv_bfloat16;
struct __half : trifold::cpu::Float16<__half, trifold::cpu::Half> {
  using Float16::Float16;
  __half() = default;
  explicit __half(__nv_bfloat16 x);
};
struct __nv_bfloat16 : trifold::cpu::Float16<__nv_bfloat16, trifold::cpu::Bfloat16> {
  using Float16::Float16;
  __nv_bfloat16() = default;
  __forceinline__ explicit __nv_bfloat16(__half x) : Float16(float(x)) {}
};
__forceinline__ __half::__half(__nv_bfloat16 x) : Float16(float(x)) {}
struct __half2 : trifold::cpu::Pair<__half2, __half> {
  using Pair::Pair;
};
struct __nv_bfloat162 : trifold::cpu::Pair<__nv_bfloat162, __nv_bfloat16> {
  using Pair::Pair;
};
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
