// CUDA's real functions that the C++ library lacks, in double. float32 forms are these, rounded once.
#pragma once

#include <math.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace trifold::engine {

inline constexpr long double pi = 3.14159265358979323846264338327950288L;

inline double exp10_of(double x) {
  return std::pow(10.0, x);
}
inline double rsqrt_of(double x) {
  return static_cast<double>(1 / std::sqrt(static_cast<long double>(x)));
}
inline double rcbrt_of(double x) {
  return static_cast<double>(1 / std::cbrt(static_cast<long double>(x)));
}
inline double reciprocal_of(double x) {
  return 1 / x;
}
inline double saturated(double x) {
  return x > 0 ? (x < 1 ? x : 1) : 0;
}

inline double round_half_even(double x) {
  return std::nearbyint(x);
}

// Exact reduction to a period, then at most a quarter turn around a zero or an extreme.
inline double sin_of_pi_times(double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const double turn = std::remainder(x, 2);
  if (turn == std::trunc(turn)) return std::copysign(0.0, x);
  return static_cast<double>(std::sin(turn * pi));
}

inline double cos_of_pi_times(double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const double turn = std::fabs(std::remainder(x, 2));
  return turn == 0.5 ? 0 : static_cast<double>(std::sin((0.5 - turn) * pi));
}

// The log of |gamma|, without C's global sign.
inline double log_gamma(double x) {
#ifdef __GLIBC__
  int sign;
  return ::lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}

// CUDA's gamma is NaN at -inf and at negative integers, as C's is.
inline double gamma_of(double x) {
  return std::tgamma(x);
}

inline double scaled_erfc(double x) {
  const long double y = x;
  if (x > 100) return static_cast<double>((1 - 1 / (2 * y * y)) / (y * std::sqrt(pi)));
  return static_cast<double>(std::exp(y * y) * std::erfc(y));
}

inline double normal_cdf(double x) {
  return static_cast<double>(std::erfc(-x / std::sqrt(2.0L)) / 2);
}

// libdevice's powi: by squaring, and the reciprocal of the power for a negative exponent.
template <typename T>
T power_of_integer(T base, int32_t exponent) {
  T result = 1;
  for (uint32_t left = exponent < 0 ? -static_cast<uint32_t>(exponent) : static_cast<uint32_t>(exponent); left != 0;
       left >>= 1, base *= base)
    if (left & 1) result *= base;
  return exponent < 0 ? 1 / result : result;
}

double inverse_erf(double y);

// Halley's method on erfc, whose relative error does not grow in the tail.
inline double inverse_erfc(double y) {
  if (!(y >= 0 && y <= 2)) return std::numeric_limits<double>::quiet_NaN();
  if (y == 0 || y == 2) return std::copysign(std::numeric_limits<double>::infinity(), 1 - y);
  if (y > 0.5 && y < 1.5) return inverse_erf(1 - y);
  const long double target = y > 1 ? 2 - static_cast<long double>(y) : static_cast<long double>(y);
  const long double t = std::sqrt(-2 * std::log(target / 2));
  long double x = -0.70711L * ((2.30753L + t * 0.27061L) / (1 + t * (0.99229L + t * 0.04481L)) - t);
  for (int step = 0; step < 4; ++step) {
    const long double error = std::erfc(x) - target;
    const long double change = error / (2 / std::sqrt(pi) * std::exp(-x * x) - x * error);
    if (!std::isfinite(change)) break;
    x += change;
  }
  return static_cast<double>(y > 1 ? -x : x);
}

inline double inverse_erf(double y) {
  if (std::fabs(y) >= 0.5) return std::copysign(inverse_erfc(1 - std::fabs(y)), y);
  if (y == 0 || std::isnan(y)) return y;
  long double x = y * std::sqrt(pi) / 2;
  for (int step = 0; step < 5; ++step) x -= (std::erf(x) - y) / (2 / std::sqrt(pi) * std::exp(-x * x));
  return static_cast<double>(x);
}

inline double inverse_normal_cdf(double p) {
  if (!(p >= 0 && p <= 1)) return std::numeric_limits<double>::quiet_NaN();
  const bool upper = p > 0.5;
  const double tail = upper ? 1 - p : p;  // exact
  const double x = static_cast<double>(std::sqrt(2.0L) * inverse_erfc(2 * tail));
  return upper ? x : -x;
}

inline double exponent_of(double x) {
  return std::logb(x);
}

// PTX's min and max: a NaN operand is ignored, and -0 is less than +0.
inline double minimum_number(double x, double y) {
  if (x == 0 && y == 0) return std::signbit(x) ? x : y;
  return std::fmin(x, y);
}
inline double maximum_number(double x, double y) {
  if (x == 0 && y == 0) return std::signbit(x) ? y : x;
  return std::fmax(x, y);
}

}  // namespace trifold::engine
