// exp for sums of exponentials of which only quotients, or the logarithm, matter.
#pragma once

#include <trifold/cuda.cuh>

namespace trifold {

// The power of two by which scaled_exp is larger than exp.
template <class T>
constexpr int scaled_exp_bits() {
#ifdef __CUDA_ARCH__
  return sizeof(T) == 2 ? 24 : 0;
#else
  return 0;
#endif
}

// exp(x) · 2^scaled_exp_bits for x ≤ 0, in the compute type of T. For half types on a GPU it is the hardware's exp2,
// which is right to 2^-22 but rounds what is below 2^-126 to 0; the factor keeps such results. exp as the C library has
// it would bound a softmax of bfloat16 there.
template <class T>
__device__ __forceinline__ compute_t<T> scaled_exp(compute_t<T> x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) {
    constexpr float log2_e = 1.44269504f;
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(fmaf(x, log2_e, float(scaled_exp_bits<T>()))));
    return result;
  }
#endif
  return exp(x);
}

}  // namespace trifold
