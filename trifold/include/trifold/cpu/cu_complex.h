// CUDA's cuComplex.h: complex numbers as vectors of two floats or doubles.
#pragma once

#include <trifold/cuda.cuh>

#include <cmath>

using cuFloatComplex = float2;
using cuComplex = float2;
using cuDoubleComplex = double2;

inline cuFloatComplex make_cuFloatComplex(float real, float imaginary) {
  return {real, imaginary};
}
inline cuComplex make_cuComplex(float real, float imaginary) {
  return {real, imaginary};
}
inline cuDoubleComplex make_cuDoubleComplex(double real, double imaginary) {
  return {real, imaginary};
}
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) {
  return {static_cast<float>(z.x), static_cast<float>(z.y)};
}
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) {
  return {z.x, z.y};
}

// The names for floats end in f: only a macro can define them. Quotients are scaled, so that squares do not overflow.
#define TRIFOLD_COMPLEX(Complex, Real, f)                                          \
  inline Real cuCreal##f(Complex z) {                                              \
    return z.x;                                                                    \
  }                                                                                \
  inline Real cuCimag##f(Complex z) {                                              \
    return z.y;                                                                    \
  }                                                                                \
  inline Complex cuConj##f(Complex z) {                                            \
    return {z.x, -z.y};                                                            \
  }                                                                                \
  inline Complex cuCadd##f(Complex a, Complex b) {                                 \
    return {a.x + b.x, a.y + b.y};                                                 \
  }                                                                                \
  inline Complex cuCsub##f(Complex a, Complex b) {                                 \
    return {a.x - b.x, a.y - b.y};                                                 \
  }                                                                                \
  inline Complex cuCmul##f(Complex a, Complex b) {                                 \
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                         \
  }                                                                                \
  inline Complex cuCdiv##f(Complex a, Complex b) {                                 \
    const Real scale = 1 / (std::fabs(b.x) + std::fabs(b.y));                      \
    const Complex n{a.x * scale, a.y * scale}, d{b.x * scale, b.y * scale};        \
    const Real inverse = 1 / (d.x * d.x + d.y * d.y);                              \
    return {(n.x * d.x + n.y * d.y) * inverse, (n.y * d.x - n.x * d.y) * inverse}; \
  }                                                                                \
  inline Real cuCabs##f(Complex z) {                                               \
    return std::hypot(z.x, z.y);                                                   \
  }                                                                                \
  inline Complex cuCfma##f(Complex a, Complex b, Complex c) {                      \
    return cuCadd##f(cuCmul##f(a, b), c);                                          \
  }
TRIFOLD_COMPLEX(cuFloatComplex, float, f)
TRIFOLD_COMPLEX(cuDoubleComplex, double, )
#undef TRIFOLD_COMPLEX
