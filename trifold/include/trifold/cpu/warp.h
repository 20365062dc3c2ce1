// Operations of a warp's lanes: shuffles, votes, matches, reductions.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/bits.h>
#include <trifold/cpu/numbers.h>

#include <cstring>
#include <type_traits>

namespace trifold::cpu {

// Values of any size: larger ones are exchanged in words.
template <class T>
T shuffle(Wait operation, unsigned mask, const T& value, unsigned lane, int width, Line line) {
  // Operand c of PTX's shfl.sync: which lanes form a segment, and where it ends.
  const unsigned clamp = (32u - static_cast<unsigned>(width)) << 8 | (operation == Wait::shuffle_up ? 0u : 0x1fu);
  const auto exchanged = [&](uint64_t word) __attribute__((always_inline)) {
    return meet_warp(operation, mask, false, word, lane, clamp, line).value;
  };
  if constexpr (std::is_trivially_copyable_v<T> && sizeof(T) <= 8) {
    return from_bits<T>(exchanged(to_bits(value)));
  } else {
    uint64_t words[(sizeof(T) + 7) / 8] = {};
    std::memcpy(words, &value, sizeof(T));
    for (uint64_t& word : words) word = exchanged(word);
    union Result {
      Result() {}
      ~Result() {}
      unsigned char bytes[sizeof(T)];
      T value;
    } result;
    std::memcpy(result.bytes, words, sizeof(T));
    return result.value;
  }
}
// Of the functions named __shfl_…sync.
template <class T>
T shuffle_word(Wait operation, unsigned mask, const T& value, unsigned lane, int width, Line line) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a warp exchanges values of up to 8 bytes");
  return shuffle(operation, mask, value, lane, width, line);
}

template <class T, class... Types>
concept one_of = (same_as<T, Types> || ...);

// The lanes of the mask reduce their values in a tree to its first lane, which broadcasts the result.
template <class T, class F>
T reduce(unsigned mask, T value, F combine, Line line) {
  const int count = __popc(mask), rank = __popc(mask & ((1u << lane()) - 1));
  for (int step = 1; step < count; step *= 2) {
    const bool partner = rank + step < count;
    const unsigned source = partner ? __fns(mask, 0, rank + step + 1) : lane();
    const T other = shuffle(Wait::shuffle, mask, value, source, 32, line);
    if (partner && rank % (2 * step) == 0) value = combine(value, other);
  }
  return shuffle(Wait::shuffle, mask, value, __fns(mask, 0, 1), 32, line);
}

}  // namespace trifold::cpu

inline void __syncwarp(unsigned mask = 0xffffffffu, trifold::cpu::Line line = {}) {
  trifold::cpu::meet_warp(trifold::cpu::Wait::sync_warp, mask, false, 0, 0, 0, line);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, trifold::cpu::Line line = {}) {
  return trifold::cpu::shuffle_word(trifold::cpu::Wait::shuffle, mask, value, static_cast<unsigned>(lane), width, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, trifold::cpu::Line line = {}) {
  return trifold::cpu::shuffle_word(trifold::cpu::Wait::shuffle_up, mask, value, delta, width, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, trifold::cpu::Line line = {}) {
  return trifold::cpu::shuffle_word(trifold::cpu::Wait::shuffle_down, mask, value, delta, width, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, trifold::cpu::Line line = {}) {
  return trifold::cpu::shuffle_word(trifold::cpu::Wait::shuffle_xor, mask, value, static_cast<unsigned>(bits), width,
                                    line);
}

inline int __all_sync(unsigned mask, int predicate, trifold::cpu::Line line = {}) {
  return trifold::cpu::meet_warp(trifold::cpu::Wait::vote_all, mask, predicate != 0, 0, 0, 0, line).predicate;
}
inline int __any_sync(unsigned mask, int predicate, trifold::cpu::Line line = {}) {
  return trifold::cpu::meet_warp(trifold::cpu::Wait::vote_any, mask, predicate != 0, 0, 0, 0, line).predicate;
}
inline int __uni_sync(unsigned mask, int predicate, trifold::cpu::Line line = {}) {
  return trifold::cpu::meet_warp(trifold::cpu::Wait::vote_equal, mask, predicate != 0, 0, 0, 0, line).predicate;
}
inline unsigned __ballot_sync(unsigned mask, int predicate, trifold::cpu::Line line = {}) {
  const auto answer = trifold::cpu::meet_warp(trifold::cpu::Wait::ballot, mask, predicate != 0, 0, 0, 0, line);
  return static_cast<unsigned>(answer.value);
}
inline unsigned __activemask(trifold::cpu::Line line = {}) {
  return static_cast<unsigned>(trifold::cpu::meet_warp(trifold::cpu::Wait::active_mask, 0, false, 0, 0, 0, line).value);
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, trifold::cpu::Line line = {}) {
  const uint64_t bits = trifold::cpu::to_bits(value);
  return static_cast<unsigned>(
      trifold::cpu::meet_warp(trifold::cpu::Wait::match_any, mask, false, bits, 0, 0, line).value);
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* all, trifold::cpu::Line line = {}) {
  const uint64_t bits = trifold::cpu::to_bits(value);
  const auto answer = trifold::cpu::meet_warp(trifold::cpu::Wait::match_all, mask, false, bits, 0, 0, line);
  *all = answer.predicate ? 1 : 0;
  return static_cast<unsigned>(answer.value);
}

template <trifold::cpu::one_of<int, unsigned> T>
T __reduce_add_sync(unsigned mask, T value, trifold::cpu::Line line = {}) {
  const auto add = [](unsigned a, unsigned b) { return a + b; };
  return static_cast<T>(trifold::cpu::reduce(mask, static_cast<unsigned>(value), add, line));
}
template <trifold::cpu::one_of<int, unsigned> T>
T __reduce_min_sync(unsigned mask, T value, trifold::cpu::Line line = {}) {
  return trifold::cpu::reduce(mask, value, [](T a, T b) { return a < b ? a : b; }, line);
}
template <trifold::cpu::one_of<int, unsigned> T>
T __reduce_max_sync(unsigned mask, T value, trifold::cpu::Line line = {}) {
  return trifold::cpu::reduce(mask, value, [](T a, T b) { return a > b ? a : b; }, line);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, trifold::cpu::Line line = {}) {
  return trifold::cpu::reduce(mask, value, [](unsigned a, unsigned b) { return a & b; }, line);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, trifold::cpu::Line line = {}) {
  return trifold::cpu::reduce(mask, value, [](unsigned a, unsigned b) { return a | b; }, line);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, trifold::cpu::Line line = {}) {
  return trifold::cpu::reduce(mask, value, [](unsigned a, unsigned b) { return a ^ b; }, line);
}
