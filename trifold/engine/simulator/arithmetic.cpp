#include "arithmetic.h"

namespace trifold::simulator {
namespace {

// The remainder as NVVM expands `frem`: the quotient is divided, truncated and multiplied back with one fused rounding.
// Differs from fmod's exact remainder if the quotient has more bits than the type, and is NaN for an infinite divisor.
template <typename T>
T remainder_of_division(T x, T y) {
  return std::fma(-std::trunc(x / y), y, x);
}

// numba/cpython/numbers.py, real_divmod_func_body: CPython's float_divmod without its exceptions.
template <typename T>
Division<T> floor_division(T x, T y) {
  if (y == 0) return {x / y, remainder_of_division(x, y)};
  T mod = remainder_of_division(x, y);
  T div = (x - mod) / y;
  if (mod != 0) {
    if ((y < 0) != (mod < 0)) {
      div -= 1;
      mod += y;
    }
  } else {
    mod = std::copysign(T{0}, y);
  }
  if (!(div < 0 || div > 0)) return {div * div * x / y, mod};  // zero with the true quotient's sign, or NaN
  T floor = std::floor(div);
  if (div - floor > T{0.5}) floor += 1;
  return {floor, mod};
}

struct IntegerDivision {
  uint64_t quotient, remainder;
};

// Numba returns 0 for a division by zero and for the one overflow.
IntegerDivision divide_integers(uint64_t a, uint64_t b, bool natural) {
  if (b == 0) return {0, 0};
  if (natural) return {a / b, a % b};
  const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  if (x == INT64_MIN && y == -1) return {0, 0};
  int64_t quotient = x / y, remainder = x % y;
  if (remainder != 0 && (y ^ remainder) < 0) {
    --quotient;
    remainder += y;
  }
  return {static_cast<uint64_t>(quotient), static_cast<uint64_t>(remainder)};
}

// numba/cpython/numbers.py, int_power_impl: by squaring, in the result's own type.
template <typename T>
T power_by_squaring(T base, uint64_t exponent) {
  T result = 1;
  while (exponent != 0) {
    if (exponent & 1) result *= base;
    exponent >>= 1;
    base *= base;
  }
  return result;
}

constexpr uint64_t longest_squaring = 0x10000;  // beyond this, Numba calls pow()

Value integer_power(const Value& a, const Value& b, Kind kind) {
  const bool inverse = !is_unsigned(b.kind) && b.i < 0;
  const uint64_t base = a.u, exponent = inverse ? -b.u : b.u;
  if (inverse) {
    if (base == 0) return {kind, {.u = uint64_t{1} << 63}};
    if (base != 1 && base != ~uint64_t{0}) return {kind, {.u = 0}};
  }
  if (exponent > longest_squaring) {
    const double x = is_unsigned(kind) ? static_cast<double>(base) : static_cast<double>(a.i);
    return {kind, {.u = float_to_integer(std::pow(x, as_double(b)), Kind::float64, kind)}};
  }
  return {kind, {.u = power_by_squaring(base, exponent)}};
}

template <typename T>
T real_power(T base, const Value& b) {
  const bool inverse = !is_unsigned(b.kind) && b.i < 0;
  const uint64_t exponent = inverse ? -b.u : b.u;
  if (exponent > longest_squaring) return static_cast<T>(std::pow(static_cast<double>(base), as_double(b)));
  const T power = power_by_squaring(base, exponent);
  return inverse ? 1 / power : power;
}

Value power(const Value& a, const Value& b, Kind kind) {
  if (is_integer(kind)) return integer_power(a, b, kind);
  if (kind == Kind::float32) {
    if (is_integer(b.kind)) return of_float(real_power(as_float(a), b));
    return of_float(static_cast<float>(std::pow(as_double(a), as_double(b))));
  }
  return of_double(is_integer(b.kind) ? real_power(as_double(a), b) : std::pow(as_double(a), as_double(b)));
}

// PTX's shifts use 32 bits of the amount and clamp it.
uint64_t shift(Operator op, uint64_t bits, const Value& amount, bool natural) {
  const auto places = static_cast<uint32_t>(amount.u);
  if (op == Operator::lshift) return places > 63 ? 0 : bits << places;
  if (natural) return places > 63 ? 0 : bits >> places;
  return static_cast<uint64_t>(static_cast<int64_t>(bits) >> (places > 63 ? 63 : places));
}

uint64_t compute_integers(Operator op, const Value& a, const Value& b, bool natural) {
  switch (op) {
    case Operator::add: return a.u + b.u;
    case Operator::sub: return a.u - b.u;
    case Operator::mul: return a.u * b.u;
    case Operator::floordiv: return divide_integers(a.u, b.u, natural).quotient;
    case Operator::mod: return divide_integers(a.u, b.u, natural).remainder;
    case Operator::bit_and: return a.u & b.u;
    case Operator::bit_or: return a.u | b.u;
    case Operator::bit_xor: return a.u ^ b.u;
    default: return shift(op, a.u, b, natural);
  }
}

template <typename T>
T compute_reals(Operator op, T a, T b) {
  switch (op) {
    case Operator::add: return a + b;
    case Operator::sub: return a - b;
    case Operator::mul: return a * b;
    case Operator::truediv: return a / b;
    case Operator::floordiv: return divide_floor(a, b).quotient;
    default: return divide_floor(a, b).remainder;
  }
}

}  // namespace

Division<float> divide_floor(float x, float y) {
  return floor_division(x, y);
}
Division<double> divide_floor(double x, double y) {
  return floor_division(x, y);
}

bool compute(Operator op, const Value& a, const Value& b, Value& result) {
  const Kind kind = result_kind(op, a.kind, b.kind);
  if (op == Operator::pow) {
    result = power(a, b, kind);
    return true;
  }
  switch (kind) {
    case Kind::other: return false;
    case Kind::boolean:
    case Kind::int64:
    case Kind::uint64: result = {kind, {.u = compute_integers(op, a, b, is_unsigned(kind))}}; return true;
    // float16 sums and products are exact in double; quotients are rounded as on the GPU.
    case Kind::float16: result = of_half(compute_reals(op, as_double(a), as_double(b))); return true;
    case Kind::float32: result = of_float(compute_reals(op, as_float(a), as_float(b))); return true;
    default: result = of_double(compute_reals(op, as_double(a), as_double(b))); return true;
  }
}

bool negate(const Value& a, Value& result) {
  if (is_integer(a.kind)) {
    const bool whole = a.kind == Kind::boolean || a.kind == Kind::int16;  // the GPU keeps the 17th bit of -(-32768)
    result = {widened(a.kind), {.u = whole ? -a.u : wrap(-a.u, a.kind)}};
  } else {
    result = a;
    if (a.kind == Kind::float64)
      result.d = -a.d;
    else
      result.f = -a.f;
  }
  return true;
}

bool keep_sign(const Value& a, Value& result) {
  result = a;
  if (is_integer(a.kind)) result.kind = widened(a.kind);
  return true;
}

bool invert(const Value& a, Value& result) {
  if (!is_integer(a.kind)) return false;
  result = a.kind == Kind::boolean ? of_bool(a.u == 0) : Value{widened(a.kind), {.u = wrap(~a.u, a.kind)}};
  return true;
}

Value absolute(const Value& a) {
  Value result = a;
  if (a.kind == Kind::boolean) result.kind = Kind::int8;
  if (is_signed(a.kind) && a.i < 0) result.u = wrap(-a.u, a.kind);
  if (a.kind == Kind::float64) result.d = std::fabs(a.d);
  if (a.kind == Kind::float32 || a.kind == Kind::float16) result.f = std::fabs(a.f);
  return result;
}

void divide_with_remainder(const Value& a, const Value& b, Value& quotient, Value& remainder) {
  const Kind kind = divmod_kind(a.kind, b.kind);
  if (is_integer(kind)) {
    const IntegerDivision division = divide_integers(a.u, b.u, is_unsigned(kind));
    quotient = {kind, {.u = division.quotient}};
    remainder = {kind, {.u = division.remainder}};
  } else if (kind == Kind::float32) {
    const auto division = divide_floor(as_float(a), as_float(b));
    quotient = of_float(division.quotient);
    remainder = of_float(division.remainder);
  } else {
    const auto division = divide_floor(as_double(a), as_double(b));
    quotient = of_double(division.quotient);
    remainder = of_double(division.remainder);
  }
}

int compare(const Value& a, const Value& b) {
  const Kind kind = unified(a.kind, b.kind);
  if (is_floating(kind)) {
    const double x = as_double(a), y = as_double(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
  }
  if (is_unsigned(kind) || kind == Kind::boolean) return a.u < b.u ? -1 : a.u > b.u;
  return a.i < b.i ? -1 : a.i > b.i;
}

const char* symbol(Operator op) {
  static constexpr const char* symbols[] = {"+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^"};
  return symbols[static_cast<int>(op)];
}

}  // namespace trifold::simulator
