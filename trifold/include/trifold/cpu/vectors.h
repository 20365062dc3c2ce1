// CUDA's vector types, with CUDA's sizes and alignments (CUDA C++ Programming Guide, "Built-in Vector Types"), and
// their constructors. uint3 and dim3 are in <trifold/cpu.h>.
#pragma once

#include <trifold/cpu.h>

// The names contain the element's: only a macro can define them.
#define TRIFOLD_VECTORS_BUT_3(name, T)                              \
  struct name##1 {                                                  \
    T x;                                                            \
  };                                                                \
  struct alignas(2 * sizeof(T)) name##2 {                           \
    T x, y;                                                         \
  };                                                                \
  struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { \
    T x, y, z, w;                                                   \
  };                                                                \
  constexpr name##1 make_##name##1(T x) {                           \
    return {x};                                                     \
  }                                                                 \
  constexpr name##2 make_##name##2(T x, T y) {                      \
    return {x, y};                                                  \
  }                                                                 \
  constexpr name##3 make_##name##3(T x, T y, T z) {                 \
    return {x, y, z};                                               \
  }                                                                 \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) {            \
    return {x, y, z, w};                                            \
  }
#define TRIFOLD_VECTORS(name, T) \
  struct name##3 {               \
    T x, y, z;                   \
  };                             \
  TRIFOLD_VECTORS_BUT_3(name, T)

TRIFOLD_VECTORS(char, signed char)
TRIFOLD_VECTORS(uchar, unsigned char)
TRIFOLD_VECTORS(short, short)
TRIFOLD_VECTORS(ushort, unsigned short)
TRIFOLD_VECTORS(int, int)
TRIFOLD_VECTORS_BUT_3(uint, unsigned)
TRIFOLD_VECTORS(long, long)
TRIFOLD_VECTORS(ulong, unsigned long)
TRIFOLD_VECTORS(longlong, long long)
TRIFOLD_VECTORS(ulonglong, unsigned long long)
TRIFOLD_VECTORS(float, float)
TRIFOLD_VECTORS(double, double)

#undef TRIFOLD_VECTORS
#undef TRIFOLD_VECTORS_BUT_3
