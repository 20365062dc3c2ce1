// The logistic function by the hardware's own approximations.
#pragma once

#include <trifold/cuda.cuh>

namespace trifold {

#ifndef TRIFOLD_CPU
// 1 / (1 + exp(-x)) for results that are rounded to 11 bits or fewer, as half types are: off by at most 64 round-offs
// of float (2^-18), which is more than they can hold. exp is taken of -|x| only, so that nothing overflows: nan stays
// nan, and ±inf gives 1 and 0.
__device__ __forceinline__ float fast_sigmoid(float x) {
  const float e = __expf(-fabsf(x));
  return __fdividef(x < 0.0f ? e : 1.0f, 1.0f + e);
}
#endif

}  // namespace trifold
