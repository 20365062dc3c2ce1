// exp for sums of exponentials of which only quotients, or the logarithm, matter.
#pragma once

#include <trifold/cuda.cuh>

namespace trifold {

inline constexpr float log2_e = 1.44269504f;

#ifdef TRIFOLD_GPU_ARCH
inline constexpr bool approximates = true;

// By the special function unit, which flushes subnormal results to 0: 2^x with an error of 2^-22, log2(x), and 1 / x.
__device__ __forceinline__ float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float fast_log2(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float fast_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
#else
inline constexpr bool approximates = false;
#endif

// Whether the special function unit is accurate enough for type T. The C library's exp would be the bottleneck of a
// bfloat16 softmax.
template <class T>
inline constexpr bool is_fast = approximates && sizeof(T) == 2;

// log2 of scaled_exp(x) / exp(x).
template <class T>
constexpr int scaled_exp_bits() {
  return is_fast<T> ? 24 : 0;
}

// exp(x) · 2^scaled_exp_bits for x ≤ 0, in the compute type of T. For half types on a GPU the factor keeps results
// normal down to 2^-150.
template <class T>
__device__ __forceinline__ compute_t<T> scaled_exp(compute_t<T> x) {
  if constexpr (is_fast<T>) return fast_exp2(fmaf(x, log2_e, float(scaled_exp_bits<T>())));
  return exp(x);
}

// The result of softmax: exp(x - max) / sum, with a sum of scaled_exp. For half types on a GPU the division is a
// subtraction of exponents.
template <class T>
struct ExpQuotient {
  compute_t<T> max, of_sum;

  __device__ __forceinline__ ExpQuotient(compute_t<T> max, compute_t<T> sum) : max(max) {
    if constexpr (is_fast<T>)
      of_sum = float(scaled_exp_bits<T>()) - fast_log2(sum);
    else
      of_sum = 1 / sum;
  }

  __device__ __forceinline__ compute_t<T> operator()(compute_t<T> x) const {
    if constexpr (is_fast<T>) return fast_exp2(fmaf(x - max, log2_e, of_sum));
    return exp(x - max) * of_sum;
  }

  // Whether the largest number is close enough to 0 for of_near to be accurate enough for the type: one instruction
  // less, with an error of 2^-24 · |max| · log2(e).
  __device__ __forceinline__ bool is_near() const { return is_fast<T> && fabsf(float(max)) < 256; }
  __device__ __forceinline__ compute_t<T> of_near(compute_t<T> x) const {
    if constexpr (is_fast<T>) return fast_exp2(fmaf(x, log2_e, of_sum - max * log2_e));
    return (*this)(x);
  }
};

// exp(x) and 1 / x, with the accuracy that type T needs: for half types on a GPU within 2^-20.
template <class T>
__device__ __forceinline__ compute_t<T> close_exp(compute_t<T> x) {
  if constexpr (is_fast<T>) return __expf(x);
  return exp(x);
}
template <class T>
__device__ __forceinline__ compute_t<T> close_reciprocal(compute_t<T> x) {
  if constexpr (is_fast<T>) return fast_reciprocal(x);
  return compute_t<T>(1) / x;
}

}  // namespace trifold
