// Numba's result types: the kind in which an operator computes, and of its result, for two kinds of operands. The only
// copy of these rules; a test compares them with Numba's own signatures for every operator and pair.
#pragma once

#include "scalar.h"

namespace trifold::simulator {

enum class Operator : uint8_t {
  add,
  sub,
  mul,
  truediv,
  floordiv,
  mod,
  pow,
  lshift,
  rshift,
  bit_and,
  bit_or,
  bit_xor,
};

// Integers compute in 64 bits; the result is unsigned only if both operands are.
constexpr Kind integer_result(Kind a, Kind b) {
  return is_unsigned(a) && is_unsigned(b) ? Kind::uint64 : Kind::int64;
}

// Exactly representable in float32 according to Numba, whose list omits uint16.
constexpr bool promotes_to_float32(Kind kind) {
  return kind == Kind::boolean || kind == Kind::int8 || kind == Kind::int16 || kind == Kind::uint8 ||
         kind == Kind::float16 || kind == Kind::float32;
}

// For two kinds of which one is a float. With `half`, float16 is kept with itself, bool and int8.
constexpr Kind float_result(Kind a, Kind b, bool half) {
  if (!promotes_to_float32(a) || !promotes_to_float32(b)) return Kind::float64;
  const auto stays_half = [](Kind kind) {
    return kind == Kind::float16 || kind == Kind::boolean || kind == Kind::int8;
  };
  return half && stays_half(a) && stays_half(b) ? Kind::float16 : Kind::float32;
}

// The common kind by which Numba compares two kinds and types variables. Unlike for operators, uint16 combines with
// float32, and uint8 with float16.
constexpr Kind unified(Kind a, Kind b) {
  if (a == b) return a;
  if (is_floating(a) || is_floating(b)) {
    const auto width = [](Kind kind) -> size_t {
      if (kind == Kind::boolean) return 1;
      return is_floating(kind) ? item_size(kind) / 2 : item_size(kind);  // bytes of the widest integer that it holds
    };
    const size_t needed = width(a) > width(b) ? width(a) : width(b);
    if (a == Kind::float64 || b == Kind::float64 || needed > 2) return Kind::float64;
    return a == Kind::float32 || b == Kind::float32 || needed > 1 ? Kind::float32 : Kind::float16;
  }
  if (a == Kind::boolean) return b;
  if (b == Kind::boolean) return a;
  if (is_signed(a) == is_signed(b)) return item_size(a) >= item_size(b) ? a : b;
  const Kind plus = is_signed(a) ? a : b, natural = is_signed(a) ? b : a;
  if (item_size(plus) > item_size(natural)) return plus;
  switch (natural) {
    case Kind::uint8: return Kind::int16;
    case Kind::uint16: return Kind::int32;
    case Kind::uint32: return Kind::int64;
    default: return Kind::float64;
  }
}

// `other` if Numba has no such operation.
constexpr Kind result_kind(Operator op, Kind a, Kind b) {
  const bool integers = is_integer(a) && is_integer(b);
  switch (op) {
    case Operator::add:
    case Operator::sub:
    case Operator::mul: return integers ? integer_result(a, b) : float_result(a, b, true);
    case Operator::truediv: return integers ? Kind::float64 : float_result(a, b, true);
    case Operator::floordiv:
    case Operator::mod: return integers ? integer_result(a, b) : float_result(a, b, false);
    case Operator::pow:
      if (integers) return a == Kind::boolean && b == Kind::int32 ? Kind::float32 : integer_result(a, b);
      if (is_integer(b)) return a == Kind::float64 ? Kind::float64 : Kind::float32;
      return float_result(a, b, false);
    case Operator::lshift:
    case Operator::rshift:
      if (!integers) return Kind::other;
      return is_unsigned(a) ? Kind::uint64 : Kind::int64;
    default:
      if (!integers) return Kind::other;
      return a == Kind::boolean && b == Kind::boolean ? Kind::boolean : integer_result(a, b);
  }
}

constexpr Kind divmod_kind(Kind a, Kind b) {
  if (is_floating(a) || is_floating(b)) return float_result(a, b, false);
  const Kind kind = unified(a, b);
  if (is_floating(kind)) return kind;  // uint64 with a signed one
  return is_unsigned(kind) ? Kind::uint64 : Kind::int64;
}

// The float in which a NumPy ufunc computes: a float operand outweighs integers of any width.
constexpr Kind numpy_float(Kind a, Kind b) {
  if (a == Kind::float64 || b == Kind::float64) return Kind::float64;
  if (is_floating(a) || is_floating(b)) return Kind::float32;
  return item_size(a) > 2 || item_size(b) > 2 ? Kind::float64 : Kind::float32;
}

// The kind in which a NumPy ufunc that keeps integers computes.
constexpr Kind numpy_result(Kind a, Kind b) {
  return is_floating(a) || is_floating(b) ? numpy_float(a, b) : unified(a, b);
}

// For + - ~ on an integer: computed in its own width, then widened.
constexpr Kind widened(Kind kind) {
  return is_unsigned(kind) ? Kind::uint64 : Kind::int64;
}

}  // namespace trifold::simulator
