// binary16 in integers against the compiler's own: all halves, and floats at, between and beside them. Exits with 1
// where they differ, with 2 where the compiler has no half.
#include <trifold/half_bits.h>

#include <cmath>
#include <cstdio>
#include <initializer_list>

int main() {
#ifdef __FLT16_MANT_DIG__
  using namespace trifold::host;
  int wrong = 0;
  const auto expect = [&](bool right, unsigned what) {
    if (!right && ++wrong < 10) std::printf("wrong: %#x\n", what);
  };
  for (unsigned bits = 0; bits < 1u << 16; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_value(half);
    if (std::isnan(value)) {
      expect(std::isnan(half_in_integers::to_float(half)), bits);
      expect((half_in_integers::from_float(value) & 0x7fff) > 0x7c00, bits);
      continue;
    }
    expect(std::bit_cast<std::uint32_t>(half_in_integers::to_float(half)) == std::bit_cast<std::uint32_t>(value), bits);
    const float next = half_value(static_cast<std::uint16_t>(bits + 1));
    const float middle = std::isfinite(next) ? 0.5f * value + 0.5f * next : value * 1.00025f;
    for (const float near :
         {value, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f), value * 1.0001f})
      expect(half_in_integers::from_float(near) == half_bits(near), std::bit_cast<std::uint32_t>(near));
  }
  return wrong == 0 ? 0 : 1;
#else
  return 2;
#endif
}
