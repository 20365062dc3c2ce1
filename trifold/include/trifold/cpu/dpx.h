// The largest and the smallest of two or three integers, or of a sum and a third one: of words, and of both halves of
// words (CUDA Math API, "DPX"). `relu`: at least 0.
#pragma once

#include <trifold/cpu/simd_words.h>

#include <cstdint>
#include <type_traits>

namespace trifold::cpu::dpx {

// The type of arguments whose parts are of type `T`.
template <class T>
using Word = std::conditional_t<sizeof(T) == 4, T, unsigned>;

// f of each part of the words.
template <class T, class F, class... Words>
constexpr Word<T> of_parts(F f, Words... words) {
  if constexpr (sizeof(T) == 4)
    return f(words...);
  else
    return in_parts<T>(f, words...);
}

template <class T>
constexpr T max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
constexpr T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
constexpr T sum(T a, T b) {  // wraps around
  return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}

}  // namespace trifold::cpu::dpx

// The names are those of the operation and of the parts: only a macro can define them.
#define TRIFOLD_DPX(best, type, parts)                                                                      \
  inline auto __vi##best##3_##parts(trifold::cpu::dpx::Word<type> a, trifold::cpu::dpx::Word<type> b,       \
                                    trifold::cpu::dpx::Word<type> c) {                                      \
    using namespace trifold::cpu::dpx;                                                                      \
    return of_parts<type>([](type x, type y, type z) { return best<type>(best<type>(x, y), z); }, a, b, c); \
  }                                                                                                         \
  inline auto __viadd##best##_##parts(trifold::cpu::dpx::Word<type> a, trifold::cpu::dpx::Word<type> b,     \
                                      trifold::cpu::dpx::Word<type> c) {                                    \
    using namespace trifold::cpu::dpx;                                                                      \
    return of_parts<type>([](type x, type y, type z) { return best<type>(sum<type>(x, y), z); }, a, b, c);  \
  }
#define TRIFOLD_DPX_RELU(best, type, parts)                                                                    \
  TRIFOLD_DPX(best, type, parts)                                                                               \
  inline auto __vi##best##_##parts##_relu(trifold::cpu::dpx::Word<type> a, trifold::cpu::dpx::Word<type> b) {  \
    using namespace trifold::cpu::dpx;                                                                         \
    return of_parts<type>([](type x, type y) { return max<type>(best<type>(x, y), 0); }, a, b);                \
  }                                                                                                            \
  inline auto __vi##best##3_##parts##_relu(trifold::cpu::dpx::Word<type> a, trifold::cpu::dpx::Word<type> b,   \
                                           trifold::cpu::dpx::Word<type> c) {                                  \
    return __vi##best##_##parts##_relu(__vi##best##3_##parts(a, b, c), __vi##best##3_##parts(a, b, c));        \
  }                                                                                                            \
  inline auto __viadd##best##_##parts##_relu(trifold::cpu::dpx::Word<type> a, trifold::cpu::dpx::Word<type> b, \
                                             trifold::cpu::dpx::Word<type> c) {                                \
    return __vi##best##_##parts##_relu(__viadd##best##_##parts(a, b, c), __viadd##best##_##parts(a, b, c));    \
  }
// Which of the two it is: the flag is true for the first one, or if they are equal.
#define TRIFOLD_DPX_CHOICE(best, type, parts)                      \
  inline type __vib##best##_##parts(type a, type b, bool* first) { \
    const type found = trifold::cpu::dpx::best<type>(a, b);        \
    *first = found == a;                                           \
    return found;                                                  \
  }
#define TRIFOLD_DPX_CHOICES(best, type, parts)                                                       \
  inline unsigned __vib##best##_##parts(unsigned a, unsigned b, bool* first_high, bool* first_low) { \
    using namespace trifold::cpu::dpx;                                                               \
    const unsigned found = of_parts<type>([](type x, type y) { return best<type>(x, y); }, a, b);    \
    *first_high = found >> 16 == a >> 16;                                                            \
    *first_low = static_cast<uint16_t>(found) == static_cast<uint16_t>(a);                           \
    return found;                                                                                    \
  }
#define TRIFOLD_DPX_ALL(best)               \
  TRIFOLD_DPX_RELU(best, int, s32)          \
  TRIFOLD_DPX_RELU(best, int16_t, s16x2)    \
  TRIFOLD_DPX(best, unsigned, u32)          \
  TRIFOLD_DPX(best, uint16_t, u16x2)        \
  TRIFOLD_DPX_CHOICE(best, int, s32)        \
  TRIFOLD_DPX_CHOICE(best, unsigned, u32)   \
  TRIFOLD_DPX_CHOICES(best, int16_t, s16x2) \
  TRIFOLD_DPX_CHOICES(best, uint16_t, u16x2)
TRIFOLD_DPX_ALL(max)
TRIFOLD_DPX_ALL(min)
#undef TRIFOLD_DPX_ALL
#undef TRIFOLD_DPX_CHOICES
#undef TRIFOLD_DPX_CHOICE
#undef TRIFOLD_DPX_RELU
#undef TRIFOLD_DPX
