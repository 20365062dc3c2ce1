// float to IEEE binary16 and back, rounded to nearest even: by the compiler's _Float16 where it has one (g++ from 12
// on), else in integers.
#pragma once

#include <bit>
#include <cstdint>

namespace trifold::host {

namespace half_in_integers {

inline std::uint16_t from_float(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7fffffff;
  std::uint32_t bits = 0;
  if (magnitude > 0x7f800000) {
    bits = 0x7e00 | (magnitude >> 13 & 0x3ff);  // a quiet NaN
  } else if (magnitude >= 0x477ff000) {
    bits = 0x7c00;  // 65520 and more round to infinity
  } else if (magnitude >= 0x38800000) {
    bits = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  } else {
    // Below 2^-14 a half is a multiple of 2^-24, the unit of a float's last place from 0.5 on: adding 0.5 rounds to it.
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
  }
  return static_cast<std::uint16_t>(sign | bits);
}

inline float to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} << 16 & 0x80000000;
  const std::uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  std::uint32_t magnitude = (exponent + 112) << 23 | fraction << 13;
  if (exponent == 0) magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
  if (exponent == 31) magnitude = 0x7f800000 | fraction << 13;
  return std::bit_cast<float>(sign | magnitude);
}

}  // namespace half_in_integers

#ifdef __FLT16_MANT_DIG__

inline std::uint16_t half_bits(float value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}
inline float half_value(std::uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

#else

inline std::uint16_t half_bits(float value) {
  return half_in_integers::from_float(value);
}
inline float half_value(std::uint16_t bits) {
  return half_in_integers::to_float(bits);
}

#endif

}  // namespace trifold::host
