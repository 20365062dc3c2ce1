// cvt: between integers and floats of all sizes.
#pragma once

#include <trifold/cpu/ptx/floats.h>
#include <trifold/cpu/ptx/integers.h>

#include <cmath>

namespace trifold::ptx {

template <class T>
__forceinline__ T whole(T x, cpu::Rounding mode) {
  switch (mode) {
    case cpu::Rounding::zero: return std::trunc(x);
    case cpu::Rounding::up: return std::ceil(x);
    case cpu::Rounding::down: return std::floor(x);
    default: return std::nearbyint(x);
  }
}

// A number of any type, rounded once to a float.
template <class To, class From>
__forceinline__ To rounded(From x, cpu::Rounding mode) {
  if constexpr (SmallFloat<To> && Integer<From>) {
    return To::of(sizeof(From) == 8 ? cpu::to_odd(x) : static_cast<double>(x), mode);
  } else if constexpr (SmallFloat<To>) {
    return To::of(static_cast<double>(x), mode);
  } else {
    return cpu::in_mode<To>(mode, [](From y) { return static_cast<To>(y); }, x);
  }
}

template <class To, class From, class... M>
__forceinline__ To converted(From given) {
  constexpr cpu::Rounding mode = rounding_of<M...>;
  constexpr bool to_whole =
      has<modifier::rni_, M...> || has<modifier::rzi_, M...> || has<modifier::rmi_, M...> || has<modifier::rpi_, M...>;
  if constexpr (Integer<From> && Integer<To>) {
    return has<modifier::sat_, M...> ? clamped<To>(given) : static_cast<To>(given);
  } else if constexpr (Integer<From>) {
    return limited<To, M...>(rounded<To>(given, mode));
  } else {
    using Real = std::conditional_t<cpu::same_as<From, f64>, f64, f32>;
    const auto x = static_cast<Real>(cpu::same_as<From, f32> ? flushed<From, M...>(given) : given);
    if constexpr (Integer<To>) {
      return cpu::to_integer<To>(x, mode);
    } else {
      if (is_nan(x)) return limited<To, M...>(canonical_nan<To>());
      const To made = to_whole ? static_cast<To>(whole(x, mode)) : rounded<To>(x, mode);
      return limited<To, M...>(cpu::same_as<To, f32> ? flushed<To, M...>(made) : made);
    }
  }
}

template <class To, class From, class... M, class D, class A>
__forceinline__ void cvt_(D& d, A a) {
  if constexpr (cpu::same_as<To, tf32>) {  // a float of 10 bits of fraction; ties away from zero
    const auto bits = get<uint32_t>(a);
    const bool special = (bits & 0x7f800000u) == 0x7f800000u;
    put(d, is_nan(cpu::bit_cast<float>(bits)) ? 0x7fffffffu : special ? bits : (bits + 0x1000u) & ~0x1fffu);
  } else {
    put_wide(d, converted<To, From, M...>(get_low<From>(a)));
  }
}
// The first operand becomes the upper half.
template <SmallPair To, class From, class... M, class D, class A, class B>
__forceinline__ void cvt_(D& d, A high, B low) {
  using Part = typename To::Scalar;
  put(d, To(converted<Part, From, M...>(get<From>(low)), converted<Part, From, M...>(get<From>(high))));
}

}  // namespace trifold::ptx
