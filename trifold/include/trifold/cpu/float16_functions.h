// CUDA's functions of 16-bit floats, for __half and __nv_bfloat16 and pairs of them.
#pragma once

#include <trifold/cpu/float16.h>

#include <cmath>
#include <type_traits>

namespace trifold::cpu {

template <SmallPair P, class F>
__forceinline__ P of_both(F f, const P& a) {
  return {f(a.x), f(a.y)};
}
template <SmallPair P, class F>
__forceinline__ P of_both(F f, const P& a, const P& b) {
  return {f(a.x, b.x), f(a.y, b.y)};
}

template <SmallFloat T>
bool is_nan(T a) {
  return float(a) != float(a);
}
// If one operand is NaN, the other one; -0 is less than +0.
template <SmallFloat T>
T smaller(T a, T b) {
  if (is_nan(a)) return b;
  if (float(a) == 0 && float(b) == 0) return T::of_bits(a.bits | b.bits);
  return float(b) < float(a) ? b : a;
}
template <SmallFloat T>
T larger(T a, T b) {
  if (is_nan(a)) return b;
  if (float(a) == 0 && float(b) == 0) return T::of_bits(a.bits & b.bits);
  return float(b) > float(a) ? b : a;
}
template <SmallFloat T>
T saturated(T a) {
  return float(a) > 0 ? (float(a) < 1 ? a : T(1.0f)) : T(0.0f);
}

}  // namespace trifold::cpu

// ---------------------------------------------------------------------------------------------------- arithmetic

// The names are derived from the operation's: only macros can define them.
#define TRIFOLD_BINARY(name, pair_name, expression)                               \
  template <trifold::cpu::SmallFloat T>                                           \
  __forceinline__ T name(T a, trifold::cpu::Same<T> b) {                          \
    return expression;                                                            \
  }                                                                               \
  template <trifold::cpu::SmallPair P>                                            \
  __forceinline__ P pair_name(P a, trifold::cpu::Same<P> b) {                     \
    using T = typename P::Scalar;                                                 \
    return trifold::cpu::of_both([](T a, T b) -> T { return expression; }, a, b); \
  }
TRIFOLD_BINARY(__hadd, __hadd2, a + b)
TRIFOLD_BINARY(__hsub, __hsub2, a - b)
TRIFOLD_BINARY(__hmul, __hmul2, a* b)
TRIFOLD_BINARY(__hadd_rn, __hadd2_rn, a + b)
TRIFOLD_BINARY(__hsub_rn, __hsub2_rn, a - b)
TRIFOLD_BINARY(__hmul_rn, __hmul2_rn, a* b)
TRIFOLD_BINARY(__hadd_sat, __hadd2_sat, trifold::cpu::saturated(a + b))
TRIFOLD_BINARY(__hsub_sat, __hsub2_sat, trifold::cpu::saturated(a - b))
TRIFOLD_BINARY(__hmul_sat, __hmul2_sat, trifold::cpu::saturated(a* b))
TRIFOLD_BINARY(__hmax, __hmax2, trifold::cpu::larger(a, b))
TRIFOLD_BINARY(__hmin, __hmin2, trifold::cpu::smaller(a, b))
TRIFOLD_BINARY(__hmax_nan, __hmax2_nan,
               trifold::cpu::is_nan(a) || trifold::cpu::is_nan(b) ? T::of_bits(0x7fff) : trifold::cpu::larger(a, b))
TRIFOLD_BINARY(__hmin_nan, __hmin2_nan,
               trifold::cpu::is_nan(a) || trifold::cpu::is_nan(b) ? T::of_bits(0x7fff) : trifold::cpu::smaller(a, b))
#undef TRIFOLD_BINARY

template <trifold::cpu::SmallFloat T>
__forceinline__ T __hdiv(T a, trifold::cpu::Same<T> b) {
  return a / b;
}
template <trifold::cpu::SmallPair P>
__forceinline__ P __h2div(P a, trifold::cpu::Same<P> b) {
  return a / b;
}

#define TRIFOLD_TERNARY(name, pair_name, expression)                                      \
  template <trifold::cpu::SmallFloat T>                                                   \
  __forceinline__ T name(T a, trifold::cpu::Same<T> b, trifold::cpu::Same<T> c) {         \
    const T sum = T::of(trifold::cpu::multiply_add_to_odd(float(a), float(b), float(c))); \
    return expression;                                                                    \
  }                                                                                       \
  template <trifold::cpu::SmallPair P>                                                    \
  __forceinline__ P pair_name(P a, trifold::cpu::Same<P> b, trifold::cpu::Same<P> c) {    \
    return {name(a.x, b.x, c.x), name(a.y, b.y, c.y)};                                    \
  }
TRIFOLD_TERNARY(__hfma, __hfma2, sum)
TRIFOLD_TERNARY(__hfma_sat, __hfma2_sat, trifold::cpu::saturated(sum))
TRIFOLD_TERNARY(__hfma_relu, __hfma2_relu, trifold::cpu::is_nan(sum) ? sum : trifold::cpu::larger(sum, T(0.0f)))
#undef TRIFOLD_TERNARY

#define TRIFOLD_UNARY(name, pair_name, expression) \
  template <trifold::cpu::SmallFloat T>            \
  __forceinline__ T name(T a) {                    \
    return expression;                             \
  }                                                \
  template <trifold::cpu::SmallPair P>             \
  __forceinline__ P pair_name(P a) {               \
    return {name(a.x), name(a.y)};                 \
  }
TRIFOLD_UNARY(__hneg, __hneg2, -a)
TRIFOLD_UNARY(__habs, __habs2, T::of_bits(a.bits & 0x7fff))
TRIFOLD_UNARY(hsqrt, h2sqrt, T::of(std::sqrt(double{float(a)})))
TRIFOLD_UNARY(hrsqrt, h2rsqrt, T::of(1 / std::sqrt(double{float(a)})))
TRIFOLD_UNARY(hrcp, h2rcp, T::of(1 / double{float(a)}))
TRIFOLD_UNARY(hexp, h2exp, T::of(std::exp(double{float(a)})))
TRIFOLD_UNARY(hexp2, h2exp2, T::of(std::exp2(double{float(a)})))
TRIFOLD_UNARY(hexp10, h2exp10, T::of(std::pow(10.0, double{float(a)})))
TRIFOLD_UNARY(hlog, h2log, T::of(std::log(double{float(a)})))
TRIFOLD_UNARY(hlog2, h2log2, T::of(std::log2(double{float(a)})))
TRIFOLD_UNARY(hlog10, h2log10, T::of(std::log10(double{float(a)})))
TRIFOLD_UNARY(hsin, h2sin, T::of(std::sin(double{float(a)})))
TRIFOLD_UNARY(hcos, h2cos, T::of(std::cos(double{float(a)})))
TRIFOLD_UNARY(htanh, h2tanh, T::of(std::tanh(double{float(a)})))
TRIFOLD_UNARY(htanh_approx, h2tanh_approx, T::of(std::tanh(double{float(a)})))
TRIFOLD_UNARY(hceil, h2ceil, T(std::ceil(float(a))))
TRIFOLD_UNARY(hfloor, h2floor, T(std::floor(float(a))))
TRIFOLD_UNARY(htrunc, h2trunc, T(std::trunc(float(a))))
TRIFOLD_UNARY(hrint, h2rint, T(std::nearbyint(float(a))))
#undef TRIFOLD_UNARY

// ---------------------------------------------------------------------------------------------------- comparison

// Of two numbers; of both pairs' elements, as 1 or 0; and whether it holds for both. The forms with a u also hold for
// NaN.
#define TRIFOLD_COMPARISON(name, ordered)                                              \
  template <trifold::cpu::SmallFloat T>                                                \
  __forceinline__ bool __h##name(T a, trifold::cpu::Same<T> b) {                       \
    return a ordered b;                                                                \
  }                                                                                    \
  template <trifold::cpu::SmallFloat T>                                                \
  __forceinline__ bool __h##name##u(T a, trifold::cpu::Same<T> b) {                    \
    return a ordered b || trifold::cpu::is_nan(a) || trifold::cpu::is_nan(b);          \
  }                                                                                    \
  template <trifold::cpu::SmallPair P>                                                 \
  __forceinline__ P __h##name##2(P a, trifold::cpu::Same<P> b) {                       \
    using T = typename P::Scalar;                                                      \
    return {a.x ordered b.x ? T(1.0f) : T(0.0f), a.y ordered b.y ? T(1.0f) : T(0.0f)}; \
  }                                                                                    \
  template <trifold::cpu::SmallPair P>                                                 \
  __forceinline__ bool __hb##name##2(P a, trifold::cpu::Same<P> b) {                   \
    return a.x ordered b.x && a.y ordered b.y;                                         \
  }
TRIFOLD_COMPARISON(eq, ==)
TRIFOLD_COMPARISON(ne, !=)
TRIFOLD_COMPARISON(lt, <)
TRIFOLD_COMPARISON(le, <=)
TRIFOLD_COMPARISON(gt, >)
TRIFOLD_COMPARISON(ge, >=)
#undef TRIFOLD_COMPARISON

template <trifold::cpu::SmallFloat T>
bool __hisnan(T a) {
  return trifold::cpu::is_nan(a);
}
// 1 or -1 for infinities, 0 for finite numbers and NaN.
template <trifold::cpu::SmallFloat T>
int __hisinf(T a) {
  return (a.bits & 0x7fff) != T::Format::infinity ? 0 : a.bits & 0x8000 ? -1 : 1;
}

// ---------------------------------------------------------------------------------------------------- conversions

#define TRIFOLD_SCALAR(T, short_name, Pair)                            \
  __forceinline__ T __float2##short_name(float x) {                    \
    return x;                                                          \
  }                                                                    \
  __forceinline__ T __float2##short_name##_rn(float x) {               \
    return x;                                                          \
  }                                                                    \
  __forceinline__ T __float2##short_name##_rz(float x) {               \
    return T::of(x, trifold::cpu::Rounding::zero);                     \
  }                                                                    \
  __forceinline__ T __float2##short_name##_ru(float x) {               \
    return T::of(x, trifold::cpu::Rounding::up);                       \
  }                                                                    \
  __forceinline__ T __float2##short_name##_rd(float x) {               \
    return T::of(x, trifold::cpu::Rounding::down);                     \
  }                                                                    \
  __forceinline__ T __double2##short_name(double x) {                  \
    return x;                                                          \
  }                                                                    \
  __forceinline__ T __int2##short_name##_rn(int x) {                   \
    return x;                                                          \
  }                                                                    \
  __forceinline__ T __uint2##short_name##_rn(unsigned x) {             \
    return x;                                                          \
  }                                                                    \
  __forceinline__ T __short2##short_name##_rn(short x) {               \
    return x;                                                          \
  }                                                                    \
  __forceinline__ T __ushort2##short_name##_rn(unsigned short x) {     \
    return x;                                                          \
  }                                                                    \
  __forceinline__ T __ll2##short_name##_rn(long long x) {              \
    return x;                                                          \
  }                                                                    \
  __forceinline__ T __ull2##short_name##_rn(unsigned long long x) {    \
    return x;                                                          \
  }                                                                    \
  __forceinline__ float __##short_name##2float(T x) {                  \
    return x;                                                          \
  }                                                                    \
  __forceinline__ T __short_as_##short_name(short x) {                 \
    return T::of_bits(static_cast<unsigned short>(x));                 \
  }                                                                    \
  __forceinline__ T __ushort_as_##short_name(unsigned short x) {       \
    return T::of_bits(x);                                              \
  }                                                                    \
  __forceinline__ short __##short_name##_as_short(T x) {               \
    return static_cast<short>(x.bits);                                 \
  }                                                                    \
  __forceinline__ unsigned short __##short_name##_as_ushort(T x) {     \
    return x.bits;                                                     \
  }                                                                    \
  __forceinline__ Pair __float2##short_name##2_rn(float x) {           \
    return {x, x};                                                     \
  }                                                                    \
  __forceinline__ Pair __floats2##short_name##2_rn(float x, float y) { \
    return {x, y};                                                     \
  }                                                                    \
  __forceinline__ Pair __float22##short_name##2_rn(float2 x) {         \
    return {x.x, x.y};                                                 \
  }                                                                    \
  __forceinline__ float2 __##short_name##22float2(Pair x) {            \
    return {x.x, x.y};                                                 \
  }                                                                    \
  __forceinline__ T __low2##short_name(Pair x) {                       \
    return x.x;                                                        \
  }                                                                    \
  __forceinline__ T __high2##short_name(Pair x) {                      \
    return x.y;                                                        \
  }                                                                    \
  __forceinline__ Pair __low2##short_name##2(Pair x) {                 \
    return {x.x, x.x};                                                 \
  }                                                                    \
  __forceinline__ Pair __high2##short_name##2(Pair x) {                \
    return {x.y, x.y};                                                 \
  }                                                                    \
  __forceinline__ Pair __lows2##short_name##2(Pair x, Pair y) {        \
    return {x.x, y.x};                                                 \
  }                                                                    \
  __forceinline__ Pair __highs2##short_name##2(Pair x, Pair y) {       \
    return {x.y, y.y};                                                 \
  }                                                                    \
  __forceinline__ Pair __halves2##short_name##2(T x, T y) {            \
    return {x, y};                                                     \
  }                                                                    \
  __forceinline__ Pair __##short_name##2##short_name##2(T x) {         \
    return {x, x};                                                     \
  }                                                                    \
  __forceinline__ Pair make_##short_name##2(T x, T y) {                \
    return {x, y};                                                     \
  }

// Numbers out of range are clamped.
#define TRIFOLD_TO_INTEGER(T, short_name, name, To)                                 \
  __forceinline__ To __##short_name##2##name##_rn(T x) {                            \
    return trifold::cpu::to_integer<To>(float(x), trifold::cpu::Rounding::nearest); \
  }                                                                                 \
  __forceinline__ To __##short_name##2##name##_rz(T x) {                            \
    return trifold::cpu::to_integer<To>(float(x), trifold::cpu::Rounding::zero);    \
  }                                                                                 \
  __forceinline__ To __##short_name##2##name##_ru(T x) {                            \
    return trifold::cpu::to_integer<To>(float(x), trifold::cpu::Rounding::up);      \
  }                                                                                 \
  __forceinline__ To __##short_name##2##name##_rd(T x) {                            \
    return trifold::cpu::to_integer<To>(float(x), trifold::cpu::Rounding::down);    \
  }
#define TRIFOLD_TO_INTEGERS(T, short_name)                  \
  TRIFOLD_TO_INTEGER(T, short_name, int, int)               \
  TRIFOLD_TO_INTEGER(T, short_name, uint, unsigned)         \
  TRIFOLD_TO_INTEGER(T, short_name, short, short)           \
  TRIFOLD_TO_INTEGER(T, short_name, ushort, unsigned short) \
  TRIFOLD_TO_INTEGER(T, short_name, ll, long long)          \
  TRIFOLD_TO_INTEGER(T, short_name, ull, unsigned long long)

TRIFOLD_SCALAR(__half, half, __half2)
TRIFOLD_SCALAR(__nv_bfloat16, bfloat16, __nv_bfloat162)
TRIFOLD_TO_INTEGERS(__half, half)
TRIFOLD_TO_INTEGERS(__nv_bfloat16, bfloat16)

#undef TRIFOLD_TO_INTEGERS
#undef TRIFOLD_TO_INTEGER
#undef TRIFOLD_SCALAR

template <trifold::cpu::SmallPair P>
__forceinline__ float __low2float(P x) {
  return x.x;
}
template <trifold::cpu::SmallPair P>
__forceinline__ float __high2float(P x) {
  return x.y;
}
template <trifold::cpu::SmallPair P>
__forceinline__ P __lowhigh2highlow(P x) {
  return {x.y, x.x};
}
