// Complex numbers by Numba's algorithms, so that results equal those of kernels that Numba compiles. Used by drafted
// kernels.
#pragma once

#include <trifold/cuda.cuh>

#include <cmath>
#include <type_traits>

namespace trifold {

// Laid out as in NumPy's arrays: the real part, then the imaginary one.
template <class T>
struct alignas(2 * sizeof(T)) Complex {
  T real, imag;

  Complex() = default;  // trivial, as elements of shared arrays must be
  __host__ __device__ __forceinline__ constexpr Complex(T real, T imag = 0) : real(real), imag(imag) {}
  template <class U>
  __host__ __device__ __forceinline__ constexpr explicit Complex(Complex<U> z)
      : real(static_cast<T>(z.real)), imag(static_cast<T>(z.imag)) {}

  friend __host__ __device__ __forceinline__ Complex operator+(Complex a, Complex b) {
    return {a.real + b.real, a.imag + b.imag};
  }
  friend __host__ __device__ __forceinline__ Complex operator-(Complex a, Complex b) {
    return {a.real - b.real, a.imag - b.imag};
  }
  friend __host__ __device__ __forceinline__ Complex operator*(Complex a, Complex b) {
    return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
  }
  // Smith's algorithm, Communications of the ACM 5 (1962) 435: neither overflows nor underflows unless the quotient
  // does.
  friend __host__ __device__ __forceinline__ Complex operator/(Complex a, Complex b) {
    if (fabs(b.real) >= fabs(b.imag)) {
      if (b.real == 0) return {T(NAN), T(NAN)};
      const T ratio = b.imag / b.real, denominator = b.real + b.imag * ratio;
      return {(a.real + a.imag * ratio) / denominator, (a.imag - a.real * ratio) / denominator};
    }
    if (b.imag == 0) return {T(NAN), T(NAN)};
    const T ratio = b.real / b.imag, denominator = b.real * ratio + b.imag;
    return {(a.real * ratio + a.imag) / denominator, (a.imag * ratio - a.real) / denominator};
  }
  friend __host__ __device__ __forceinline__ Complex operator-(Complex z) { return {-z.real, -z.imag}; }
  friend __host__ __device__ __forceinline__ bool operator==(Complex a, Complex b) {
    return a.real == b.real && a.imag == b.imag;
  }
  friend __host__ __device__ __forceinline__ bool operator!=(Complex a, Complex b) { return !(a == b); }
  friend __host__ __device__ __forceinline__ Complex& operator+=(Complex& a, Complex b) { return a = a + b; }
  friend __host__ __device__ __forceinline__ Complex& operator-=(Complex& a, Complex b) { return a = a - b; }
  friend __host__ __device__ __forceinline__ Complex& operator*=(Complex& a, Complex b) { return a = a * b; }
  friend __host__ __device__ __forceinline__ Complex& operator/=(Complex& a, Complex b) { return a = a / b; }
};

template <class T>
__device__ __forceinline__ Complex<T> conjugate(Complex<T> z) {
  return {z.real, -z.imag};
}
template <class T>
__device__ __forceinline__ T abs(Complex<T> z) {
  return hypot(z.real, z.imag);
}
template <class T>
__device__ __forceinline__ T phase(Complex<T> z) {
  return atan2(z.imag, z.real);
}
template <class T>
__device__ __forceinline__ Complex<T> rect(T length, T angle) {
  if (!::isfinite(angle)) {
    if (length == 0) return {fabs(length), 0};
    if (::isinf(length)) return {length, angle};
  }
  const T real = cos(angle), imag = sin(angle);
  // 0 times infinity would be nan.
  return {real == 0 && ::isinf(length) ? real / length : real * length,
          imag == 0 && ::isinf(length) ? imag / length : imag * length};
}
template <class T>
__device__ __forceinline__ bool isnan(Complex<T> z) {
  return ::isnan(z.real) || ::isnan(z.imag);
}
template <class T>
__device__ __forceinline__ bool isinf(Complex<T> z) {
  return ::isinf(z.real) || ::isinf(z.imag);
}
template <class T>
__device__ __forceinline__ bool isfinite(Complex<T> z) {
  return ::isfinite(z.real) && ::isfinite(z.imag);
}

template <class T>
__device__ __forceinline__ Complex<T> exp(Complex<T> z) {
  const bool finite = ::isfinite(z.imag);
  if (::isfinite(z.real) || (z.real < 0 && finite)) {
    if (!finite) return {T(NAN), T(NAN)};
    const T length = ::exp(z.real);
    return {length * ::cos(z.imag), length * ::sin(z.imag)};
  }
  if (::isnan(z.real)) return {z.real, z.imag != 0 ? z.real : z.imag};
  if (z.real < 0) return {T(0), T(0)};
  if (!finite) return {z.real, T(NAN)};
  const T real = ::cos(z.imag), imag = ::sin(z.imag);
  return {real != 0 ? real * z.real : real, imag != 0 ? imag * z.real : imag};
}
template <class T>
__device__ __forceinline__ Complex<T> log(Complex<T> z) {
  return {::log(hypot(z.real, z.imag)), atan2(z.imag, z.real)};
}

// Hull, Fairgrieve and Tang's algorithm, ACM Transactions on Mathematical Software 20 (1994) 215.
template <class T>
__device__ __forceinline__ Complex<T> sqrt(Complex<T> z) {
  T a = z.real, b = z.imag;
  if ((a == 0 && b == 0) || ::isinf(b)) return {fabs(b), b};
  if (::isnan(a)) return {a, a};
  if (::isinf(a)) return a < 0 ? Complex<T>(fabs(b - b), copysign(a, b)) : Complex<T>(a, copysign(b - b, b));
  constexpr double largest = sizeof(T) == 8 ? 1.7976931348623157e308 : 3.4028234663852886e38;
  constexpr double limit = largest / 2.414213562373095;
  const bool large = fabs(a) >= limit || fabs(b) >= limit;
  if (large) {
    a *= T(0.25);
    b *= T(0.25);
  }
  const T root = ::sqrt((fabs(a) + hypot(a, b)) * T(0.5));
  const Complex<T> result =
      a >= 0 ? Complex<T>(root, b / (2 * root)) : Complex<T>(fabs(b) / (2 * root), copysign(root, b));
  return large ? Complex<T>(result.real * 2, result.imag) : result;
}

template <class T>
__device__ __forceinline__ Complex<T> cosh(Complex<T> z) {
  const T x = z.real, y = z.imag;
  if (!::isinf(x)) return {::cos(y) * ::cosh(x), ::sin(y) * ::sinh(x)};
  const bool plain = ::isnan(y) || y == 0;
  const Complex<T> result = plain ? Complex<T>(fabs(x), y) : Complex<T>(copysign(x, ::cos(y)), copysign(x, ::sin(y)));
  return x < 0 ? Complex<T>(result.real, -result.imag) : result;
}
template <class T>
__device__ __forceinline__ Complex<T> sinh(Complex<T> z) {
  const T x = z.real, y = z.imag;
  if (!::isinf(x)) return {::cos(y) * ::sinh(x), ::sin(y) * ::cosh(x)};
  if (::isnan(y)) return z;
  const T real = ::cos(y), imag = ::sin(y);
  return {real != 0 ? real * x : real, imag != 0 ? imag * fabs(x) : imag};
}
template <class T>
__device__ __forceinline__ Complex<T> cos(Complex<T> z) {
  return cosh(Complex<T>(-z.imag, z.real));
}
template <class T>
__device__ __forceinline__ Complex<T> sin(Complex<T> z) {
  const Complex<T> turned = sinh(Complex<T>(-z.imag, z.real));
  return {turned.imag, -turned.real};
}

}  // namespace trifold
