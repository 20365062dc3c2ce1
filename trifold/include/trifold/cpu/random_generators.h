// The generators of cuRAND's device API: XORWOW, Philox4_32_10 and MRG32k3a, with the same numbers as on a GPU. (cuRAND
// manual, "Device API"; the papers are named in the engine's random_skips.cpp and in philox.cuh.)
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/philox.cuh>

#include <array>
#include <cstdint>

#pragma GCC visibility push(default)
namespace trifold::cpu {

using XorwowBits = std::array<uint32_t, 5>;
// A step of XORWOW without its counter.
inline void xorwow_step(XorwowBits& v) {
  const uint32_t t = v[0] ^ v[0] >> 2;
  v = {v[1], v[2], v[3], v[4], v[4] ^ v[4] << 4 ^ t ^ t << 1};
}

using MrgWords = std::array<uint32_t, 3>;
struct MrgState {
  MrgWords first, second;
};
inline constexpr uint32_t mrg_moduli[] = {4294967087u, 4294944443u};

// The state after count * 2^log2_unit steps.
XorwowBits skip_xorwow(XorwowBits bits, uint64_t count, int log2_unit);
MrgState skip_mrg(MrgState state, uint64_t count, int log2_unit);

// The second number of a pair, kept for the next call of the same distribution.
enum class Kept : int { nothing, normal, log_normal };
struct KeptNumbers {
  Kept kept = Kept::nothing, kept_double = Kept::nothing;
  float number = 0;
  double number_double = 0;
};

}  // namespace trifold::cpu
#pragma GCC visibility pop

struct curandStateXORWOW {
  unsigned d;
  trifold::cpu::XorwowBits v;
  trifold::cpu::KeptNumbers pair;
};
struct curandStatePhilox4_32_10 {
  trifold::PhiloxWords counter, output;
  trifold::PhiloxKey key;
  unsigned used;  // words of `output` that were used
  trifold::cpu::KeptNumbers pair;
};
struct curandStateMRG32k3a {
  trifold::cpu::MrgState words;
  trifold::cpu::KeptNumbers pair;
};
using curandStateXORWOW_t = curandStateXORWOW;
using curandState_t = curandStateXORWOW;
using curandState = curandStateXORWOW;
using curandStatePhilox4_32_10_t = curandStatePhilox4_32_10;
using curandStateMRG32k3a_t = curandStateMRG32k3a;

// ---------------------------------------------------------------------------------------------------- XORWOW

inline unsigned curand(curandStateXORWOW* state) {
  trifold::cpu::xorwow_step(state->v);
  state->d += 362437;
  return state->v[4] + state->d;
}
inline void skipahead(unsigned long long n, curandStateXORWOW* state) {
  state->v = trifold::cpu::skip_xorwow(state->v, n, 0);
  state->d += 362437 * static_cast<unsigned>(n);
}
// The counter is the same after 2^67 steps.
inline void skipahead_sequence(unsigned long long n, curandStateXORWOW* state) {
  state->v = trifold::cpu::skip_xorwow(state->v, n, 67);
}
inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                        curandStateXORWOW* state) {
  // The constants are cuRAND's.
  const unsigned low = 1099087573u * (static_cast<unsigned>(seed) ^ 0xaad26b49u);
  const unsigned high = 2591861531u * (static_cast<unsigned>(seed >> 32) ^ 0xf7dcefddu);
  *state = {6615241u + low + high,
            {123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high, 5783321u + low},
            {}};
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}

// ---------------------------------------------------------------------------------------------------- Philox

namespace trifold::cpu {

// Adds to the counter's lower half, with a carry into the upper one; or to its upper half only.
inline void count_on(curandStatePhilox4_32_10& state, uint64_t n, bool upper_half) {
  auto& word = state.counter.word;
  const auto add = [&](int at) {
    const uint64_t sum = (uint64_t{word[at + 1]} << 32 | word[at]) + n;
    word[at] = static_cast<uint32_t>(sum);
    word[at + 1] = static_cast<uint32_t>(sum >> 32);
    return sum < n;
  };
  if (add(upper_half ? 2 : 0) && !upper_half && ++word[2] == 0) ++word[3];
  state.output = philox4x32_10(state.counter, state.key);
}

}  // namespace trifold::cpu

inline unsigned curand(curandStatePhilox4_32_10* state) {
  const unsigned word = state->output.word[state->used++];
  if (state->used == 4) {
    trifold::cpu::count_on(*state, 1, false);
    state->used = 0;
  }
  return word;
}
inline uint4 curand4(curandStatePhilox4_32_10* state) {
  unsigned words[4];
  for (unsigned& word : words) word = curand(state);
  return {words[0], words[1], words[2], words[3]};
}
inline void skipahead(unsigned long long n, curandStatePhilox4_32_10* state) {
  const unsigned used = state->used + static_cast<unsigned>(n % 4);
  state->used = used % 4;
  trifold::cpu::count_on(*state, n / 4 + used / 4, false);
}
inline void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10* state) {
  trifold::cpu::count_on(*state, n, true);
}
inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                        curandStatePhilox4_32_10* state) {
  *state = {{}, {}, {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}}, 0, {}};
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}

// ---------------------------------------------------------------------------------------------------- MRG32k3a

// From 1 to the first modulus.
inline double curand_MRG32k3a(curandStateMRG32k3a* state) {
  const auto [m1, m2] = trifold::cpu::mrg_moduli;
  auto& [s1, s2] = state->words;
  const uint64_t p1 = (uint64_t{1403580} * s1[1] + uint64_t{810728} * (m1 - s1[0])) % m1;
  const uint64_t p2 = (uint64_t{527612} * s2[2] + uint64_t{1370589} * (m2 - s2[0])) % m2;
  s1 = {s1[1], s1[2], static_cast<uint32_t>(p1)};
  s2 = {s2[1], s2[2], static_cast<uint32_t>(p2)};
  return static_cast<double>(p1 > p2 ? p1 - p2 : p1 + m1 - p2);
}
inline unsigned curand(curandStateMRG32k3a* state) {
  constexpr double scale = 1.000000048662;  // (2^32 - 1) / m1, in cuRAND's digits
  return static_cast<unsigned>(curand_MRG32k3a(state) * scale);
}
inline void skipahead(unsigned long long n, curandStateMRG32k3a* state) {
  state->words = trifold::cpu::skip_mrg(state->words, n, 0);
}
inline void skipahead_subsequence(unsigned long long n, curandStateMRG32k3a* state) {
  state->words = trifold::cpu::skip_mrg(state->words, n, 76);
}
inline void skipahead_sequence(unsigned long long n, curandStateMRG32k3a* state) {
  state->words = trifold::cpu::skip_mrg(state->words, n, 127);
}
inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                        curandStateMRG32k3a* state) {
  const uint64_t low = static_cast<uint32_t>(seed) ^ 0x55555555u;
  const uint64_t high = static_cast<uint32_t>(seed >> 32) ^ 0xaaaaaaaau;
  const auto started = [&](uint64_t factor, uint32_t modulus) {
    return static_cast<uint32_t>((seed == 0 ? 1 : factor) * 12345 % modulus);
  };
  const auto [m1, m2] = trifold::cpu::mrg_moduli;
  *state = {{{started(low, m1), started(high, m1), started(low, m1)},
             {started(high, m2), started(low, m2), started(high, m2)}},
            {}};
  skipahead_subsequence(subsequence, state);
  skipahead(offset, state);
}
