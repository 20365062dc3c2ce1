// 16-bit floats: IEEE half and bfloat16, rounded once, to nearest even, as the GPU's conversions do.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace trifold::simulator {

// The float16 nearest to x, as a float, which holds every float16 exactly.
inline float round_to_half(double x) {
  const double size = std::fabs(x);
  if (!(size < 65520.0)) return std::isnan(x) ? static_cast<float>(x) : std::copysign(INFINITY, static_cast<float>(x));
  // Adding and subtracting 2^52 units of the result's last place rounds x to that place.
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(size) >> 52);
  const int smallest_normal = 1023 - 14;
  const uint64_t place = static_cast<uint64_t>((exponent < smallest_normal ? smallest_normal : exponent) - 10 + 52);
  const double unit = std::bit_cast<double>(place << 52);
  const double rounded = (size + unit) - unit;
  return static_cast<float>(std::copysign(rounded, x));
}

// `x` is a value of float16.
inline uint16_t half_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float size = std::fabs(x);
  if (std::isnan(x)) return sign | 0x7fff;
  if (std::isinf(x)) return sign | 0x7c00;
  if (size < 0x1p-14f) return sign | static_cast<uint16_t>(size * 0x1p24f);
  const uint32_t exponent = (bits >> 23 & 0xff) - 127 + 15;
  return sign | static_cast<uint16_t>(exponent << 10 | (bits >> 13 & 0x3ff));
}

inline float half_value(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) return std::copysign(static_cast<float>(fraction) * 0x1p-24f, std::bit_cast<float>(sign));
  return std::bit_cast<float>(sign | (exponent - 15 + 127) << 23 | fraction << 13);
}

inline float bfloat16_value(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

inline uint16_t bfloat16_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace trifold::simulator
