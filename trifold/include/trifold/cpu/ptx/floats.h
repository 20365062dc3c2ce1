// Arithmetic of floats. Approximate instructions are exact here, up to the last place of the C library's functions,
// which is within PTX's bounds.
#pragma once

#include <trifold/cpu/float16_functions.h>
#include <trifold/cpu/math.h>
#include <trifold/cpu/ptx/registers.h>

#include <cmath>
#include <limits>

namespace trifold::ptx {

template <class T>
concept SmallFloat = cpu::same_as<T, f16> || cpu::same_as<T, bf16>;
template <class T>
concept SmallPair = cpu::same_as<T, f16x2> || cpu::same_as<T, bf16x2>;
template <class T>
concept Float = cpu::same_as<T, f32> || cpu::same_as<T, f64> || SmallFloat<T> || SmallPair<T>;

// The rounding mode among an instruction's modifiers.
template <class... M>
inline constexpr cpu::Rounding rounding_of =
    has<modifier::rz_, M...> || has<modifier::rzi_, M...>   ? cpu::Rounding::zero
    : has<modifier::rm_, M...> || has<modifier::rmi_, M...> ? cpu::Rounding::down
    : has<modifier::rp_, M...> || has<modifier::rpi_, M...> ? cpu::Rounding::up
                                                            : cpu::Rounding::nearest;

template <class T>
__forceinline__ bool is_nan(T x) {
  return static_cast<double>(x) != static_cast<double>(x);
}
// The NaN that PTX's instructions generate.
template <class T>
__forceinline__ T canonical_nan() {
  if constexpr (sizeof(T) == 8)
    return cpu::bit_cast<T>(uint64_t{0x7fffffffffffffff});
  else if constexpr (sizeof(T) == 4)
    return cpu::bit_cast<T>(uint32_t{0x7fffffff});
  else
    return cpu::bit_cast<T>(uint16_t{0x7fff});
}

// With .ftz, subnormal numbers become zeros of the same sign. (A bfloat16 has float's exponents.)
template <class T, class... M>
__forceinline__ T flushed(T x) {
  if constexpr (has<modifier::ftz_, M...> && !cpu::same_as<T, f64>) {
    constexpr float least = cpu::same_as<T, f16> ? 0x1p-14f : 0x1p-126f;
    if (std::fabs(static_cast<float>(x)) < least) return static_cast<T>(std::copysign(0.0f, static_cast<float>(x)));
  }
  return x;
}
// Clamps to [0, 1] and NaN to 0 with .sat; to 0 and above with .relu.
template <class T, class... M>
__forceinline__ T limited(T x) {
  if constexpr (has<modifier::sat_, M...>)
    return static_cast<float>(x) > 0 ? (static_cast<double>(x) < 1 ? x : T(1.0f)) : T(0.0f);
  else if constexpr (has<modifier::relu_, M...>)
    return is_nan(x) ? canonical_nan<T>() : static_cast<float>(x) > 0 ? x : T(0.0f);
  else
    return x;
}

// f of the operands, flushed, rounded and limited according to the modifiers; for a pair, of each half.
template <Float T, class... M, class F, class D, class... Operands>
__forceinline__ void compute(D& d, F f, Operands... operands) {
  if constexpr (SmallPair<T>) {
    using Part = typename T::Scalar;
    const auto part = [&](auto... each) {
      return limited<Part, M...>(flushed<Part, M...>(f(flushed<Part, M...>(each)...)));
    };
    put(d, T(part(get<T>(operands).x...), part(get<T>(operands).y...)));
  } else if constexpr (SmallFloat<T>) {
    put(d, limited<T, M...>(flushed<T, M...>(f(flushed<T, M...>(get<T>(operands))...))));
  } else {
    const T result = cpu::in_mode<T>(rounding_of<M...>, f, flushed<T, M...>(get<T>(operands))...);
    put(d, limited<T, M...>(flushed<T, M...>(result)));
  }
}

template <Float T, class... M, class D, class A, class B>
__forceinline__ void add_(D& d, A a, B b) {
  compute<T, M...>(d, [](auto x, auto y) { return x + y; }, a, b);
}
template <Float T, class... M, class D, class A, class B>
__forceinline__ void sub_(D& d, A a, B b) {
  compute<T, M...>(d, [](auto x, auto y) { return x - y; }, a, b);
}
template <Float T, class... M, class D, class A, class B>
__forceinline__ void mul_(D& d, A a, B b) {
  compute<T, M...>(d, [](auto x, auto y) { return x * y; }, a, b);
}
template <Float T, class... M, class D, class A, class B, class C>
__forceinline__ void fma_(D& d, A a, B b, C c) {
  const auto multiply_add = [](auto x, auto y, auto z) {
    if constexpr (SmallFloat<decltype(x)>)
      return __hfma(x, y, z);
    else
      return std::fma(x, y, z);
  };
  compute<T, M...>(d, multiply_add, a, b, c);
}
template <Float T, class... M, class D, class A, class B, class C>
__forceinline__ void mad_(D& d, A a, B b, C c) {
  fma_<T, M...>(d, a, b, c);
}
template <Float T, class... M, class D, class A, class B>
__forceinline__ void div_(D& d, A a, B b) {
  if constexpr (has<modifier::approx_, M...>)
    compute<T, M...>(d, [](float x, float y) { return __fdividef(x, y); }, a, b);
  else
    compute<T, M...>(d, [](auto x, auto y) { return x / y; }, a, b);
}

template <Float T, class... M, class D, class A>
__forceinline__ void neg_(D& d, A a) {
  compute<T, M...>(d, [](auto x) { return -x; }, a);
}
template <Float T, class... M, class D, class A>
__forceinline__ void abs_(D& d, A a) {
  const auto size = [](auto x) {
    if constexpr (SmallFloat<decltype(x)>)
      return __habs(x);
    else
      return std::fabs(x);
  };
  compute<T, M...>(d, size, a);
}

// If one operand is NaN, the other one, and -0 is less than +0; with .NaN, NaN if either operand is.
template <bool largest, bool nan, class T>
__forceinline__ T extreme(T x, T y) {
  if (is_nan(x) || is_nan(y)) {
    if (nan || (is_nan(x) && is_nan(y))) return canonical_nan<T>();
    return is_nan(x) ? y : x;
  }
  const auto a = static_cast<double>(x), b = static_cast<double>(y);
  const bool second = a == b ? std::signbit(largest ? a : b) : largest == (a < b);
  return second ? y : x;
}
template <Float T, class... M, class D, class A, class B>
__forceinline__ void min_(D& d, A a, B b) {
  compute<T, M...>(d, [](auto x, auto y) { return extreme<false, has<modifier::NaN_, M...>>(x, y); }, a, b);
}
template <Float T, class... M, class D, class A, class B>
__forceinline__ void max_(D& d, A a, B b) {
  compute<T, M...>(d, [](auto x, auto y) { return extreme<true, has<modifier::NaN_, M...>>(x, y); }, a, b);
}

// The magnitude of b with the sign of a.
template <Float T, class D, class A, class B>
__forceinline__ void copysign_(D& d, A a, B b) {
  put(d, std::copysign(get<T>(b), get<T>(a)));
}
template <Float T, class What, class D, class A>
__forceinline__ void testp_(D& d, A a) {
  using namespace modifier;
  const T x = get<T>(a);
  if constexpr (has<What, finite_>) put(d, std::isfinite(x));
  if constexpr (has<What, infinite_>) put(d, std::isinf(x));
  if constexpr (has<What, number_>) put(d, !std::isnan(x));
  if constexpr (has<What, notanumber_>) put(d, std::isnan(x));
  if constexpr (has<What, normal_>) put(d, std::isnormal(x));  // zero is neither normal nor subnormal
  if constexpr (has<What, subnormal_>) put(d, std::fpclassify(x) == FP_SUBNORMAL);
}

template <Float T, class... M, class D, class A>
__forceinline__ void rcp_(D& d, A a) {
  compute<T, M...>(d, [](auto x) { return 1 / x; }, a);
}
template <Float T, class... M, class D, class A>
__forceinline__ void sqrt_(D& d, A a) {
  compute<T, M...>(d, [](auto x) { return std::sqrt(x); }, a);
}

// The names are those of the functions: only a macro can define them. 16-bit forms compute in float.
#define TRIFOLD_APPROXIMATE(name, expression)                          \
  template <Float T, class... M, class D, class A>                     \
  __forceinline__ void name(D& d, A a) {                               \
    const auto f = [](auto given) {                                    \
      using X = decltype(given);                                       \
      using Real = std::conditional_t<cpu::same_as<X, f64>, f64, f32>; \
      const auto x = static_cast<Real>(given);                         \
      return static_cast<X>(expression);                               \
    };                                                                 \
    compute<T, M...>(d, f, a);                                         \
  }
TRIFOLD_APPROXIMATE(rsqrt_, 1 / std::sqrt(x))
TRIFOLD_APPROXIMATE(sin_, std::sin(x))
TRIFOLD_APPROXIMATE(cos_, std::cos(x))
TRIFOLD_APPROXIMATE(lg2_, std::log2(x))
TRIFOLD_APPROXIMATE(ex2_, std::exp2(x))
TRIFOLD_APPROXIMATE(tanh_, std::tanh(x))
#undef TRIFOLD_APPROXIMATE

// ---------------------------------------------------------------------------------------------------- comparisons

template <class Comparison, class T>
__forceinline__ bool compare(T a, T b) {
  using namespace modifier;
  using Wide = std::conditional_t<std::is_integral_v<T>, T, std::conditional_t<cpu::same_as<T, f64>, f64, f32>>;
  const auto x = static_cast<Wide>(a), y = static_cast<Wide>(b);
  if constexpr (has<Comparison, eq_>) return x == y;
  if constexpr (has<Comparison, lt_, lo_>) return x < y;
  if constexpr (has<Comparison, le_, ls_>) return x <= y;
  if constexpr (has<Comparison, gt_, hi_>) return x > y;
  if constexpr (has<Comparison, ge_, hs_>) return x >= y;
  if constexpr (std::is_integral_v<T>) {
    return x != y;
  } else {
    const bool unordered = is_nan(a) || is_nan(b);
    if constexpr (has<Comparison, ne_>) return !unordered && x != y;
    if constexpr (has<Comparison, num_>) return !unordered;
    if constexpr (has<Comparison, nan_>) return unordered;
    if constexpr (has<Comparison, equ_>) return unordered || x == y;
    if constexpr (has<Comparison, neu_>) return unordered || x != y;
    if constexpr (has<Comparison, ltu_>) return unordered || x < y;
    if constexpr (has<Comparison, leu_>) return unordered || x <= y;
    if constexpr (has<Comparison, gtu_>) return unordered || x > y;
    if constexpr (has<Comparison, geu_>) return unordered || x >= y;
  }
}
template <class T, class Comparison, class... M, class A, class B>
__forceinline__ bool compared(A a, B b) {
  if constexpr (std::is_integral_v<T>)
    return compare<Comparison>(get<T>(a), get<T>(b));
  else
    return compare<Comparison>(flushed<T, M...>(get<T>(a)), flushed<T, M...>(get<T>(b)));
}
template <class Logic>
constexpr bool combined(bool a, bool b) {
  return has<Logic, modifier::and_> ? a && b : has<Logic, modifier::or_> ? a || b : a != b;
}

// p is the comparison, q its negation.
template <class T, class Comparison, class... M, class P, class Q, class A, class B>
__forceinline__ void setp_(P& p, Q& q, A a, B b) {
  const bool is_so = compared<T, Comparison, M...>(a, b);
  put(p, is_so);
  put(q, !is_so);
}
template <class T, class Comparison, class Logic, class... M, class P, class Q, class A, class B>
__forceinline__ void setp_(P& p, Q& q, A a, B b, bool c) {
  const bool is_so = compared<T, Comparison, M...>(a, b);
  put(p, combined<Logic>(is_so, c));
  put(q, combined<Logic>(!is_so, c));
}
// All ones or 1.0f if it holds, else 0.
template <class To, class T, class Comparison, class... M, class D, class A, class B>
__forceinline__ void set_(D& d, A a, B b) {
  const bool is_so = compared<T, Comparison, M...>(a, b);
  put(d, static_cast<To>(std::is_integral_v<To> ? -static_cast<int>(is_so) : static_cast<int>(is_so)));
}
template <class T, class C, class... M, class D, class A, class B, class Of>
__forceinline__ void slct_(D& d, A a, B b, Of c) {
  bool first = false;
  if constexpr (cpu::same_as<C, s32>)
    first = get<C>(c) >= 0;
  else
    first = flushed<C, M...>(get<C>(c)) >= 0;
  put(d, first ? get<T>(a) : get<T>(b));
}

}  // namespace trifold::ptx
