// Thrust's random engines and distributions, with its numbers (CCCL 3.0).
#pragma once

#include <trifold/cuda.cuh>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace thrust {
namespace random {

// x ← a·x + c mod m (Park and Miller 1988, Communications of the ACM 31).
template <class U, U a, U c, U m>
class linear_congruential_engine {
 public:
  using result_type = U;
  static constexpr U multiplier = a, increment = c, modulus = m;
  static constexpr U min = c == 0 ? 1 : 0, max = m - 1, default_seed = 1;

  explicit linear_congruential_engine(U value = default_seed) { seed(value); }
  void seed(U value = default_seed) { x_ = c % m == 0 && value % m == 0 ? 1 : value % m; }
  U operator()() {
    x_ = static_cast<U>((uint64_t{a} * x_ + c) % m);
    return x_;
  }
  // Composes the step with itself: z steps take log z compositions.
  void discard(unsigned long long z) {
    uint64_t factor = a, addend = c, x = x_;
    for (; z > 0; z /= 2) {
      if (z % 2 != 0) x = (factor * x + addend) % m;
      addend = (factor * addend + addend) % m;
      factor = factor * factor % m;
    }
    x_ = static_cast<U>(x);
  }
  friend bool operator==(const linear_congruential_engine& a_, const linear_congruential_engine& b_) {
    return a_.x_ == b_.x_;
  }
  friend bool operator!=(const linear_congruential_engine& a_, const linear_congruential_engine& b_) {
    return a_.x_ != b_.x_;
  }

 private:
  U x_;
};
using minstd_rand0 = linear_congruential_engine<uint32_t, 16807, 0, 2147483647>;
using minstd_rand = linear_congruential_engine<uint32_t, 48271, 0, 2147483647>;
using default_random_engine = minstd_rand;

// L'Ecuyer's three Tausworthe generators of 31, 29 and 28 bits (1996, Mathematics of Computation 65).
class taus88 {
 public:
  using result_type = uint32_t;
  static constexpr uint32_t min = 0, max = ~uint32_t{0}, default_seed = 341;

  explicit taus88(uint32_t value = default_seed) { seed(value); }
  void seed(uint32_t value = default_seed) { x_ = y_ = z_ = value; }
  uint32_t operator()() {
    step(x_, 31, 13, 12);
    step(y_, 29, 2, 4);
    step(z_, 28, 3, 17);
    return x_ ^ y_ ^ z_;
  }
  void discard(unsigned long long z) {
    for (; z > 0; --z) (*this)();
  }

 private:
  static void step(uint32_t& x, int k, int q, int s) {
    x = (x & (~uint32_t{0} << (32 - k))) << s ^ ((x << q ^ x) >> (k - s));
  }

  uint32_t x_, y_, z_;
};

// What distributions have in common: two parameters.
template <class T, class P = T>
class Distribution {
 public:
  using result_type = T;
  using param_type = ::std::pair<P, P>;

  param_type param() const { return parameters_; }
  void param(const param_type& given) { parameters_ = given; }
  void reset() {}

 protected:
  explicit Distribution(const param_type& parameters) : parameters_(parameters) {}

  param_type parameters_;
};

// In [a, b).
template <class T = double>
class uniform_real_distribution : public Distribution<T> {
 public:
  using typename Distribution<T>::param_type;

  explicit uniform_real_distribution(T a = 0, T b = 1) : Distribution<T>({a, b}) {}
  explicit uniform_real_distribution(const param_type& given) : Distribution<T>(given) {}

  T a() const { return this->parameters_.first; }
  T b() const { return this->parameters_.second; }
  T(min)() const { return a(); }
  T(max)() const { return b(); }

  template <class Engine>
  T operator()(Engine& engine) {
    return (*this)(engine, this->parameters_);
  }
  template <class Engine>
  T operator()(Engine& engine, const param_type& given) {
    T x = static_cast<T>(engine() - Engine::min);
    x /= T(1) + static_cast<T>(Engine::max - Engine::min);
    return x * (given.second - given.first) + given.first;
  }
};

// In [a, b].
template <class T = int>
class uniform_int_distribution : public Distribution<T> {
 public:
  using typename Distribution<T>::param_type;

  explicit uniform_int_distribution(T a = 0, T b = ::std::numeric_limits<T>::max()) : Distribution<T>({a, b}) {}
  explicit uniform_int_distribution(const param_type& given) : Distribution<T>(given) {}

  T a() const { return this->parameters_.first; }
  T b() const { return this->parameters_.second; }
  T(min)() const { return a(); }
  T(max)() const { return b(); }

  template <class Engine>
  T operator()(Engine& engine) {
    return (*this)(engine, this->parameters_);
  }
  template <class Engine>
  T operator()(Engine& engine, const param_type& given) {
    uniform_real_distribution<double> real(static_cast<double>(given.first), static_cast<double>(given.second) + 1);
    return static_cast<T>(real(engine));
  }
};

// By the inverse of the complementary error function, of one number of the engine.
template <class T = double>
class normal_distribution : public Distribution<T> {
 public:
  using typename Distribution<T>::param_type;

  explicit normal_distribution(T mean = 0, T stddev = 1) : Distribution<T>({mean, stddev}) {}
  explicit normal_distribution(const param_type& given) : Distribution<T>(given) {}

  T mean() const { return this->parameters_.first; }
  T stddev() const { return this->parameters_.second; }
  T(min)() const { return -::std::numeric_limits<T>::infinity(); }
  T(max)() const { return ::std::numeric_limits<T>::infinity(); }

  template <class Engine>
  T operator()(Engine& engine) {
    return (*this)(engine, this->parameters_);
  }
  template <class Engine>
  T operator()(Engine& engine, const param_type& given) {
    constexpr auto range = Engine::max - Engine::min;
    constexpr T width = static_cast<T>(1. / static_cast<double>(range));
    T root = static_cast<T>(-1.4142135623730950488016887242097);
    auto u = engine() - Engine::min;
    if (u > range / 2) {
      u = range - u;
      root = -root;
    }
    const T p = u * width + width / 2;
    return given.first + given.second * root * static_cast<T>(::erfcinv(2 * p));
  }
};

}  // namespace random

using random::default_random_engine;
using random::linear_congruential_engine;
using random::minstd_rand;
using random::minstd_rand0;
using random::normal_distribution;
using random::taus88;
using random::uniform_int_distribution;
using random::uniform_real_distribution;

}  // namespace thrust
