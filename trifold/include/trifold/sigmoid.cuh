// The logistic function for the scalar types of a kernel.
#pragma once

#include <trifold/cuda.cuh>

namespace trifold {

// n / d for 1 ≤ d ≤ 2 in float: a reciprocal, one Newton step, one step of the quotient. Its error over all floats is
// that of the division in `sigmoid` (4 unit round-offs with exp's), without the branch for the ranges that cannot
// occur.
template <class C>
__device__ __forceinline__ C sigmoid_quotient(C n, C d) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(C) == sizeof(float)) {
    float r = __fdividef(1.0f, d);
    r = fmaf(fmaf(-d, r, 1.0f), r, r);
    const float q = n * r;
    return fmaf(fmaf(-d, q, n), r, q);
  }
#endif
  return n / d;
}

// 1 / (1 + exp(-x)), with exp of -|x| only, so that no branch overflows: at most 1, at least 0.
//
// For T = half types the result is rounded to 11 bits or fewer: the hardware's exp and division, off by at most 64
// round-offs of float (2^-18), are more than it can hold.
template <class T>
__device__ __forceinline__ compute_t<T> sigmoid(compute_t<T> x) {
  using C = compute_t<T>;
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) {
    const float e = __expf(-fabsf(x));  // nan stays nan; ±inf gives 0
    return __fdividef(x < 0.0f ? e : 1.0f, 1.0f + e);
  }
#endif
  const C e = exp(x < C(0) ? x : -x);
  return sigmoid_quotient(x < C(0) ? e : C(1), C(1) + e);
}

}  // namespace trifold
