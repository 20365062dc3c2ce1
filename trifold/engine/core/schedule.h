// The order in which blocks and threads run: the natural one, or one determined by a seed, the same on every platform.
#pragma once

#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace trifold::engine {

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }
  // Uniform in [0, bound) up to a bias below 2^-32, by the high half of a product (Lemire).
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }

  static uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

 private:
  uint64_t state_;
};

// A permutation of [0, size) that needs no memory: a Feistel network over the next power of four, iterated until the
// result is inside.
class BlockOrder {
 public:
  BlockOrder(uint64_t size, uint64_t seed) : size_(size), seed_(seed) {
    if (size > 1) half_bits_ = (std::bit_width(size - 1) + 1) / 2;
  }

  uint64_t operator[](uint64_t position) const {
    if (seed_ == 0 || size_ < 2) return position;
    do position = encrypt(position);
    while (position >= size_);
    return position;
  }

 private:
  uint64_t encrypt(uint64_t value) const {
    const uint64_t low_bits = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_, right = value & low_bits;
    for (uint64_t round = 1; round <= 4; ++round)
      left = std::exchange(right, left ^ (Random::mix(seed_ + right + (round << 40)) & low_bits));
    return left << half_bits_ | right;
  }

  uint64_t size_;
  uint64_t seed_;
  int half_bits_ = 1;
};

// An order of a block's threads, a new one for each pass: a random permutation for the launch, walked from a random
// start with a random step coprime to its length. A pass draws only these two numbers.
class ThreadOrder {
 public:
  ThreadOrder(uint32_t size, uint64_t seed) : random_(seed), permutation_(seed == 0 ? 0 : size) {
    std::iota(permutation_.begin(), permutation_.end(), 0u);
    for (uint32_t last = static_cast<uint32_t>(permutation_.size()); last > 1; --last)
      std::swap(permutation_[last - 1], permutation_[random_.below(last)]);
  }

  template <typename Visit>
  void pass(Visit&& visit) {
    const auto size = static_cast<uint32_t>(permutation_.size());
    uint32_t at = random_.below(size), step = random_.below(size);
    while (std::gcd(step, size) != 1) ++step;
    step %= size;
    for (uint32_t count = 0; count < size; ++count) {
      visit(permutation_[at]);
      at += step;
      if (at >= size) at -= size;
    }
  }

 private:
  Random random_;
  std::vector<uint32_t> permutation_;
};

}  // namespace trifold::engine
