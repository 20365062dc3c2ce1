// cuda::std's functions of <bit>, which libcu++ has for C++17 as well.
#pragma once

#include <trifold/cpu/cuda_std.h>

#if __cplusplus >= 202002L
#include <bit>
#else

#include <cstring>
#include <limits>
#include <type_traits>

namespace cuda::std {

template <class To, class From>
To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast between types of different sizes");
  To to;
  ::std::memcpy(&to, &from, sizeof to);
  return to;
}

template <class T>
constexpr int popcount(T x) {
  static_assert(::std::is_unsigned_v<T>, "the functions of <bit> are for unsigned integers");
  return __builtin_popcountll(x);
}
template <class T>
constexpr int countl_zero(T x) {
  constexpr int digits = ::std::numeric_limits<T>::digits;
  return x == 0 ? digits : __builtin_clzll(x) - (64 - digits);
}
template <class T>
constexpr int countr_zero(T x) {
  return x == 0 ? ::std::numeric_limits<T>::digits : __builtin_ctzll(x);
}
template <class T>
constexpr int countl_one(T x) {
  return countl_zero(static_cast<T>(~x));
}
template <class T>
constexpr int countr_one(T x) {
  return countr_zero(static_cast<T>(~x));
}
template <class T>
constexpr int bit_width(T x) {
  return ::std::numeric_limits<T>::digits - countl_zero(x);
}
template <class T>
constexpr bool has_single_bit(T x) {
  return popcount(x) == 1;
}
template <class T>
constexpr T bit_floor(T x) {
  return x == 0 ? 0 : static_cast<T>(T{1} << (bit_width(x) - 1));
}
template <class T>
constexpr T bit_ceil(T x) {
  return x <= 1 ? 1 : static_cast<T>(T{1} << bit_width(static_cast<T>(x - 1)));
}
template <class T>
constexpr T rotl(T x, int count) {
  constexpr int digits = ::std::numeric_limits<T>::digits;
  const int by = (count % digits + digits) % digits;
  return by == 0 ? x : static_cast<T>(x << by | x >> (digits - by));
}
template <class T>
constexpr T rotr(T x, int count) {
  return rotl(x, -count);
}

}  // namespace cuda::std

#endif
