// The distributions of cuRAND's device API. Uniform numbers have the same bits as on a GPU. Normal ones differ by the
// approximations of the GPU's sine, cosine and logarithm. Poisson numbers are the same up to a mean of 64 and from
// 4,000 on; in between, they have the same distribution.
#pragma once

#include <trifold/cpu/math.h>
#include <trifold/cpu/random_generators.h>

#include <cmath>

namespace trifold::cpu {

// In (0, 1] from 32 bits, and in (0, 1) from 53.
inline float uniform_of(uint32_t word) {
  return static_cast<float>(word) * 0x1p-32f + 0x1p-33f;
}
inline uint64_t joined(uint32_t x, uint32_t y) {
  return x ^ uint64_t{y} << 21;
}
inline double uniform_of(uint32_t x, uint32_t y) {
  return static_cast<double>(joined(x, y)) * 0x1p-53 + 0x1p-54;
}

// The Box-Muller transform of a number in (0, 1] and an angle; in double the angle is in half turns.
inline float2 box_muller(float u, float angle) {
  const float radius = std::sqrt(-2.0f * std::log(u));
  return {std::sin(angle) * radius, std::cos(angle) * radius};
}
inline double2 box_muller(double u, double half_turns) {
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {::sinpi(half_turns) * radius, ::cospi(half_turns) * radius};
}
inline constexpr float two_pi = 6.2831855f;

template <class State>
float2 normal_pair(State* state) {
  constexpr float unit = 0x1p-32f * two_pi;
  const uint32_t x = curand(state), y = curand(state);
  return box_muller(uniform_of(x), std::fma(static_cast<float>(y), unit, unit / 2));
}
inline double2 normal_pair_of(const uint32_t (&word)[4]) {
  const double half_turns = static_cast<double>(joined(word[2], word[3])) * 0x1p-52 + 0x1p-53;
  return box_muller(uniform_of(word[0], word[1]), half_turns);
}
template <class State>
double2 normal_pair_double(State* state) {
  uint32_t words[4];
  for (uint32_t& word : words) word = curand(state);
  return normal_pair_of(words);
}

}  // namespace trifold::cpu

// ---------------------------------------------------------------------------------------------------- uniform

template <class State>
float curand_uniform(State* state) {
  return trifold::cpu::uniform_of(curand(state));
}
inline float curand_uniform(curandStateMRG32k3a* state) {
  constexpr double scale = 2.3283065498378288e-10;  // less than 1 / m1, in cuRAND's digits
  return static_cast<float>(curand_MRG32k3a(state) * scale);
}
inline float4 curand_uniform4(curandStatePhilox4_32_10* state) {
  const uint4 words = curand4(state);
  using trifold::cpu::uniform_of;
  return {uniform_of(words.x), uniform_of(words.y), uniform_of(words.z), uniform_of(words.w)};
}
inline double curand_uniform_double(curandStateXORWOW* state) {
  const unsigned x = curand(state), y = curand(state);
  return trifold::cpu::uniform_of(x, y);
}
inline double curand_uniform_double(curandStatePhilox4_32_10* state) {
  return curand(state) * 0x1p-32 + 0x1p-32;  // of 32 bits, as in cuRAND
}
inline double curand_uniform_double(curandStateMRG32k3a* state) {
  return curand_MRG32k3a(state) * 2.3283065498378288e-10;
}
inline double2 curand_uniform2_double(curandStatePhilox4_32_10* state) {
  const uint4 words = curand4(state);
  return {trifold::cpu::uniform_of(words.x, words.y), trifold::cpu::uniform_of(words.z, words.w)};
}
inline double4 curand_uniform4_double(curandStatePhilox4_32_10* state) {
  const double2 low = curand_uniform2_double(state), high = curand_uniform2_double(state);
  return {low.x, low.y, high.x, high.y};
}

namespace trifold::cpu {

inline float2 normal_pair(curandStateMRG32k3a* state) {
  const float u = curand_uniform(state);
  return box_muller(u, curand_uniform(state) * two_pi);
}
inline double2 normal_pair_double(curandStateMRG32k3a* state) {
  const double u = curand_uniform_double(state);
  return box_muller(u, curand_uniform_double(state) * 2);
}

// The first number of a pair, and at the next call of the same distribution the second.
template <class Pair, class Number, class Make>
Number first_of(Pair& pair, Kept& kept, Kept distribution, Number& number, const Make& make) {
  if (kept == distribution) {
    kept = Kept::nothing;
    return number;
  }
  const auto made = make();
  kept = distribution;
  number = made.y;
  return made.x;
}
template <class State, class Make>
float first_of_floats(State* state, Kept distribution, const Make& make) {
  return first_of(state->pair, state->pair.kept, distribution, state->pair.number, make);
}
template <class State, class Make>
double first_of_doubles(State* state, Kept distribution, const Make& make) {
  return first_of(state->pair, state->pair.kept_double, distribution, state->pair.number_double, make);
}

}  // namespace trifold::cpu

// ---------------------------------------------------------------------------------------------------- normal

template <class State>
float2 curand_normal2(State* state) {
  return trifold::cpu::normal_pair(state);
}
template <class State>
double2 curand_normal2_double(State* state) {
  return trifold::cpu::normal_pair_double(state);
}
template <class State>
float curand_normal(State* state) {
  return trifold::cpu::first_of_floats(state, trifold::cpu::Kept::normal, [=] { return curand_normal2(state); });
}
template <class State>
double curand_normal_double(State* state) {
  return trifold::cpu::first_of_doubles(state, trifold::cpu::Kept::normal,
                                        [=] { return curand_normal2_double(state); });
}
inline float4 curand_normal4(curandStatePhilox4_32_10* state) {
  const float2 low = curand_normal2(state), high = curand_normal2(state);
  return {low.x, low.y, high.x, high.y};
}
inline double4 curand_normal4_double(curandStatePhilox4_32_10* state) {
  const double2 low = curand_normal2_double(state), high = curand_normal2_double(state);
  return {low.x, low.y, high.x, high.y};
}

// ---------------------------------------------------------------------------------------------------- log-normal

template <class State>
float2 curand_log_normal2(State* state, float mean, float deviation) {
  const float2 z = curand_normal2(state);
  return {std::exp(std::fma(deviation, z.x, mean)), std::exp(std::fma(deviation, z.y, mean))};
}
template <class State>
double2 curand_log_normal2_double(State* state, double mean, double deviation) {
  const double2 z = curand_normal2_double(state);
  return {std::exp(std::fma(deviation, z.x, mean)), std::exp(std::fma(deviation, z.y, mean))};
}
template <class State>
float curand_log_normal(State* state, float mean, float deviation) {
  return trifold::cpu::first_of_floats(state, trifold::cpu::Kept::log_normal,
                                       [=] { return curand_log_normal2(state, mean, deviation); });
}
template <class State>
double curand_log_normal_double(State* state, double mean, double deviation) {
  return trifold::cpu::first_of_doubles(state, trifold::cpu::Kept::log_normal,
                                        [=] { return curand_log_normal2_double(state, mean, deviation); });
}
inline float4 curand_log_normal4(curandStatePhilox4_32_10* state, float mean, float deviation) {
  const float2 low = curand_log_normal2(state, mean, deviation), high = curand_log_normal2(state, mean, deviation);
  return {low.x, low.y, high.x, high.y};
}

// ---------------------------------------------------------------------------------------------------- Poisson

namespace trifold::cpu {

// Knuth, "The Art of Computer Programming", volume 2, 3.4.1: the number of factors until the product is below
// exp(-mean).
template <class State>
unsigned poisson_by_products(State* state, float mean) {
  unsigned count = 0;
  for (float product = std::exp(mean) * curand_uniform(state); product > 1; ++count) product *= curand_uniform(state);
  return count;
}
// Hörmann, "The transformed rejection method for generating Poisson random variables", 1993: algorithm PTRS.
template <class State>
unsigned poisson_by_rejection(State* state, double mean) {
  const double b = 0.931 + 2.53 * std::sqrt(mean), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), inner = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const double u = curand_uniform(state) - 0.5, v = curand_uniform(state), distance = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / distance + b) * u + mean + 0.43);
    if (distance >= 0.07 && v <= inner) return static_cast<unsigned>(k);
    if (k < 0 || (distance < 0.013 && v > distance)) continue;
    if (std::log(v * inverse_alpha / (a / (distance * distance) + b)) <= k * std::log(mean) - mean - std::lgamma(k + 1))
      return static_cast<unsigned>(k);
  }
}

}  // namespace trifold::cpu

template <class State>
unsigned curand_poisson(State* state, double mean) {
  if (mean < 64) return trifold::cpu::poisson_by_products(state, static_cast<float>(mean));
  if (mean <= 4000) return trifold::cpu::poisson_by_rejection(state, mean);
  return static_cast<unsigned>(std::sqrt(mean) * curand_normal_double(state) + mean + 0.5);
}
inline uint4 curand_poisson4(curandStatePhilox4_32_10* state, double mean) {
  unsigned numbers[4];
  for (unsigned& number : numbers) number = curand_poisson(state, mean);
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}
