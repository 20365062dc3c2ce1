// Integers and the bits of floats: counting, shifting and multiplying, bytes in words, and reinterpretation.
#pragma once

#include <trifold/cpu/dpx.h>
#include <trifold/cpu/simd_words.h>
#include <trifold/cpu/standard.h>

#include <cstdint>
#include <cstdlib>
#include <type_traits>

inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline unsigned long long __brevll(unsigned long long x) {
  x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
  x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
  return __builtin_bswap64(x);
}
inline unsigned __brev(unsigned x) {
  return static_cast<unsigned>(__brevll(x) >> 32);
}
// The position of the n-th set bit of a mask, from `base` upwards, or downwards if n is negative; -1: there is none.
inline unsigned __fns(unsigned mask, unsigned base, int n) {
  if (n == 0) return mask >> base & 1 ? base : 0xffffffffu;
  int left = std::abs(n);
  for (int at = static_cast<int>(base); at >= 0 && at < 32; at += n > 0 ? 1 : -1)
    if ((mask >> at & 1) && --left == 0) return static_cast<unsigned>(at);
  return 0xffffffffu;
}

// Each of the selector's four nibbles selects one of eight bytes by its low three bits; if its highest bit is set, the
// byte's sign, repeated eight times (PTX, prmt).
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> 4 * i & 0xf;
    const auto byte = static_cast<uint8_t>(bytes >> 8 * (nibble & 7));
    result |= unsigned{nibble & 8 ? uint8_t(byte & 0x80 ? 0xff : 0) : byte} << 8 * i;
  }
  return result;
}

inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  const unsigned by = shift > 32 ? 32 : shift;
  return static_cast<unsigned>((uint64_t{high} << 32 | low) << by >> 32 | (by == 32 ? low : 0));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return __funnelshift_lc(low, high, shift & 31);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift > 32 ? 32 : shift));
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return __funnelshift_rc(low, high, shift & 31);
}

inline int __mulhi(int a, int b) {
  return static_cast<int>(int64_t{a} * b >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __umul24(unsigned a, unsigned b) {
  return (a & 0xffffff) * (b & 0xffffff);
}
inline int __mul24(int a, int b) {
  const auto low = [](int x) { return static_cast<unsigned>(static_cast<int>(static_cast<unsigned>(x) << 8) >> 8); };
  return static_cast<int>(low(a) * low(b));
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c) {
  return (a > b ? a - b : b - a) + c;
}
inline unsigned __sad(int a, int b, unsigned c) {
  const auto x = static_cast<unsigned>(a), y = static_cast<unsigned>(b);
  return (a > b ? x - y : y - x) + c;
}
inline int __hadd(int a, int b) {
  return static_cast<int>((int64_t{a} + b) >> 1);
}
inline int __rhadd(int a, int b) {
  return static_cast<int>((int64_t{a} + b + 1) >> 1);
}
inline unsigned __uhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} + b) >> 1);
}
inline unsigned __urhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} + b + 1) >> 1);
}

namespace trifold::cpu {

// c plus the products of parts of `A` and `B` bits of two words, from part number `first` of b on.
template <class A, class B>
constexpr unsigned dot(unsigned a, unsigned b, unsigned c, int first = 0) {
  for (int i = 0; i < static_cast<int>(4 / sizeof(A)); ++i)
    c += static_cast<unsigned>(static_cast<A>(a >> 8 * sizeof(A) * i)) *
         static_cast<unsigned>(static_cast<B>(b >> 8 * sizeof(B) * (i + first)));
  return c;
}

}  // namespace trifold::cpu

inline int __dp4a(int a, int b, int c) {
  return static_cast<int>(trifold::cpu::dot<int8_t, int8_t>(a, b, c));
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return trifold::cpu::dot<uint8_t, uint8_t>(a, b, c);
}
inline int __dp2a_lo(int a, int b, int c) {
  return static_cast<int>(trifold::cpu::dot<int16_t, int8_t>(a, b, c));
}
inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
  return trifold::cpu::dot<uint16_t, uint8_t>(a, b, c);
}
inline int __dp2a_hi(int a, int b, int c) {
  return static_cast<int>(trifold::cpu::dot<int16_t, int8_t>(a, b, c, 2));
}
inline unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) {
  return trifold::cpu::dot<uint16_t, uint8_t>(a, b, c, 2);
}

inline float __int_as_float(int x) {
  return trifold::cpu::bit_cast<float>(x);
}
inline int __float_as_int(float x) {
  return trifold::cpu::bit_cast<int>(x);
}
inline float __uint_as_float(unsigned x) {
  return trifold::cpu::bit_cast<float>(x);
}
inline unsigned __float_as_uint(float x) {
  return trifold::cpu::bit_cast<unsigned>(x);
}
inline double __longlong_as_double(long long x) {
  return trifold::cpu::bit_cast<double>(x);
}
inline long long __double_as_longlong(double x) {
  return trifold::cpu::bit_cast<long long>(x);
}
inline int __double2hiint(double x) {
  return static_cast<int>(trifold::cpu::bit_cast<uint64_t>(x) >> 32);
}
inline int __double2loint(double x) {
  return static_cast<int>(trifold::cpu::bit_cast<uint64_t>(x));
}
inline double __hiloint2double(int high, int low) {
  return trifold::cpu::bit_cast<double>(uint64_t{static_cast<unsigned>(high)} << 32 | static_cast<unsigned>(low));
}
