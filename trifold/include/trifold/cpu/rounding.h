// Operations with a rounding mode in their name, and conversions between numbers: exactly rounded in each mode, and
// saturating where CUDA's are.
#pragma once

#include <trifold/cpu/qualifiers.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace trifold::cpu {

enum class Rounding { nearest = FE_TONEAREST, zero = FE_TOWARDZERO, up = FE_UPWARD, down = FE_DOWNWARD };

// Whether a number between two others is rounded to the one that is farther from zero.
constexpr bool rounds_away(Rounding mode, bool negative) {
  return negative ? mode == Rounding::down : mode == Rounding::up;
}
constexpr bool rounds_to_infinity(Rounding mode, bool negative) {
  return mode == Rounding::nearest || rounds_away(mode, negative);
}

// Makes x opaque to the compiler, which also does not move its computation or its use across a call.
template <class T>
__forceinline__ void hide(T& x) {
  __asm__ volatile("" : "+m"(x) : : "memory");
}

// f of the operands in a rounding mode, hidden from the compiler.
template <class Result, class F, class... Operands>
inline Result in_mode(Rounding mode, F f, Operands... operands) {
  if (mode == Rounding::nearest) return f(operands...);
  const int before = std::fegetround();
  std::fesetround(static_cast<int>(mode));
  (hide(operands), ...);
  Result result = f(operands...);
  hide(result);
  std::fesetround(before);
  return result;
}

// x as a double that a further rounding step rounds like x: truncated, and odd if it was inexact.
template <class Integer>
inline double to_odd(Integer x) {
  auto size = static_cast<uint64_t>(x);
  const bool negative = std::is_signed_v<Integer> && x < 0;
  if (negative) size = -size;
  if (size >> 53 != 0) size = (size & ~uint64_t{0xfff}) | ((size & 0xfff) != 0 ? uint64_t{0x1000} : 0);
  return negative ? -static_cast<double>(size) : static_cast<double>(size);
}

// The sum a * b + c, for a further rounding step: odd if it has more than 53 bits. Correct for factors of up to 26 bits
// each.
inline double multiply_add_to_odd(double a, double b, double c) {
  const double product = a * b, sum = product + c;
  if (!(std::fabs(sum) <= std::numeric_limits<double>::max())) return sum;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (c - back);  // Knuth's TwoSum
  const auto bits = bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  return bit_cast<double>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

// Saturates. NaN becomes 0, or for 64 bits the number with only the highest bit set (CUDA Math API, "Type Casting
// Intrinsics").
template <class Integer, class Float>
inline Integer to_integer(Float x, Rounding mode) {
  using Limits = std::numeric_limits<Integer>;
  if (x != x) return sizeof(Integer) < 8 ? Integer{0} : static_cast<Integer>(uint64_t{1} << 63);
  double whole = static_cast<double>(x);
  switch (mode) {
    case Rounding::nearest: whole = std::nearbyint(whole); break;
    case Rounding::zero: whole = std::trunc(whole); break;
    case Rounding::up: whole = std::ceil(whole); break;
    case Rounding::down: whole = std::floor(whole); break;
  }
  constexpr double beyond = 2.0 * static_cast<double>(Integer{1} << (Limits::digits - 1));
  if (whole >= beyond) return Limits::max();
  if (whole < static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<Integer>(whole);
}

}  // namespace trifold::cpu

// The names are derived from the operation and the mode: only macros can define them.
#define TRIFOLD_MODES(define, ...)                                                                                 \
  define(_rn, trifold::cpu::Rounding::nearest, __VA_ARGS__) define(_rz, trifold::cpu::Rounding::zero, __VA_ARGS__) \
      define(_ru, trifold::cpu::Rounding::up, __VA_ARGS__) define(_rd, trifold::cpu::Rounding::down, __VA_ARGS__)

#define TRIFOLD_UNARY(suffix, mode, name, T, expression)                      \
  inline T name##suffix(T a) {                                                \
    return trifold::cpu::in_mode<T>(mode, [](T a) { return expression; }, a); \
  }
#define TRIFOLD_BINARY(suffix, mode, name, T, expression)                             \
  inline T name##suffix(T a, T b) {                                                   \
    return trifold::cpu::in_mode<T>(mode, [](T a, T b) { return expression; }, a, b); \
  }
#define TRIFOLD_TERNARY(suffix, mode, name, T, expression)                                    \
  inline T name##suffix(T a, T b, T c) {                                                      \
    return trifold::cpu::in_mode<T>(mode, [](T a, T b, T c) { return expression; }, a, b, c); \
  }
#define TRIFOLD_TO_FLOAT(suffix, mode, name, To, From)                                    \
  inline To name##suffix(From x) {                                                        \
    return trifold::cpu::in_mode<To>(mode, [](From x) { return static_cast<To>(x); }, x); \
  }
#define TRIFOLD_TO_INTEGER(suffix, mode, name, To, From) \
  inline To name##suffix(From x) {                       \
    return trifold::cpu::to_integer<To>(x, mode);        \
  }

TRIFOLD_MODES(TRIFOLD_BINARY, __fadd, float, a + b)
TRIFOLD_MODES(TRIFOLD_BINARY, __fsub, float, a - b)
TRIFOLD_MODES(TRIFOLD_BINARY, __fmul, float, a* b)
TRIFOLD_MODES(TRIFOLD_BINARY, __fdiv, float, a / b)
TRIFOLD_MODES(TRIFOLD_UNARY, __frcp, float, 1 / a)
TRIFOLD_MODES(TRIFOLD_UNARY, __fsqrt, float, std::sqrt(a))
TRIFOLD_MODES(TRIFOLD_TERNARY, __fmaf, float, std::fma(a, b, c))
TRIFOLD_MODES(TRIFOLD_BINARY, __dadd, double, a + b)
TRIFOLD_MODES(TRIFOLD_BINARY, __dsub, double, a - b)
TRIFOLD_MODES(TRIFOLD_BINARY, __dmul, double, a* b)
TRIFOLD_MODES(TRIFOLD_BINARY, __ddiv, double, a / b)
TRIFOLD_MODES(TRIFOLD_UNARY, __drcp, double, 1 / a)
TRIFOLD_MODES(TRIFOLD_UNARY, __dsqrt, double, std::sqrt(a))
TRIFOLD_MODES(TRIFOLD_TERNARY, __fma, double, std::fma(a, b, c))

TRIFOLD_MODES(TRIFOLD_TO_FLOAT, __double2float, float, double)
TRIFOLD_MODES(TRIFOLD_TO_FLOAT, __int2float, float, int)
TRIFOLD_MODES(TRIFOLD_TO_FLOAT, __uint2float, float, unsigned)
TRIFOLD_MODES(TRIFOLD_TO_FLOAT, __ll2float, float, long long)
TRIFOLD_MODES(TRIFOLD_TO_FLOAT, __ull2float, float, unsigned long long)
TRIFOLD_MODES(TRIFOLD_TO_FLOAT, __ll2double, double, long long)
TRIFOLD_MODES(TRIFOLD_TO_FLOAT, __ull2double, double, unsigned long long)
TRIFOLD_MODES(TRIFOLD_TO_INTEGER, __float2int, int, float)
TRIFOLD_MODES(TRIFOLD_TO_INTEGER, __float2uint, unsigned, float)
TRIFOLD_MODES(TRIFOLD_TO_INTEGER, __float2ll, long long, float)
TRIFOLD_MODES(TRIFOLD_TO_INTEGER, __float2ull, unsigned long long, float)
TRIFOLD_MODES(TRIFOLD_TO_INTEGER, __double2int, int, double)
TRIFOLD_MODES(TRIFOLD_TO_INTEGER, __double2uint, unsigned, double)
TRIFOLD_MODES(TRIFOLD_TO_INTEGER, __double2ll, long long, double)
TRIFOLD_MODES(TRIFOLD_TO_INTEGER, __double2ull, unsigned long long, double)

#undef TRIFOLD_TO_INTEGER
#undef TRIFOLD_TO_FLOAT
#undef TRIFOLD_TERNARY
#undef TRIFOLD_BINARY
#undef TRIFOLD_UNARY
#undef TRIFOLD_MODES

inline double __int2double_rn(int x) {
  return x;
}
inline double __uint2double_rn(unsigned x) {
  return x;
}
// 1 / sqrt(x), rounded once: 64 bits are enough before the rounding.
inline float __frsqrt_rn(float x) {
  return static_cast<float>(1 / std::sqrt(static_cast<long double>(x)));
}
