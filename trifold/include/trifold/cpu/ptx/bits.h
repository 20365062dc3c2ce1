// Moving and selecting registers, logic, shifts and the bits of words.
#pragma once

#include <trifold/cpu/numbers.h>
#include <trifold/cpu/ptx/registers.h>

#include <algorithm>

namespace trifold::ptx {

template <class T, class D, class A>
__forceinline__ void mov_(D& d, A a) {
  put(d, get<T>(a));
}
// The first register is the low part.
template <class T, class D, class... A>
__forceinline__ void mov_(D& d, std::tuple<A...> parts) {
  uint64_t all = 0;
  int at = 0;
  const auto add = [&](auto part) {
    all |= uint64_t{part} << at;
    at += 8 * sizeof part;
  };
  std::apply([&](auto... each) { (add(each), ...); }, parts);
  static_assert((sizeof(std::remove_reference_t<A>) + ...) == sizeof(T),
                "the registers in {} are not as wide as mov's");
  put(d, static_cast<T>(all));
}
template <class T, class... D, class A>
__forceinline__ void mov_(std::tuple<D...> parts, A a) {
  auto rest = static_cast<uint64_t>(get<T>(a));
  constexpr size_t bits = 8 * sizeof(T) / sizeof...(D);
  const auto take = [&](auto& part) {
    put(part, static_cast<cpu::Word<bits / 8>>(rest));
    rest >>= bits;
  };
  std::apply([&](auto&... each) { (take(each), ...); }, parts);
}

template <class T, class D, class A, class B>
__forceinline__ void selp_(D& d, A a, B b, bool p) {
  put(d, p ? get<T>(a) : get<T>(b));
}

template <class T, class D, class A, class B>
__forceinline__ void and_(D& d, A a, B b) {
  put(d, static_cast<T>(get<T>(a) & get<T>(b)));
}
template <class T, class D, class A, class B>
__forceinline__ void or_(D& d, A a, B b) {
  put(d, static_cast<T>(get<T>(a) | get<T>(b)));
}
template <class T, class D, class A, class B>
__forceinline__ void xor_(D& d, A a, B b) {
  put(d, static_cast<T>(get<T>(a) ^ get<T>(b)));
}
template <class T, class D, class A>
__forceinline__ void not_(D& d, A a) {
  if constexpr (cpu::same_as<T, bool>)
    put(d, !get<T>(a));
  else
    put(d, static_cast<T>(~get<T>(a)));
}
template <class T, class D, class A>
__forceinline__ void cnot_(D& d, A a) {
  put(d, static_cast<T>(get<T>(a) == 0 ? 1 : 0));
}

// A shift by more than the width is a shift by the width.
template <class T, class D, class A, class B>
__forceinline__ void shl_(D& d, A a, B by) {
  constexpr uint32_t width = 8 * sizeof(T);
  const auto shift = get<uint32_t>(by);
  put(d, static_cast<T>(shift >= width ? T{0} : static_cast<T>(get<T>(a) << shift)));
}
template <class T, class D, class A, class B>
__forceinline__ void shr_(D& d, A a, B by) {
  constexpr uint32_t width = 8 * sizeof(T);
  const auto shift = get<uint32_t>(by);
  const T value = get<T>(a);
  put(d, static_cast<T>(shift < width ? value >> shift : value < 0 ? T(-1) : T{0}));
}
template <class T, class Side, class Mode, class D, class A, class B, class C>
__forceinline__ void shf_(D& d, A low, B high, C by) {
  const auto l = get<T>(low), h = get<T>(high);
  const auto shift = get<uint32_t>(by);
  if constexpr (has<Side, modifier::l_>)
    put(d, has<Mode, modifier::clamp_> ? __funnelshift_lc(l, h, shift) : __funnelshift_l(l, h, shift));
  else
    put(d, has<Mode, modifier::clamp_> ? __funnelshift_rc(l, h, shift) : __funnelshift_r(l, h, shift));
}

// The selector for a mode of prmt and its operand's two low bits.
template <class Mode>
constexpr uint32_t prmt_selector(uint32_t c) {
  using namespace modifier;
  constexpr uint32_t forward[] = {0x3210, 0x4321, 0x5432, 0x6543}, backward[] = {0x5670, 0x6701, 0x7012, 0x0123};
  constexpr uint32_t left[] = {0x3210, 0x3211, 0x3222, 0x3333}, right[] = {0x0000, 0x1110, 0x2210, 0x3210};
  c &= 3;
  if constexpr (has<Mode, f4e_>) return forward[c];
  if constexpr (has<Mode, b4e_>) return backward[c];
  if constexpr (has<Mode, rc8_>) return 0x1111 * c;
  if constexpr (has<Mode, ecl_>) return left[c];
  if constexpr (has<Mode, ecr_>) return right[c];
  return (c & 1) != 0 ? 0x3232 : 0x1010;  // rc16
}
template <class T, class... M, class D, class A, class B, class C>
__forceinline__ void prmt_(D& d, A a, B b, C c) {
  auto selector = get<uint32_t>(c);
  if constexpr (sizeof...(M) != 0) selector = prmt_selector<M...>(selector);
  put(d, __byte_perm(get<T>(a), get<T>(b), selector));
}

// Bit abc of the table is the result for bits a, b and c.
template <class T, class D, class A, class B, class C, class Table>
__forceinline__ void lop3_(D& d, A a, B b, C c, Table table) {
  const auto x = get<T>(a), y = get<T>(b), z = get<T>(c);
  const auto bits = static_cast<uint32_t>(table);
  T made = 0;
  for (uint32_t i = 0; i < 8; ++i)
    if ((bits >> i & 1) != 0) made |= ((i & 4) != 0 ? x : ~x) & ((i & 2) != 0 ? y : ~y) & ((i & 1) != 0 ? z : ~z);
  put(d, made);
}

// The sign of a signed field is its highest bit within the word.
template <class T, class D, class A, class B, class C>
__forceinline__ void bfe_(D& d, A a, B position, C length) {
  constexpr uint32_t width = 8 * sizeof(T);
  const T value = get<T>(a);
  const uint32_t at = get<uint32_t>(position) & 0xff, size = get<uint32_t>(length) & 0xff;
  using U = std::make_unsigned_t<T>;
  const uint32_t sign = std::min(at + size - 1, width - 1);
  const bool set = std::is_signed_v<T> && size != 0 && (static_cast<U>(value) >> sign & 1) != 0;
  U field = at >= width ? U{0} : static_cast<U>(static_cast<U>(value) >> at);
  const U mask = size >= width ? static_cast<U>(-1) : static_cast<U>((U{1} << size) - 1);
  const U inside = at >= width ? U{0} : static_cast<U>(static_cast<U>(-1) >> at);
  field &= mask;
  if (set) field |= static_cast<U>(~(mask & inside));
  put(d, static_cast<T>(field));
}
template <class T, class D, class A, class B, class C, class E>
__forceinline__ void bfi_(D& d, A a, B b, C position, E length) {
  constexpr uint32_t width = 8 * sizeof(T);
  const uint32_t at = get<uint32_t>(position) & 0xff, size = get<uint32_t>(length) & 0xff;
  const T ones = size >= width ? static_cast<T>(-1) : static_cast<T>((T{1} << size) - 1);
  const T mask = at >= width ? T{0} : static_cast<T>(ones << at);
  const T moved = at >= width ? T{0} : static_cast<T>(get<T>(a) << at);
  put(d, static_cast<T>((get<T>(b) & ~mask) | (moved & mask)));
}

// For 32 or 64 bits.
template <class T>
uint32_t leading_zeros(T x) {
  return static_cast<uint32_t>(__clzll(static_cast<long long>(uint64_t{x})) - (64 - 8 * static_cast<int>(sizeof(T))));
}

// The highest bit that differs from the sign; all ones if there is none.
template <class T, class... M, class D, class A>
__forceinline__ void bfind_(D& d, A a) {
  const T value = get<T>(a);
  const auto bits = static_cast<std::make_unsigned_t<T>>(value < 0 ? ~value : value);
  const auto zeros = leading_zeros(bits);
  const uint32_t highest = has<modifier::shiftamt_, M...> ? zeros : 8 * sizeof(T) - 1 - zeros;
  put(d, bits == 0 ? ~uint32_t{0} : highest);
}
template <class T, class D, class A>
__forceinline__ void brev_(D& d, A a) {
  put(d, static_cast<T>(__brevll(get<T>(a)) >> (64 - 8 * sizeof(T))));
}
template <class T, class D, class A>
__forceinline__ void clz_(D& d, A a) {
  put(d, leading_zeros(get<T>(a)));
}
template <class T, class D, class A>
__forceinline__ void popc_(D& d, A a) {
  put(d, static_cast<uint32_t>(__popcll(get<T>(a))));
}
template <class T, class D, class A, class B, class C>
__forceinline__ void fns_(D& d, A mask, B base, C offset) {
  put(d, __fns(get<T>(mask), get<uint32_t>(base), get<int32_t>(offset)));
}

}  // namespace trifold::ptx
