// Python's arithmetic where C++'s differs, with the results of Numba's kernels on a GPU. Used by drafted kernels.
#pragma once

#include <trifold/cuda.cuh>

#include <cmath>
#include <concepts>
#include <cstring>
#include <type_traits>

namespace trifold {

// The type that a kernel computes in; an integer type is its own.
template <class T>
using number_t = std::conditional_t<std::is_integral_v<T>, T, compute_t<T>>;

// A tuple of numbers of one type.
template <class T, int count>
struct Array {
  T elements[count];

  __host__ __device__ __forceinline__ const T& operator[](int i) const { return elements[i]; }
};

// NumPy's functions where C++'s differ: nan is both the larger and the smaller of two floats.
template <class T>
__host__ __device__ __forceinline__ T numpy_maximum(T a, T b) {
  return a >= b || a != a ? a : b;
}
template <class T>
__host__ __device__ __forceinline__ T numpy_minimum(T a, T b) {
  return a <= b || a != a ? a : b;
}
template <class T>
__host__ __device__ __forceinline__ T numpy_sign(T x) {
  if constexpr (std::is_unsigned_v<T>) {
    return x != 0 ? T(1) : T(0);
  } else {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;  // x itself if it is nan, or a zero of either sign
  }
}
template <class T>
__host__ __device__ __forceinline__ T degrees(T x) {
  return x * T(180 / 3.14159265358979323846);
}
template <class T>
__host__ __device__ __forceinline__ T radians(T x) {
  return x * T(3.14159265358979323846 / 180);
}

// round(x, digits) with Numba's rounding: in double, half to even.
template <class T>
__host__ __device__ __forceinline__ T python_round(T x, int64_t digits) {
  if (x - x != 0) return x;  // a nan or an infinity
  const double factor = pow(10.0, static_cast<double>(digits > 22 ? digits - 22 : digits < 0 ? -digits : digits));
  const double rest = digits > 22 ? 1e22 : 1.0;
  const double y = digits < 0 ? static_cast<double>(x) / factor : static_cast<double>(x) * factor * rest;
  if (y - y != 0) return x;  // too large
  const double z = rint(y);
  return static_cast<T>(digits < 0 ? z * factor : z / rest / factor);
}

// The remainder in Numba's code for a GPU, by a division. It differs from fmod's if the quotient has more bits than the
// type, and is nan for an infinite divisor.
template <std::floating_point T>
__host__ __device__ __forceinline__ T remainder_of_division(T a, T b) {
  return fma(-trunc(a / b), b, a);
}

// a // b, rounded down. For integers, 0 if b is 0.
template <class A, class B, class T = std::common_type_t<A, B>>
__host__ __device__ __forceinline__ T floor_div(A dividend, B divisor) {
  const T a = dividend, b = divisor;
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return T(0) - a;  // negating the least number wraps around
      const T quotient = a / b;
      return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
    }
    return a / b;
  } else {
    if (b == 0) return a / b;
    T rest = remainder_of_division(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= T(1);
    if (quotient == 0) return copysign(T(0), a / b);
    const T whole = floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
  }
}

// a % b, with the sign of b. For integers, 0 if b is 0.
template <class A, class B, class T = std::common_type_t<A, B>>
__host__ __device__ __forceinline__ T floor_mod(A dividend, B divisor) {
  const T a = dividend, b = divisor;
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
      const T rest = a % b;
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    return a % b;
  } else {
    if (b == 0) return T(NAN);
    const T rest = remainder_of_division(a, b);
    if (rest == 0) return copysign(T(0), b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
  }
}

// x ** exponent, in the order of Numba's multiplications.
template <int exponent, class T>
__host__ __device__ __forceinline__ T power(T x) {
  using Factor = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  Factor result = 1, factor = static_cast<Factor>(x);  // integers wrap around
#pragma unroll
  for (int left = exponent < 0 ? -exponent : exponent; left > 0; left /= 2) {
    if (left % 2 == 1) result *= factor;
    factor *= factor;
  }
  return exponent < 0 ? T(1) / static_cast<T>(result) : static_cast<T>(result);
}

// The same for a variable exponent. For integers, a negative power of 0 is the least number of the type, and one of any
// number except 1 and -1 is 0.
template <class T, class Exponent>
__host__ __device__ __forceinline__ T power(T x, Exponent exponent) {
  const bool inverse = std::is_signed_v<Exponent> && !(exponent >= 0);
  std::make_unsigned_t<Exponent> left = exponent;
  if (inverse) left = 0 - left;
  if constexpr (std::is_integral_v<T>) {
    using Word = std::make_unsigned_t<T>;  // wraps around
    if (inverse && x == 0) return static_cast<T>(Word(1) << (8 * sizeof(T) - 1));
    if (inverse && x != 1 && x != T(-1)) return 0;
    Word result = 1, factor = x;
    for (; left != 0; left >>= 1) {
      if (left & 1) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  } else {
    if (left > 0x10000) return static_cast<T>(pow(static_cast<double>(x), static_cast<double>(exponent)));
    T result = 1;
    for (; left != 0; left >>= 1) {
      if (left & 1) result *= x;
      x *= x;
    }
    return inverse ? T(1) / result : result;
  }
}

// min(a, b) and max(a, b) with Python's comparison: a, unless b is less, or greater. fmin and fmax differ for nan.
template <class T>
__host__ __device__ __forceinline__ T python_min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
__host__ __device__ __forceinline__ T python_max(T a, T b) {
  return b > a ? b : a;
}

// min(a, b) and max(a, b) of two floats as a GPU computes them: a nan is left out, and -0 is less than 0, which C++
// leaves open for fmin and fmax.
template <class T>
__host__ __device__ __forceinline__ T numba_min(T a, T b) {
  return b < a || a != a || (a == b && signbit(b)) ? b : a;
}
template <class T>
__host__ __device__ __forceinline__ T numba_max(T a, T b) {
  return b > a || a != a || (a == b && signbit(a)) ? b : a;
}

// Whether range(…, stop, step) has an element i, for a step of any sign.
__device__ __forceinline__ bool in_range(int64_t i, int64_t stop, int64_t step) {
  return step > 0 ? i < stop : step < 0 && i > stop;
}

// Where a[start:] begins, of an array of this length: a start below 0 counts from the end.
__device__ __forceinline__ int64_t slice_start(int64_t length, int64_t start) {
  if (start < 0) start += length;
  return start < 0 ? 0 : start < length ? start : length;
}

// The length of a[start:stop:step], of an array of this length: both ends are clipped to it, and a stop below 0 counts
// from the end.
__device__ __forceinline__ int64_t slice_length(int64_t length, int64_t start, int64_t stop, int64_t step = 1) {
  if (stop < 0) stop = stop + length < 0 ? 0 : stop + length;
  if (stop > length) stop = length;
  return stop > start ? (stop - start + step - 1) / step : 0;
}

// The thread's index in its warp, in a block of any dimensions.
__device__ __forceinline__ int lane_id() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

// The lanes before this one, as a mask.
__device__ __forceinline__ uint32_t lanes_below() {
  return (1u << lane_id()) - 1;
}

// Whether the predicate is the same in all lanes of the mask.
__device__ __forceinline__ int eq_sync(unsigned mask, bool predicate) {
  const int all = __all_sync(mask, predicate), none = __all_sync(mask, !predicate);
  return all || none;
}

// The mask if the value is the same in all its lanes, otherwise 0.
template <class T>
__device__ __forceinline__ int match_all_sync(unsigned mask, T value, bool* is_same) {
  int same = 0;
  const unsigned lanes = __match_all_sync(mask, value, &same);
  *is_same = same != 0;
  return static_cast<int>(lanes);
}

// Atomic operations on 64-bit integers, whose type in CUDA's functions is not that of <cstdint>.
template <class T>
concept Integer64 = std::is_integral_v<T> && sizeof(T) == 8;

template <Integer64 T>
__device__ __forceinline__ T atomic_add(T* at, T value) {
  using Word = unsigned long long;
  return static_cast<T>(atomicAdd(reinterpret_cast<Word*>(at), static_cast<Word>(value)));
}
template <Integer64 T>
__device__ __forceinline__ T atomic_exch(T* at, T value) {
  using Word = unsigned long long;
  return static_cast<T>(atomicExch(reinterpret_cast<Word*>(at), static_cast<Word>(value)));
}
template <Integer64 T>
__device__ __forceinline__ T atomic_cas(T* at, T expected, T value) {
  using Word = unsigned long long;
  return static_cast<T>(atomicCAS(reinterpret_cast<Word*>(at), static_cast<Word>(expected), static_cast<Word>(value)));
}
template <Integer64 T>
__device__ __forceinline__ T atomic_and(T* at, T value) {
  using Word = unsigned long long;
  return static_cast<T>(atomicAnd(reinterpret_cast<Word*>(at), static_cast<Word>(value)));
}
template <Integer64 T>
__device__ __forceinline__ T atomic_or(T* at, T value) {
  using Word = unsigned long long;
  return static_cast<T>(atomicOr(reinterpret_cast<Word*>(at), static_cast<Word>(value)));
}
template <Integer64 T>
__device__ __forceinline__ T atomic_xor(T* at, T value) {
  using Word = unsigned long long;
  return static_cast<T>(atomicXor(reinterpret_cast<Word*>(at), static_cast<Word>(value)));
}
template <Integer64 T>
__device__ __forceinline__ T atomic_min(T* at, T value) {
  using Word = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
  return static_cast<T>(atomicMin(reinterpret_cast<Word*>(at), static_cast<Word>(value)));
}
template <Integer64 T>
__device__ __forceinline__ T atomic_max(T* at, T value) {
  using Word = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
  return static_cast<T>(atomicMax(reinterpret_cast<Word*>(at), static_cast<Word>(value)));
}

// For floats. If either number is nan, memory does not change; in nanmax and nanmin, any number replaces a nan.
template <class T>
concept Float = std::is_floating_point_v<T>;

template <Float T, class Better>
__device__ __forceinline__ T exchange_where(T* at, T value, Better better) {
  using Word = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
  auto* const word = reinterpret_cast<Word*>(at);
  Word bits;
  memcpy(&bits, &value, sizeof(T));
  Word seen = atomicCAS(word, Word(0), Word(0));  // an atomic read
  for (;;) {
    T old;
    memcpy(&old, &seen, sizeof(T));
    if (!better(value, old)) return old;
    const Word found = atomicCAS(word, seen, bits);
    if (found == seen) return old;
    seen = found;
  }
}
template <Float T>
__device__ __forceinline__ T atomic_max(T* at, T value) {
  return exchange_where(at, value, [](T a, T b) { return a > b; });
}
template <Float T>
__device__ __forceinline__ T atomic_min(T* at, T value) {
  return exchange_where(at, value, [](T a, T b) { return a < b; });
}
template <Float T>
__device__ __forceinline__ T atomic_nanmax(T* at, T value) {
  return exchange_where(at, value, [](T a, T b) { return a > b || (a == a && b != b); });
}
template <Float T>
__device__ __forceinline__ T atomic_nanmin(T* at, T value) {
  return exchange_where(at, value, [](T a, T b) { return a < b || (a == a && b != b); });
}

}  // namespace trifold
