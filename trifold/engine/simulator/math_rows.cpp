// math.*, NumPy's ufuncs, and numba.cuda's own intrinsics, as Numba's CUDA target types them.
#include <bit>

#include "../core/real_functions.h"
#include "arithmetic.h"
#include "device_function.h"

namespace trifold::simulator {
using namespace engine;  // its real functions

namespace {

constexpr Row real(const char* name, double (*function)(double), Typing typing = Typing::real) {
  return {name, typing, "1", function};
}
constexpr Row reals(const char* name, double (*function)(double, double), Typing typing) {
  return {name, typing, "2", nullptr, function};
}
constexpr Row general(const char* name, const char* count, General function, int option = 0) {
  return {name, Typing::as_given, count, nullptr, nullptr, function, option};
}

// For functions for which Numba has a float32 and a float64 form and uses the narrower that holds the argument.
Kind single_or_double(const Value& a) {
  return promotes_to_float32(a.kind) ? Kind::float32 : Kind::float64;
}

// The constant is rounded to the argument's type before it multiplies.
int scale(double factor, const Value& a, Value* results) {
  const bool single = a.kind == Kind::float32 || a.kind == Kind::float16;
  results[0] = single ? of_float(static_cast<float>(factor) * as_float(a)) : of_double(factor * as_double(a));
  return 1;
}
int degrees(const Row&, const Value* a, Value* results) {
  return scale(180.0 / M_PI, a[0], results);
}
int radians(const Row&, const Value* a, Value* results) {
  return scale(M_PI / 180.0, a[0], results);
}

int is_nan(const Row&, const Value* a, Value* results) {
  results[0] = of_bool(std::isnan(as_double(a[0])));
  return 1;
}
int is_infinite(const Row&, const Value* a, Value* results) {
  results[0] = of_bool(is_floating(a[0].kind) && std::isinf(as_double(a[0])));
  return 1;
}
int is_finite(const Row&, const Value* a, Value* results) {
  results[0] = of_bool(std::isfinite(as_double(a[0])));
  return 1;
}
int sign_bit(const Row&, const Value* a, Value* results) {
  results[0] = of_bool(is_unsigned(a[0].kind) ? false : std::signbit(as_double(a[0])));
  return 1;
}

int frexp(const Row&, const Value* a, Value* results) {
  int exponent = 0;
  const double fraction = std::frexp(as_double(a[0]), &exponent);
  results[0] = convert(of_double(fraction), single_or_double(a[0]));
  results[1] = of_int32(std::isfinite(fraction) ? exponent : 0);
  return 2;
}

int modf(const Row&, const Value* a, Value* results) {
  const Kind kind = a[0].kind == Kind::float32 ? Kind::float32 : Kind::float64;
  double whole = 0;
  const double fraction = std::modf(as_double(a[0]), &whole);
  results[0] = convert(of_double(fraction), kind);
  results[1] = convert(of_double(whole), kind);
  return 2;
}

// NumPy's form converts uint16 to float32 too.
int ldexp(const Row& row, const Value* a, Value* results) {
  const bool single = promotes_to_float32(a[0].kind) || (row.option == 'n' && a[0].kind == Kind::uint16);
  const auto exponent = static_cast<int>(convert(a[1], Kind::int32).i);
  results[0] =
      single ? of_float(std::ldexp(as_float(a[0]), exponent)) : of_double(std::ldexp(as_double(a[0]), exponent));
  return 1;
}

// Exponents of at most 32 signed bits have forms by squaring; there, a uint16 base becomes float32 too.
int math_power(const Row&, const Value* a, Value* results) {
  const Kind base = a[0].kind, exponent = a[1].kind;
  const bool small = is_signed(exponent) && exponent != Kind::int64;
  if (small || (base == Kind::float32 && exponent == Kind::uint16)) {
    const auto places = static_cast<int32_t>(a[1].i);
    results[0] = single_or_double(a[0]) == Kind::float32 ? of_float(power_of_integer(as_float(a[0]), places))
                                                         : of_double(power_of_integer(as_double(a[0]), places));
    return 1;
  }
  const Kind kind = float_result(base, exponent, false);
  const double x = as_double(convert(a[0], kind)), y = as_double(convert(a[1], kind));
  results[0] = convert(of_double(std::pow(x, y)), kind);
  return 1;
}

int fused(const Row&, const Value* a, Value* results) {
  const Kind kind = float_result(float_result(a[0].kind, a[1].kind, false), a[2].kind, false);
  results[0] = kind == Kind::float32 ? of_float(std::fma(as_float(a[0]), as_float(a[1]), as_float(a[2])))
                                     : of_double(std::fma(as_double(a[0]), as_double(a[1]), as_double(a[2])));
  return 1;
}

// The integer type in Numba's declarations of popc, clz and ffs: other numbers become int8.
Value counted(const Value& a) {
  return is_integer(a.kind) && a.kind != Kind::boolean ? a : convert(a, Kind::int8);
}
uint64_t bits_of(const Value& a) {
  const size_t bits = 8 * item_size(a.kind);
  return bits == 64 ? a.u : a.u & ((uint64_t{1} << bits) - 1);
}

int population(const Row&, const Value* a, Value* results) {
  const Value value = counted(a[0]);
  results[0] = {value.kind, {.i = std::popcount(bits_of(value))}};
  return 1;
}
int leading_zeros(const Row&, const Value* a, Value* results) {
  const Value value = counted(a[0]);
  const int unused = 64 - static_cast<int>(8 * item_size(value.kind));
  results[0] = {value.kind, {.i = std::countl_zero(bits_of(value)) - unused}};
  return 1;
}
int first_set(const Row&, const Value* a, Value* results) {
  const Value value = counted(a[0]);
  results[0] = {Kind::uint32, {.u = value.u == 0 ? 0 : static_cast<uint64_t>(std::countr_zero(value.u)) + 1}};
  return 1;
}

// Only uint64 has the long form; int64, and so a literal, is truncated to 32 bits.
int reversed(const Row&, const Value* a, Value* results) {
  const Kind kind = a[0].kind == Kind::uint64 ? Kind::uint64 : Kind::uint32;
  uint64_t from = convert(a[0], kind).u, to = 0;
  const int bits = static_cast<int>(8 * item_size(kind));
  for (int i = 0; i < bits; ++i, from >>= 1) to = to << 1 | (from & 1);
  results[0] = {kind, {.u = to}};
  return 1;
}

int selected(const Row&, const Value* a, Value* results) {
  results[0] = is_true(a[0]) ? a[1] : a[2];
  return 1;
}

// NumPy's ufuncs for operators, computed in the type that holds both operands rather than in Numba's 64 bits.
int ufunc(const Row& row, const Value* a, Value* results) {
  const auto op = static_cast<Operator>(row.option);
  Kind kind = numpy_result(a[0].kind, a[1].kind);
  if (op == Operator::truediv) kind = numpy_float(a[0].kind, a[1].kind);
  if (kind == Kind::boolean && op != Operator::add && op != Operator::mul && op < Operator::bit_and) kind = Kind::int8;
  Value result;
  compute(op, convert(a[0], kind), convert(a[1], kind), result);
  results[0] = convert(result, kind);
  return 1;
}

int ufunc_unary(const Row& row, const Value* a, Value* results) {
  const Kind kind = a[0].kind == Kind::float16 ? Kind::float32 : a[0].kind;
  Value value = convert(a[0], kind == Kind::boolean ? Kind::int8 : kind), result;
  switch (row.option) {
    case '-': negate(value, result); break;
    case '~': invert(convert(a[0], kind), result); break;
    case '*': compute(Operator::mul, value, value, result); break;
    case '/':
      compute(is_integer(value.kind) ? Operator::floordiv : Operator::truediv, convert(of_int(1), value.kind), value,
              result);
      break;
    case '|': result = kind == Kind::boolean ? a[0] : absolute(value); break;
    case '?': {
      const int order = compare(value, convert(of_int(0), value.kind));
      result = order == 2 ? value : convert(of_int(order), value.kind);
      if (order == 0 && is_floating(value.kind)) result = value;
      break;
    }
    default: result = value;
  }
  results[0] = convert(result, row.option == '~' || row.option == '|' ? kind : value.kind);
  return 1;
}

int ufunc_whole(const Row& row, const Value* a, Value* results) {
  if (is_integer(a[0].kind)) {
    results[0] = a[0];
    return 1;
  }
  const double x = as_double(a[0]);
  const double whole = row.option == 'f' ? std::floor(x) : row.option == 'c' ? std::ceil(x) : std::trunc(x);
  results[0] = convert(of_double(whole), numpy_float(a[0].kind, a[0].kind));
  return 1;
}

// maximum and minimum propagate a NaN, fmax and fmin ignore it.
int ufunc_extreme(const Row& row, const Value* a, Value* results) {
  const Kind kind = numpy_result(a[0].kind, a[1].kind);
  const Value left = convert(a[0], kind), right = convert(a[1], kind);
  const bool largest = row.option == 'M' || row.option == 'X', drops = row.option == 'X' || row.option == 'N';
  const bool left_nan = std::isnan(as_double(left)), right_nan = std::isnan(as_double(right));
  if (left_nan || right_nan)
    results[0] = left_nan == drops ? right : left;
  else
    results[0] = compare(left, right) * (largest ? 1 : -1) >= 0 ? left : right;
  return 1;
}

int ufunc_compare(const Row& row, const Value* a, Value* results) {
  const int order = compare(a[0], a[1]);
  const bool left = is_true(a[0]), right = is_true(a[1]);
  bool answer = false;
  switch (row.option) {
    case '<': answer = order == -1; break;
    case 'l': answer = order <= 0; break;
    case '=': answer = order == 0; break;
    case '!': answer = order != 0; break;
    case '>': answer = order == 1; break;
    case 'g': answer = order == 0 || order == 1; break;
    case '&': answer = left && right; break;
    case '|': answer = left || right; break;
    default: answer = left != right;
  }
  results[0] = of_bool(answer);
  return 1;
}

int logical_not(const Row&, const Value* a, Value* results) {
  results[0] = of_bool(!is_true(a[0]));
  return 1;
}

int common_divisor(const Row& row, const Value* a, Value* results) {
  Kind kind = unified(a[0].kind, a[1].kind);
  if (kind == Kind::boolean) kind = Kind::int8;
  uint64_t x = absolute(convert(a[0], kind)).u, y = absolute(convert(a[1], kind)).u;
  const uint64_t product = x * y;
  while (y != 0) {
    const uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  results[0] = {kind, {.u = wrap(row.option == 'g' ? x : x == 0 ? 0 : product / x, kind)}};
  return 1;
}

int ufunc_divmod(const Row&, const Value* a, Value* results) {
  Kind kind = numpy_result(a[0].kind, a[1].kind);
  if (kind == Kind::boolean) kind = Kind::int8;
  Value quotient, remainder;
  divide_with_remainder(convert(a[0], kind), convert(a[1], kind), quotient, remainder);
  results[0] = convert(quotient, kind);
  results[1] = convert(remainder, kind);
  return 2;
}

int float_power(const Row&, const Value* a, Value* results) {
  results[0] = of_double(std::pow(as_double(a[0]), as_double(a[1])));
  return 1;
}

double log_sum(double x, double y) {
  if (x == y) return x + std::log(2.0);
  const double largest = std::fmax(x, y);
  return std::isnan(x + y) ? x + y : largest + std::log1p(std::exp(-std::fabs(x - y)));
}
double log2_sum(double x, double y) {
  if (x == y) return x + 1;
  const double largest = std::fmax(x, y);
  return std::isnan(x + y) ? x + y : largest + std::log1p(std::exp2(-std::fabs(x - y))) / std::log(2.0);
}

int spacing(const Row&, const Value* a, Value* results) {
  const Kind kind = numpy_float(a[0].kind, a[0].kind);
  if (kind == Kind::float32) {
    const float x = as_float(a[0]);
    results[0] = of_float(std::nextafter(x, std::copysign(INFINITY, x)) - x);
  } else {
    const double x = as_double(a[0]);
    results[0] = of_double(std::nextafter(x, std::copysign(static_cast<double>(INFINITY), x)) - x);
  }
  return 1;
}

int next_after(const Row& row, const Value* a, Value* results) {
  const Kind kind = row.option == 'n' ? numpy_float(a[0].kind, a[1].kind) : float_result(a[0].kind, a[1].kind, false);
  results[0] = kind == Kind::float32 ? of_float(std::nextafter(as_float(a[0]), as_float(a[1])))
                                     : of_double(std::nextafter(as_double(a[0]), as_double(a[1])));
  return 1;
}

constexpr Row math_table[] = {
    real("math.acos", std::acos),
    real("math.acosh", std::acosh),
    real("math.asin", std::asin),
    real("math.asinh", std::asinh),
    real("math.atan", std::atan),
    real("math.atanh", std::atanh),
    real("math.cosh", std::cosh),
    real("math.erf", std::erf),
    real("math.erfc", std::erfc),
    real("math.expm1", std::expm1),
    real("math.gamma", gamma_of),
    real("math.lgamma", log_gamma),
    real("math.log1p", std::log1p),
    real("math.sinh", std::sinh),
    real("math.tan", std::tan),
    real("math.tanh", std::tanh, Typing::real_or_half),
    general("math.degrees", "1", degrees),
    general("math.radians", "1", radians),
    real("math.ceil", std::ceil, Typing::real_or_half),
    real("math.cos", std::cos, Typing::real_or_half),
    real("math.exp", std::exp, Typing::real_or_half),
    real("math.exp2", std::exp2, Typing::real_or_half),
    real("math.fabs", std::fabs, Typing::real_or_half),
    real("math.floor", std::floor, Typing::real_or_half),
    real("math.log", std::log, Typing::real_or_half),
    real("math.log10", std::log10, Typing::real_or_half),
    real("math.log2", std::log2, Typing::real_or_half),
    real("math.sin", std::sin, Typing::real_or_half),
    real("math.sqrt", std::sqrt, Typing::real_or_half),
    real("math.trunc", std::trunc, Typing::real_or_half),
    reals("math.atan2", std::atan2, Typing::joined_integers),
    reals("math.hypot", std::hypot, Typing::joined_integers),
    reals("math.copysign", std::copysign, Typing::joined),
    reals("math.fmod", std::fmod, Typing::joined),
    reals("math.remainder", std::remainder, Typing::joined),
    general("math.nextafter", "2", next_after),
    general("math.pow", "2", math_power),
    general("math.ldexp", "2", ldexp),
    general("math.frexp", "1", frexp),
    general("math.modf", "1", modf),
    general("math.isnan", "1", is_nan),
    general("math.isinf", "1", is_infinite),
    general("math.isfinite", "1", is_finite),
};

constexpr Row cuda_table[] = {
    general("cuda.popc", "1", population),
    general("cuda.clz", "1", leading_zeros),
    general("cuda.ffs", "1", first_set),
    general("cuda.brev", "1", reversed),
    general("cuda.fma", "3", fused),
    general("cuda.selp", "3", selected),
    real("cuda.cbrt", std::cbrt, Typing::joined),
};

constexpr Row ufunc_operator(const char* name, Operator op) {
  return general(name, "2", ufunc, static_cast<int>(op));
}

constexpr Row numpy_table[] = {
    real("numpy.sin", std::sin, Typing::numpy),
    real("numpy.cos", std::cos, Typing::numpy),
    real("numpy.tan", std::tan, Typing::numpy),
    real("numpy.arcsin", std::asin, Typing::numpy),
    real("numpy.arccos", std::acos, Typing::numpy),
    real("numpy.arctan", std::atan, Typing::numpy),
    real("numpy.sinh", std::sinh, Typing::numpy),
    real("numpy.cosh", std::cosh, Typing::numpy),
    real("numpy.tanh", std::tanh, Typing::numpy),
    real("numpy.arcsinh", std::asinh, Typing::numpy),
    real("numpy.arccosh", std::acosh, Typing::numpy),
    real("numpy.arctanh", std::atanh, Typing::numpy),
    real("numpy.exp", std::exp, Typing::numpy),
    real("numpy.exp2", std::exp2, Typing::numpy),
    real("numpy.expm1", std::expm1, Typing::numpy),
    real("numpy.log", std::log, Typing::numpy),
    real("numpy.log2", std::log2, Typing::numpy),
    real("numpy.log10", std::log10, Typing::numpy),
    real("numpy.log1p", std::log1p, Typing::numpy),
    real("numpy.sqrt", std::sqrt, Typing::numpy),
    real("numpy.cbrt", std::cbrt, Typing::numpy),
    real("numpy.fabs", std::fabs, Typing::numpy),
    real("numpy.rint", round_half_even, Typing::numpy),
    real(
        "numpy.deg2rad", [](double x) { return x * (M_PI / 180.0); }, Typing::numpy),
    real(
        "numpy.rad2deg", [](double x) { return x * (180.0 / M_PI); }, Typing::numpy),
    real(
        "numpy.radians", [](double x) { return x * (M_PI / 180.0); }, Typing::numpy),
    real(
        "numpy.degrees", [](double x) { return x * (180.0 / M_PI); }, Typing::numpy),
    reals("numpy.arctan2", std::atan2, Typing::numpy),
    reals("numpy.hypot", std::hypot, Typing::numpy),
    reals("numpy.copysign", std::copysign, Typing::numpy),
    reals("numpy.logaddexp", log_sum, Typing::numpy),
    reals("numpy.logaddexp2", log2_sum, Typing::numpy),
    general("numpy.nextafter", "2", next_after, 'n'),
    general("numpy.float_power", "2", float_power),
    general("numpy.ldexp", "2", ldexp, 'n'),
    general("numpy.spacing", "1", spacing),
    general("numpy.floor", "1", ufunc_whole, 'f'),
    general("numpy.ceil", "1", ufunc_whole, 'c'),
    general("numpy.trunc", "1", ufunc_whole, 't'),
    general("numpy.negative", "1", ufunc_unary, '-'),
    general("numpy.positive", "1", ufunc_unary, '+'),
    general("numpy.conjugate", "1", ufunc_unary, '+'),
    general("numpy.absolute", "1", ufunc_unary, '|'),
    general("numpy.square", "1", ufunc_unary, '*'),
    general("numpy.reciprocal", "1", ufunc_unary, '/'),
    general("numpy.sign", "1", ufunc_unary, '?'),
    general("numpy.invert", "1", ufunc_unary, '~'),
    general("numpy.isnan", "1", is_nan),
    general("numpy.isinf", "1", is_infinite),
    general("numpy.isfinite", "1", is_finite),
    general("numpy.signbit", "1", sign_bit),
    general("numpy.logical_not", "1", logical_not),
    ufunc_operator("numpy.add", Operator::add),
    ufunc_operator("numpy.subtract", Operator::sub),
    ufunc_operator("numpy.multiply", Operator::mul),
    ufunc_operator("numpy.true_divide", Operator::truediv),
    ufunc_operator("numpy.floor_divide", Operator::floordiv),
    ufunc_operator("numpy.remainder", Operator::mod),
    ufunc_operator("numpy.power", Operator::pow),
    ufunc_operator("numpy.left_shift", Operator::lshift),
    ufunc_operator("numpy.right_shift", Operator::rshift),
    ufunc_operator("numpy.bitwise_and", Operator::bit_and),
    ufunc_operator("numpy.bitwise_or", Operator::bit_or),
    ufunc_operator("numpy.bitwise_xor", Operator::bit_xor),
    general("numpy.divmod", "2", ufunc_divmod),
    general("numpy.gcd", "2", common_divisor, 'g'),
    general("numpy.lcm", "2", common_divisor, 'l'),
    general("numpy.maximum", "2", ufunc_extreme, 'M'),
    general("numpy.minimum", "2", ufunc_extreme, 'm'),
    general("numpy.fmax", "2", ufunc_extreme, 'X'),
    general("numpy.fmin", "2", ufunc_extreme, 'N'),
    general("numpy.less", "2", ufunc_compare, '<'),
    general("numpy.less_equal", "2", ufunc_compare, 'l'),
    general("numpy.equal", "2", ufunc_compare, '='),
    general("numpy.not_equal", "2", ufunc_compare, '!'),
    general("numpy.greater", "2", ufunc_compare, '>'),
    general("numpy.greater_equal", "2", ufunc_compare, 'g'),
    general("numpy.logical_and", "2", ufunc_compare, '&'),
    general("numpy.logical_or", "2", ufunc_compare, '|'),
    general("numpy.logical_xor", "2", ufunc_compare, '^'),
};

}  // namespace

std::span<const Row> math_rows() {
  return math_table;
}
std::span<const Row> cuda_rows() {
  return cuda_table;
}
std::span<const Row> numpy_rows() {
  return numpy_table;
}

}  // namespace trifold::simulator
