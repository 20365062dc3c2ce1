// exp for sums of exponentials of which only quotients, or the logarithm, matter.
#pragma once

#include <trifold/cuda.cuh>

namespace trifold {

// The exponent of the power of two by which scaled_exp is larger than exp.
template <class T>
constexpr int scaled_exp_bits() {
#ifdef TRIFOLD_GPU_ARCH
  return sizeof(T) == 2 ? 24 : 0;
#else
  return 0;
#endif
}

#ifdef TRIFOLD_GPU_ARCH
// exp(x) · 2^bits by the hardware's exp2, with an error of 2^-22, which flushes results below 2^-126 to 0.
__device__ __forceinline__ float hardware_exp(float x, float bits) {
  constexpr float log2_e = 1.44269504f;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(fmaf(x, log2_e, bits)));
  return result;
}
#endif

// exp(x) · 2^scaled_exp_bits for x ≤ 0, in the compute type of T. For half types on a GPU it uses the hardware's exp2;
// the factor keeps results down to 2^-150. The C library's exp would be the bottleneck of a bfloat16 softmax.
template <class T>
__device__ __forceinline__ compute_t<T> scaled_exp(compute_t<T> x) {
#ifdef TRIFOLD_GPU_ARCH
  if constexpr (sizeof(T) == 2) return hardware_exp(x, float(scaled_exp_bits<T>()));
#endif
  return exp(x);
}

// The result of softmax: exp(x - max) / sum, with a sum of scaled_exp. For half types on a GPU the division is a
// subtraction of exponents.
template <class T>
struct ExpQuotient {
  compute_t<T> max, of_sum;

  __device__ __forceinline__ ExpQuotient(compute_t<T> max, compute_t<T> sum) : max(max), of_sum(1 / sum) {
#ifdef TRIFOLD_GPU_ARCH
    if constexpr (sizeof(T) == 2) {
      asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(of_sum) : "f"(sum));
      of_sum = float(scaled_exp_bits<T>()) - of_sum;
    }
#endif
  }

  __device__ __forceinline__ compute_t<T> operator()(compute_t<T> x) const {
#ifdef TRIFOLD_GPU_ARCH
    if constexpr (sizeof(T) == 2) return hardware_exp(x - max, of_sum);
#endif
    return exp(x - max) * of_sum;
  }

  // Whether the largest number is close enough to 0 for of_near to be accurate enough for the type: one instruction
  // less, with an error of 2^-24 · |max| · log2(e).
  __device__ __forceinline__ bool is_near() const {
#ifdef TRIFOLD_GPU_ARCH
    return sizeof(T) == 2 && fabsf(max) < 256;
#else
    return false;
#endif
  }
  __device__ __forceinline__ compute_t<T> of_near(compute_t<T> x) const {
#ifdef TRIFOLD_GPU_ARCH
    if constexpr (sizeof(T) == 2) return hardware_exp(x, of_sum - max * 1.44269504f);
#endif
    return (*this)(x);
  }
};

// exp(x) and 1 / x, with the accuracy that type T needs: for half types on a GPU within 2^-20.
template <class T>
__device__ __forceinline__ compute_t<T> close_exp(compute_t<T> x) {
#ifdef TRIFOLD_GPU_ARCH
  if constexpr (sizeof(T) == 2) return __expf(x);
#endif
  return exp(x);
}
template <class T>
__device__ __forceinline__ compute_t<T> close_reciprocal(compute_t<T> x) {
#ifdef TRIFOLD_GPU_ARCH
  if constexpr (sizeof(T) == 2) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }
#endif
  return compute_t<T>(1) / x;
}

}  // namespace trifold
