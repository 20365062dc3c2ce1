// Keys of radix sorts as unsigned numbers in the same order.
#pragma once

#include <trifold/cpu/bits.h>
#include <trifold/cpu/cub/types.h>

#include <limits>

namespace cub::details {

// -0 and 0 are the same key, and NaNs are beyond the infinity of their sign, as in CUB.
template <class Key>
auto radix_bits(const Key& key) {
  using Bits = trifold::cpu::Word<sizeof(Key)>;
  static_assert(sizeof(Bits) == sizeof(Key), "the CPU sorts keys of 1, 2, 4 and 8 bytes that are numbers");
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const Bits bits = trifold::cpu::bit_cast<Bits>(key);
  if constexpr (std::is_integral_v<Key>) {
    return static_cast<Bits>(std::is_signed_v<Key> ? bits ^ sign : bits);
  } else {
    static_assert(std::is_floating_point_v<Key> || trifold::cpu::one_of<Key, __half, __nv_bfloat16>,
                  "the CPU sorts keys that are numbers");
    if (bits == sign) return sign;
    return static_cast<Bits>((bits & sign) != 0 ? ~bits : bits | sign);
  }
}

// The digit of a key that is so many bits from `begin`; of a descending sort, the largest one comes first.
template <class Key>
unsigned radix_digit(const Key& key, int begin, int bits, bool descending) {
  const auto digit = static_cast<unsigned>(radix_bits(key) >> begin) & ((1u << bits) - 1);
  return descending ? (1u << bits) - 1 - digit : digit;
}

}  // namespace cub::details

namespace cub {

// A number's bits, as an unsigned number in the same order (TwiddleIn), and back. As CUB's, it keeps -0 below 0.
template <class T>
struct Traits {
  static_assert(std::is_arithmetic_v<T> || trifold::cpu::one_of<T, __half, __nv_bfloat16>,
                "Traits are those of numbers");
  using UnsignedBits = trifold::cpu::Word<sizeof(T)>;
  static constexpr bool PRIMITIVE = true;

  static constexpr UnsignedBits TwiddleIn(UnsignedBits key) {
    if constexpr (std::is_integral_v<T>)
      return std::is_signed_v<T> ? key ^ sign : key;
    else
      return key ^ ((key & sign) != 0 ? all : sign);
  }
  static constexpr UnsignedBits TwiddleOut(UnsignedBits key) {
    if constexpr (std::is_integral_v<T>)
      return TwiddleIn(key);
    else
      return key ^ ((key & sign) != 0 ? sign : all);
  }
  static constexpr T Max() { return ::std::numeric_limits<T>::max(); }
  static constexpr T Lowest() { return ::std::numeric_limits<T>::lowest(); }

 private:
  static constexpr UnsignedBits all = static_cast<UnsignedBits>(~UnsignedBits{0});
  static constexpr UnsignedBits sign = static_cast<UnsignedBits>(UnsignedBits{1} << (8 * sizeof(T) - 1));
};
template <class T>
using NumericTraits = Traits<T>;

}  // namespace cub
