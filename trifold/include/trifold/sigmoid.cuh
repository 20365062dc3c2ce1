// The logistic function by the hardware's approximate instructions.
#pragma once

#include <trifold/cuda.cuh>

namespace trifold {

#ifndef TRIFOLD_CPU
// 1 / (1 + exp(-x)) for results rounded to 11 bits or fewer, such as half types: off by at most 64 round-offs of float
// (2^-18), below their resolution. exp is only computed of -|x|, so that nothing overflows: nan stays nan, and ±inf
// gives 1 and 0.
__device__ __forceinline__ float fast_sigmoid(float x) {
  const float e = __expf(-fabsf(x));
  return __fdividef(x < 0.0f ? e : 1.0f, 1.0f + e);
}
#endif

}  // namespace trifold
