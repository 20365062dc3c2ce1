// Values as bits, for code that passes them on without knowing their types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace trifold::cpu {

// An unsigned integer of this many bytes.
template <size_t bytes>
using Word =
    std::conditional_t<bytes == 1, uint8_t,
                       std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, uint64_t>>>;

// A cast if the size is an integer's: with checks, memcpy is a call that is checked.
template <class T>
constexpr bool is_of_a_word = sizeof(T) == sizeof(Word<sizeof(T)>);

template <class T>
uint64_t to_bits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "the value is of up to 8 bytes");
  if constexpr (is_of_a_word<T>) {
    return __builtin_bit_cast(Word<sizeof(T)>, value);
  } else {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
}
template <class T>
T from_bits(uint64_t bits) {
  if constexpr (is_of_a_word<T>) {
    return __builtin_bit_cast(T, static_cast<Word<sizeof(T)>>(bits));
  } else {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
}

}  // namespace trifold::cpu
