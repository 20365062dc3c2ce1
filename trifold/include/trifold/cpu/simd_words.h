// Operations on two halves or four bytes of a word (CUDA Math API, "SIMD Intrinsics").
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>

namespace trifold::cpu {

// f of each part of the words that has `T`'s width.
template <class T, class F, class... Words>
constexpr unsigned in_parts(F f, Words... words) {
  unsigned result = 0;
  for (unsigned at = 0; at < 32; at += 8 * sizeof(T)) {
    const auto part = static_cast<std::make_unsigned_t<T>>(f(static_cast<T>(words >> at)...));
    result |= unsigned{part} << at;
  }
  return result;
}

// The sum of f of each part.
template <class T, class F>
constexpr unsigned sum_of_parts(F f, unsigned a, unsigned b) {
  unsigned sum = 0;
  for (unsigned at = 0; at < 32; at += 8 * sizeof(T))
    sum += static_cast<unsigned>(f(static_cast<T>(a >> at), static_cast<T>(b >> at)));
  return sum;
}

// Saturates to `T`.
template <class T>
constexpr int saturated(int x) {
  constexpr int least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  return x < least ? least : x > most ? most : x;
}

}  // namespace trifold::cpu

// The names are those of the operations and the number of parts: only a macro can define them.
#define TRIFOLD_PARTS_OF(count, type, name, expression)                                               \
  inline unsigned name##count(unsigned a, unsigned b) {                                               \
    using T [[maybe_unused]] = type;                                                                  \
    return trifold::cpu::in_parts<T>([](int x, [[maybe_unused]] int y) { return expression; }, a, b); \
  }
#define TRIFOLD_SIGNED(name, expression)           \
  TRIFOLD_PARTS_OF(2, int16_t, name, (expression)) \
  TRIFOLD_PARTS_OF(4, int8_t, name, (expression))
#define TRIFOLD_UNSIGNED(name, expression)          \
  TRIFOLD_PARTS_OF(2, uint16_t, name, (expression)) \
  TRIFOLD_PARTS_OF(4, uint8_t, name, (expression))
TRIFOLD_UNSIGNED(__vadd, x + y)
TRIFOLD_SIGNED(__vaddss, trifold::cpu::saturated<T>(x + y))
TRIFOLD_UNSIGNED(__vaddus, trifold::cpu::saturated<T>(x + y))
TRIFOLD_UNSIGNED(__vsub, x - y)
TRIFOLD_SIGNED(__vsubss, trifold::cpu::saturated<T>(x - y))
TRIFOLD_UNSIGNED(__vsubus, trifold::cpu::saturated<T>(x - y))
TRIFOLD_SIGNED(__vabsdiffs, std::abs(x - y))
TRIFOLD_UNSIGNED(__vabsdiffu, std::abs(x - y))
TRIFOLD_SIGNED(__vavgs, (x + y < 0 ? x + y : x + y + 1) >> 1)
TRIFOLD_UNSIGNED(__vavgu, (x + y + 1) / 2)
TRIFOLD_UNSIGNED(__vhaddu, (x + y) / 2)
TRIFOLD_SIGNED(__vmaxs, x > y ? x : y)
TRIFOLD_UNSIGNED(__vmaxu, x > y ? x : y)
TRIFOLD_SIGNED(__vmins, x < y ? x : y)
TRIFOLD_UNSIGNED(__vminu, x < y ? x : y)

// A comparison: sets all bits of the part, or its lowest one.
#define TRIFOLD_COMPARED(kind, name, comparison) \
  TRIFOLD_##kind(__vcmp##name, comparison ? -1 : 0) TRIFOLD_##kind(__vset##name, comparison ? 1 : 0)
TRIFOLD_COMPARED(UNSIGNED, eq, x == y)
TRIFOLD_COMPARED(UNSIGNED, ne, x != y)
TRIFOLD_COMPARED(SIGNED, ges, x >= y)
TRIFOLD_COMPARED(UNSIGNED, geu, x >= y)
TRIFOLD_COMPARED(SIGNED, gts, x > y)
TRIFOLD_COMPARED(UNSIGNED, gtu, x > y)
TRIFOLD_COMPARED(SIGNED, les, x <= y)
TRIFOLD_COMPARED(UNSIGNED, leu, x <= y)
TRIFOLD_COMPARED(SIGNED, lts, x < y)
TRIFOLD_COMPARED(UNSIGNED, ltu, x < y)
#undef TRIFOLD_COMPARED
#undef TRIFOLD_UNSIGNED
#undef TRIFOLD_SIGNED
#undef TRIFOLD_PARTS_OF

#define TRIFOLD_OF_ONE(count, type)                                                                                    \
  inline unsigned __vabs##count(unsigned a) {                                                                          \
    return trifold::cpu::in_parts<type>([](int x) { return std::abs(x); }, a);                                         \
  }                                                                                                                    \
  inline unsigned __vabsss##count(unsigned a) {                                                                        \
    return trifold::cpu::in_parts<type>([](int x) { return trifold::cpu::saturated<type>(std::abs(x)); }, a);          \
  }                                                                                                                    \
  inline unsigned __vneg##count(unsigned a) {                                                                          \
    return trifold::cpu::in_parts<type>([](int x) { return -x; }, a);                                                  \
  }                                                                                                                    \
  inline unsigned __vnegss##count(unsigned a) {                                                                        \
    return trifold::cpu::in_parts<type>([](int x) { return trifold::cpu::saturated<type>(-x); }, a);                   \
  }                                                                                                                    \
  inline unsigned __vsads##count(unsigned a, unsigned b) {                                                             \
    return trifold::cpu::sum_of_parts<type>([](int x, int y) { return std::abs(x - y); }, a, b);                       \
  }                                                                                                                    \
  inline unsigned __vsadu##count(unsigned a, unsigned b) {                                                             \
    return trifold::cpu::sum_of_parts<std::make_unsigned_t<type>>([](int x, int y) { return std::abs(x - y); }, a, b); \
  }
TRIFOLD_OF_ONE(2, int16_t)
TRIFOLD_OF_ONE(4, int8_t)
#undef TRIFOLD_OF_ONE
