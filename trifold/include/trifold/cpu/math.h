// CUDA's functions of real numbers that the C++ library lacks. Those that newer C libraries have are templates here, so
// that the library's own function, if there is one, is the better match.
#pragma once

#include <trifold/cpu/rounding.h>

#include <math.h>
#include <stdlib.h>

#include <cmath>
#include <limits>
#include <type_traits>

namespace trifold::cpu {

// The result type of a function of a number: float for a float, double for all else.
template <class T>
using Real = std::conditional_t<same_as<T, float>, float, double>;
template <class T>
concept Number = std::is_arithmetic_v<T>;

#pragma GCC visibility push(default)
// Defined in the library.
double sin_of_pi_times(double x);
double cos_of_pi_times(double x);
double inverse_erf(double y);
double inverse_erfc(double y);
double inverse_normal_cdf(double p);
double normal_cdf(double x);
double scaled_erfc(double x);
double power_of_10(double x);
double reciprocal_cube_root(double x);
#pragma GCC visibility pop

inline double reciprocal_root(double x) {
  return 1 / std::sqrt(x);
}

// Avoids intermediate overflow and underflow.
template <class... Parts>
double length(Parts... parts) {
  const long double squares = ((static_cast<long double>(parts) * parts) + ...);
  return static_cast<double>(std::sqrt(squares));
}
template <class T>
double length_of(int n, const T* parts) {
  long double squares = 0;
  for (int i = 0; i < n; ++i) squares += static_cast<long double>(parts[i]) * parts[i];
  return static_cast<double>(std::sqrt(squares));
}

}  // namespace trifold::cpu

// f and its float32 form ff, which is the double's, rounded once.
#define TRIFOLD_FUNCTION(name, function)                                      \
  template <trifold::cpu::Number T>                                           \
  trifold::cpu::Real<T> name(T x) {                                           \
    return static_cast<trifold::cpu::Real<T>>(trifold::cpu::function(x));     \
  }                                                                           \
  template <trifold::cpu::convertible_to<float> T>                            \
  float name##f(T x) {                                                        \
    return static_cast<float>(trifold::cpu::function(static_cast<float>(x))); \
  }
TRIFOLD_FUNCTION(rsqrt, reciprocal_root)
TRIFOLD_FUNCTION(rcbrt, reciprocal_cube_root)
TRIFOLD_FUNCTION(sinpi, sin_of_pi_times)
TRIFOLD_FUNCTION(cospi, cos_of_pi_times)
TRIFOLD_FUNCTION(exp10, power_of_10)
TRIFOLD_FUNCTION(erfinv, inverse_erf)
TRIFOLD_FUNCTION(erfcinv, inverse_erfc)
TRIFOLD_FUNCTION(erfcx, scaled_erfc)
TRIFOLD_FUNCTION(normcdf, normal_cdf)
TRIFOLD_FUNCTION(normcdfinv, inverse_normal_cdf)
#undef TRIFOLD_FUNCTION

// The modified Bessel functions of the first kind.
template <trifold::cpu::Number T>
trifold::cpu::Real<T> cyl_bessel_i0(T x) {
  return static_cast<trifold::cpu::Real<T>>(std::cyl_bessel_i(0.0, std::fabs(static_cast<double>(x))));
}
template <trifold::cpu::Number T>
trifold::cpu::Real<T> cyl_bessel_i1(T x) {
  const double size = std::cyl_bessel_i(1.0, std::fabs(static_cast<double>(x)));
  return static_cast<trifold::cpu::Real<T>>(std::copysign(size, static_cast<double>(x)));
}
template <trifold::cpu::same_as<float> T>
float cyl_bessel_i0f(T x) {
  return cyl_bessel_i0(x);
}
template <trifold::cpu::same_as<float> T>
float cyl_bessel_i1f(T x) {
  return cyl_bessel_i1(x);
}

// ---------------------------------------------------------------------------------------------------- two results

// The C library has sincos(double, …) and sincosf.
inline void sincos(float x, float* sine, float* cosine) {
  sincosf(x, sine, cosine);
}
template <trifold::cpu::Number T>
void sincospi(T x, trifold::cpu::Same<T>* sine, trifold::cpu::Same<T>* cosine) {
  *sine = sinpi(x);
  *cosine = cospi(x);
}
template <trifold::cpu::convertible_to<float> T>
void sincospif(T x, float* sine, float* cosine) {
  sincospi(static_cast<float>(x), sine, cosine);
}

// ---------------------------------------------------------------------------------------------------- lengths

inline double rhypot(double x, double y) {
  return 1 / trifold::cpu::length(x, y);
}
inline float rhypotf(float x, float y) {
  return static_cast<float>(1 / trifold::cpu::length(x, y));
}
inline double norm3d(double x, double y, double z) {
  return trifold::cpu::length(x, y, z);
}
inline float norm3df(float x, float y, float z) {
  return static_cast<float>(trifold::cpu::length(x, y, z));
}
inline double rnorm3d(double x, double y, double z) {
  return 1 / trifold::cpu::length(x, y, z);
}
inline float rnorm3df(float x, float y, float z) {
  return static_cast<float>(1 / trifold::cpu::length(x, y, z));
}
inline double norm4d(double x, double y, double z, double w) {
  return trifold::cpu::length(x, y, z, w);
}
inline float norm4df(float x, float y, float z, float w) {
  return static_cast<float>(trifold::cpu::length(x, y, z, w));
}
inline double rnorm4d(double x, double y, double z, double w) {
  return 1 / trifold::cpu::length(x, y, z, w);
}
inline float rnorm4df(float x, float y, float z, float w) {
  return static_cast<float>(1 / trifold::cpu::length(x, y, z, w));
}
inline double norm(int n, const double* parts) {
  return trifold::cpu::length_of(n, parts);
}
inline float normf(int n, const float* parts) {
  return static_cast<float>(trifold::cpu::length_of(n, parts));
}

// ---------------------------------------------------------------------------------------------------- intrinsics

// CUDA's are fast approximations; these are exact.
inline float fdividef(float x, float y) {
  return x / y;
}
inline float __fdividef(float x, float y) {
  // 2^126 < |y| < 2^128 gives 0 (CUDA C++ Programming Guide, "Intrinsic Functions").
  const float size = std::fabs(y);
  if (size > 0x1p126f && size <= std::numeric_limits<float>::max()) return std::isinf(x) ? x * 0.0f : 0.0f * x;
  return x / y;
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __exp10f(float x) {
  return exp10f(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline float __log2f(float x) {
  return std::log2(x);
}
inline float __log10f(float x) {
  return std::log10(x);
}
inline float __powf(float x, float y) {
  return std::exp2(y * std::log2(x));  // NaN for a negative x, as in CUDA
}
inline float __sinf(float x) {
  return std::sin(x);
}
inline float __cosf(float x) {
  return std::cos(x);
}
inline void __sincosf(float x, float* sine, float* cosine) {
  sincosf(x, sine, cosine);
}
inline float __tanf(float x) {
  return std::tan(x);
}
inline float __tanhf(float x) {
  return std::tanh(x);
}
inline float __saturatef(float x) {
  return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
}
inline float saturate(float x) {
  return __saturatef(x);
}

// ---------------------------------------------------------------------------------------------------- min and max

// For mixed signs, the unsigned type's; for floats, the other operand if one is NaN.
#define TRIFOLD_EXTREMES(Result, A, B)                                 \
  inline Result min(A a, B b) {                                        \
    const auto x = static_cast<Result>(a), y = static_cast<Result>(b); \
    return y < x ? y : x;                                              \
  }                                                                    \
  inline Result max(A a, B b) {                                        \
    const auto x = static_cast<Result>(a), y = static_cast<Result>(b); \
    return x < y ? y : x;                                              \
  }
#define TRIFOLD_SIGNS(T)                               \
  TRIFOLD_EXTREMES(T, T, T)                            \
  TRIFOLD_EXTREMES(unsigned T, unsigned T, unsigned T) \
  TRIFOLD_EXTREMES(unsigned T, T, unsigned T)          \
  TRIFOLD_EXTREMES(unsigned T, unsigned T, T)
TRIFOLD_SIGNS(int)
TRIFOLD_SIGNS(long)
TRIFOLD_SIGNS(long long)
#undef TRIFOLD_SIGNS
#undef TRIFOLD_EXTREMES

inline float min(float a, float b) {
  return std::fmin(a, b);
}
inline double min(double a, double b) {
  return std::fmin(a, b);
}
inline double min(float a, double b) {
  return std::fmin(static_cast<double>(a), b);
}
inline double min(double a, float b) {
  return std::fmin(a, static_cast<double>(b));
}
inline float max(float a, float b) {
  return std::fmax(a, b);
}
inline double max(double a, double b) {
  return std::fmax(a, b);
}
inline double max(float a, double b) {
  return std::fmax(static_cast<double>(a), b);
}
inline double max(double a, float b) {
  return std::fmax(a, static_cast<double>(b));
}
inline unsigned umin(unsigned a, unsigned b) {
  return min(a, b);
}
inline unsigned umax(unsigned a, unsigned b) {
  return max(a, b);
}
inline long long llmin(long long a, long long b) {
  return min(a, b);
}
inline long long llmax(long long a, long long b) {
  return max(a, b);
}
inline unsigned long long ullmin(unsigned long long a, unsigned long long b) {
  return min(a, b);
}
inline unsigned long long ullmax(unsigned long long a, unsigned long long b) {
  return max(a, b);
}
