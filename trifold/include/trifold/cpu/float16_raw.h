// The bits of CUDA's 16-bit floats and of pairs of them, as structs of their own: what the conversions of <cuda_fp8.h>
// take and return.
#pragma once

#include <trifold/cpu/float16.h>

#include <cstdint>
#include <type_traits>

namespace trifold::cpu {

// Converts to and from the float. In CUDA it is an aggregate, `{0x3c00}`; here a constructor takes the bits, since an
// aggregate would accept the float as a number and convert that to an integer.
template <class Float>
struct alignas(2) Raw16 {
  unsigned short x;

  Raw16() = default;
  template <class Bits>
    requires std::is_integral_v<Bits>
  __forceinline__ Raw16(Bits x) : x(static_cast<unsigned short>(x)) {}
  template <class Number>
    requires same_as<Number, Float>
  __forceinline__ Raw16(Number number) : x(number.bits) {}

  __forceinline__ operator Float() const { return Float::of_bits(x); }
};

template <class Pair>
struct alignas(4) Raw16Pair {
  unsigned short x, y;

  Raw16Pair() = default;
  __forceinline__ Raw16Pair(unsigned short x, unsigned short y) : x(x), y(y) {}
  __forceinline__ Raw16Pair(Pair pair) : x(pair.x.bits), y(pair.y.bits) {}

  __forceinline__ operator Pair() const {
    using Float = typename Pair::Scalar;
    return {Float::of_bits(x), Float::of_bits(y)};
  }
};

}  // namespace trifold::cpu

using __half_raw = trifold::cpu::Raw16<__half>;
using __half2_raw = trifold::cpu::Raw16Pair<__half2>;
using __nv_bfloat16_raw = trifold::cpu::Raw16<__nv_bfloat16>;
using __nv_bfloat162_raw = trifold::cpu::Raw16Pair<__nv_bfloat162>;
