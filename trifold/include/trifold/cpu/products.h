// Products of small matrices, as computed by tensor cores: used by PTX's mma and nvcuda::wmma.
//
// Products are exact, and are added in the order of k: in float for 16-bit and tf32 factors; in double; in integers of
// 32 bits. A GPU adds several products at a time and truncates the sum instead of rounding it, so that its floats may
// differ in the last places; an f16 result is rounded once, at the end.
#pragma once

#include <trifold/cpu/float16.h>
#include <trifold/cpu/standard.h>

#include <cstdint>
#include <limits>
#include <type_traits>

// A function that runs on behalf of a whole warp, on the lanes' operands, which are not the kernel's memory.
#define TRIFOLD_OF_THE_WARP __attribute__((no_sanitize("thread", "bounds", "alignment")))

namespace trifold::cpu {

// The upper 19 bits of a float.
struct Tf32 {
  uint32_t bits;
};

// The type of a factor as an operand of a product.
template <class T>
TRIFOLD_OF_THE_WARP auto as_factor(T x) {
  if constexpr (same_as<T, Tf32>) {
    return bit_cast<float>(x.bits & 0xffffe000u);
  } else if constexpr (same_as<T, double>) {
    return x;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<int32_t>(x);
  } else {
    return static_cast<float>(x);
  }
}

// The type in which products of factors of this type are summed.
template <class T>
using ProductSum = std::conditional_t<std::is_integral_v<T>, int64_t, decltype(as_factor(T()))>;

// Converts a sum to a result.
template <class T, bool saturates, class S>
TRIFOLD_OF_THE_WARP T from_sum(S sum) {
  if constexpr (saturates) {
    constexpr S least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    return static_cast<T>(sum < least ? least : sum > most ? most : sum);
  } else {
    return static_cast<T>(sum);
  }
}

// sums += a · b
template <class F, class S, int M, int N, int K>
TRIFOLD_OF_THE_WARP void add_products(S (&sums)[M][N], const F (&a)[M][K], const F (&b)[K][N]) {
  for (int i = 0; i < M; ++i)
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) sums[i][j] += static_cast<S>(a[i][k] * b[k][j]);
}

}  // namespace trifold::cpu
