// Arithmetic of integers.
#pragma once

#include <trifold/cpu/numbers.h>
#include <trifold/cpu/ptx/registers.h>

#include <cstdlib>
#include <limits>
#include <type_traits>

namespace trifold::ptx {

template <class T>
concept Integer = std::is_integral_v<T> && !cpu::same_as<T, bool>;

// Twice as wide as T.
template <Integer T>
using Double =
    std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;

// Saturates to a type.
template <Integer To, class From>
constexpr To clamped(From x) {
  using Limits = std::numeric_limits<To>;
  if (x < 0) return static_cast<__int128>(x) < Limits::min() ? Limits::min() : static_cast<To>(x);
  return static_cast<unsigned __int128>(x) > Limits::max() ? Limits::max() : static_cast<To>(x);
}

template <Integer T>
__forceinline__ T product(T a, T b, bool high) {
  const Double<T> both = static_cast<Double<T>>(a) * static_cast<Double<T>>(b);
  return static_cast<T>(high ? both >> 8 * sizeof(T) : both);
}

// a + b + carry; updates the carry.
template <Integer T>
__forceinline__ T add_with(T a, T b, bool& carry) {
  using U = std::make_unsigned_t<T>;
  const U first = static_cast<U>(a) + static_cast<U>(b), sum = first + (carry ? 1 : 0);
  carry = first < static_cast<U>(a) || sum < first;
  return static_cast<T>(sum);
}

template <Integer T, class... M, class D, class A, class B>
__forceinline__ void add_(D& d, A a, B b) {
  const auto sum = static_cast<Double<T>>(get<T>(a)) + get<T>(b);
  if constexpr (has<modifier::sat_, M...>)
    put(d, clamped<T>(sum));
  else
    put(d, static_cast<T>(sum));
}
template <Integer T, class... M, class D, class A, class B>
__forceinline__ void sub_(D& d, A a, B b) {
  const auto difference = static_cast<Double<T>>(get<T>(a)) - get<T>(b);
  if constexpr (has<modifier::sat_, M...>)
    put(d, clamped<T>(difference));
  else
    put(d, static_cast<T>(difference));
}
template <Integer T, class... M, class D, class A, class B>
__forceinline__ void addc_(D& d, A a, B b, bool& carry) {
  bool out = carry;
  put(d, add_with(get<T>(a), get<T>(b), out));
  if constexpr (has<modifier::cc_, M...>) carry = out;
}
template <Integer T, class... M, class D, class A, class B>
__forceinline__ void add_(D& d, A a, B b, bool& carry) {
  carry = false;
  addc_<T, modifier::cc_>(d, a, b, carry);
}
// A borrow is the carry of a difference; a - b - borrow is a + ~b + !borrow.
template <Integer T, class... M, class D, class A, class B>
__forceinline__ void subc_(D& d, A a, B b, bool& borrow) {
  bool carry = !borrow;
  put(d, add_with(get<T>(a), static_cast<T>(~get<T>(b)), carry));
  if constexpr (has<modifier::cc_, M...>) borrow = !carry;
}
template <Integer T, class... M, class D, class A, class B>
__forceinline__ void sub_(D& d, A a, B b, bool& borrow) {
  borrow = false;
  subc_<T, modifier::cc_>(d, a, b, borrow);
}

template <Integer T, class Part, class D, class A, class B>
__forceinline__ void mul_(D& d, A a, B b) {
  if constexpr (has<Part, modifier::wide_>)
    put(d, static_cast<Double<T>>(static_cast<Double<T>>(get<T>(a)) * get<T>(b)));
  else
    put(d, product(get<T>(a), get<T>(b), has<Part, modifier::hi_>));
}
template <Integer T, class Part, class D, class A, class B, class C>
__forceinline__ void mad_(D& d, A a, B b, C c) {
  if constexpr (has<Part, modifier::wide_>) {
    using U = std::make_unsigned_t<Double<T>>;
    const auto whole = static_cast<U>(static_cast<Double<T>>(get<T>(a)) * get<T>(b));
    put(d, static_cast<Double<T>>(whole + static_cast<U>(get<Double<T>>(c))));
  } else {
    using U = std::make_unsigned_t<T>;
    const auto part = static_cast<U>(product(get<T>(a), get<T>(b), has<Part, modifier::hi_>));
    put(d, static_cast<T>(part + static_cast<U>(get<T>(c))));
  }
}
template <Integer T, class Part, class... M, class D, class A, class B, class C>
__forceinline__ void madc_(D& d, A a, B b, C c, bool& carry) {
  bool out = carry;
  put(d, add_with(product(get<T>(a), get<T>(b), has<Part, modifier::hi_>), get<T>(c), out));
  if constexpr (has<modifier::cc_, M...>) carry = out;
}
template <Integer T, class Part, class... M, class D, class A, class B, class C>
__forceinline__ void mad_(D& d, A a, B b, C c, bool& carry) {
  carry = false;
  madc_<T, Part, modifier::cc_>(d, a, b, c, carry);
}
// Of the 48-bit product of two 24-bit numbers: the low 32 bits, or the high 32.
template <Integer T, class Part, class D, class A, class B>
__forceinline__ void mul24_(D& d, A a, B b) {
  const auto low = [](T x) { return static_cast<Double<T>>(static_cast<T>(static_cast<uint32_t>(x) << 8) >> 8); };
  const Double<T> whole = low(get<T>(a)) * low(get<T>(b));
  put(d, static_cast<T>(has<Part, modifier::hi_> ? whole >> 16 : whole));
}
template <Integer T, class D, class A, class B, class C>
__forceinline__ void sad_(D& d, A a, B b, C c) {
  using U = std::make_unsigned_t<T>;
  const T x = get<T>(a), y = get<T>(b);
  const U distance = x > y ? static_cast<U>(x) - static_cast<U>(y) : static_cast<U>(y) - static_cast<U>(x);
  put(d, static_cast<T>(distance + static_cast<U>(get<T>(c))));
}

// PTX leaves results of a division by zero open: here the quotient is all ones, and the remainder is the dividend.
template <Integer T, class D, class A, class B>
__forceinline__ void div_(D& d, A a, B b) {
  const T x = get<T>(a), y = get<T>(b);
  put(d, y == 0 ? static_cast<T>(-1) : static_cast<T>(static_cast<Double<T>>(x) / y));
}
template <Integer T, class D, class A, class B>
__forceinline__ void rem_(D& d, A a, B b) {
  const T x = get<T>(a), y = get<T>(b);
  put(d, y == 0 ? x : static_cast<T>(static_cast<Double<T>>(x) % y));
}

template <Integer T, class D, class A>
__forceinline__ void neg_(D& d, A a) {
  put(d, static_cast<T>(-static_cast<Double<T>>(get<T>(a))));
}
template <Integer T, class D, class A>
__forceinline__ void abs_(D& d, A a) {
  const auto x = static_cast<Double<T>>(get<T>(a));
  put(d, static_cast<T>(x < 0 ? -x : x));
}
template <Integer T, class... M, class D, class A, class B>
__forceinline__ void min_(D& d, A a, B b) {
  const T x = get<T>(a), y = get<T>(b), least = y < x ? y : x;
  put(d, has<modifier::relu_, M...> && least < T{0} ? T{0} : least);
}
template <Integer T, class... M, class D, class A, class B>
__forceinline__ void max_(D& d, A a, B b) {
  const T x = get<T>(a), y = get<T>(b), most = x < y ? y : x;
  put(d, has<modifier::relu_, M...> && most < T{0} ? T{0} : most);
}

// c plus the products of the parts of a and b; dp2a's parts are 16 bits of a and 8 of b.
template <bool is_signed, int bits>
using Part = std::conditional_t<bits == 8, std::conditional_t<is_signed, int8_t, uint8_t>,
                                std::conditional_t<is_signed, int16_t, uint16_t>>;
template <Integer X, Integer Y, class D, class A, class B, class C>
__forceinline__ void dp4a_(D& d, A a, B b, C c) {
  put(d, cpu::dot<Part<std::is_signed_v<X>, 8>, Part<std::is_signed_v<Y>, 8>>(get<uint32_t>(a), get<uint32_t>(b),
                                                                              get<uint32_t>(c)));
}
template <Integer X, Integer Y, class Half, class D, class A, class B, class C>
__forceinline__ void dp2a_(D& d, A a, B b, C c) {
  put(d, cpu::dot<Part<std::is_signed_v<X>, 16>, Part<std::is_signed_v<Y>, 8>>(
             get<uint32_t>(a), get<uint32_t>(b), get<uint32_t>(c), has<Half, modifier::hi_> ? 2 : 0));
}

}  // namespace trifold::ptx
