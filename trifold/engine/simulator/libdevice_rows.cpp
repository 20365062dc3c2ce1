// cuda.libdevice.* and cuda.fp16.*: C's functions at the widths of NVIDIA's library.
#include <bit>
#include <cstdlib>

#include "../core/real_functions.h"
#include "arithmetic.h"
#include "device_function.h"

namespace trifold::simulator {
using namespace engine;  // its real functions

namespace {

using Unary = double (*)(double);
using Binary = double (*)(double, double);

constexpr Row d(const char* name, Unary function) {
  return {name, Typing::fixed, "d:d", function};
}
constexpr Row f(const char* name, Unary function) {
  return {name, Typing::fixed, "f:f", function};
}
constexpr Row e(const char* name, Unary function) {
  return {name, Typing::fixed, "e:e", function};
}
constexpr Row dd(const char* name, Binary function) {
  return {name, Typing::fixed, "d:dd", nullptr, function};
}
constexpr Row ff(const char* name, Binary function) {
  return {name, Typing::fixed, "f:ff", nullptr, function};
}
constexpr Row ee(const char* name, Binary function) {
  return {name, Typing::fixed, "e:ee", nullptr, function};
}
constexpr Row with(const char* name, const char* signature, General function, int option = 0) {
  return {name, Typing::fixed, signature, nullptr, nullptr, function, option};
}

// Stores a real in a result, at the width of its kind.
int give(Value* results, double x) {
  return results[0] = convert(of_double(x), results[0].kind), 1;
}
// The same for an integer.
int give_bits(Value* results, uint64_t bits) {
  return results[0].u = wrap(bits, results[0].kind), 1;
}

uint32_t low(const Value& a) {
  return static_cast<uint32_t>(a.u);
}
uint64_t size_of(int64_t i) {
  return i < 0 ? -static_cast<uint64_t>(i) : static_cast<uint64_t>(i);
}

int integer_function(const Row& row, const Value* a, Value* r) {
  const int64_t x = a[0].i, y = a[1].i;
  switch (row.option) {
    case 'a': return give_bits(r, size_of(x));
    case 'm': return give_bits(r, a[x < y ? 0 : 1].u);
    case 'M': return give_bits(r, a[x > y ? 0 : 1].u);
    case 'n': return give_bits(r, a[a[0].u < a[1].u ? 0 : 1].u);  // as unsigned, of 64 bits
    case 'N': return give_bits(r, a[a[0].u > a[1].u ? 0 : 1].u);
    case 'u': return give_bits(r, low(a[0]) < low(a[1]) ? a[0].u : a[1].u);
    case 'U': return give_bits(r, low(a[0]) > low(a[1]) ? a[0].u : a[1].u);
    case 'h': return give_bits(r, static_cast<uint64_t>((x + y) >> 1));
    case 'H': return give_bits(r, static_cast<uint64_t>((x + y + 1) >> 1));
    case 'g': return give_bits(r, (uint64_t{low(a[0])} + low(a[1])) >> 1);
    case 'G': return give_bits(r, (uint64_t{low(a[0])} + low(a[1]) + 1) >> 1);
    case 's': return give_bits(r, size_of(x - y) + a[2].u);
    case 'S': return give_bits(r, size_of(int64_t{low(a[0])} - int64_t{low(a[1])}) + a[2].u);
    case '*': return give_bits(r, static_cast<uint64_t>((x * y) >> 32));
    case 'x': return give_bits(r, uint64_t{low(a[0])} * low(a[1]) >> 32);
    case 'p': return give_bits(r, static_cast<uint64_t>(std::popcount(a[0].kind == Kind::int32 ? low(a[0]) : a[0].u)));
    case 'z': return give_bits(r, static_cast<uint64_t>(std::countl_zero(low(a[0]))));
    case 'Z': return give_bits(r, static_cast<uint64_t>(std::countl_zero(a[0].u)));
    default: return give_bits(r, x == 0 ? 0 : static_cast<uint64_t>(std::countr_zero(a[0].u)) + 1);
  }
}

__extension__ using Wide = __int128;
__extension__ using WideNatural = unsigned __int128;

int high_of_product(const Row&, const Value* a, Value* r) {
  return give_bits(r, static_cast<uint64_t>(static_cast<Wide>(a[0].i) * a[1].i >> 64));
}
int high_of_natural_product(const Row&, const Value* a, Value* r) {
  return give_bits(r, static_cast<uint64_t>(static_cast<WideNatural>(a[0].u) * a[1].u >> 64));
}

// The product of the low 24 bits of each.
int product24(const Row& row, const Value* a, Value* r) {
  const auto cut = [&](const Value& value) {
    return row.option == 'u' ? int64_t{low(value) & 0xffffff} : int64_t{static_cast<int32_t>(low(value) << 8) >> 8};
  };
  return give_bits(r, static_cast<uint64_t>(cut(a[0]) * cut(a[1])));
}

int reverse(const Row&, const Value* a, Value* r) {
  uint64_t from = a[0].u, to = 0;
  const int bits = static_cast<int>(8 * item_size(a[0].kind));
  for (int i = 0; i < bits; ++i, from >>= 1) to = to << 1 | (from & 1);
  return give_bits(r, to);
}

// Each of the selector's four nibbles selects one of eight bytes by its low three bits.
int permute_bytes(const Row&, const Value* a, Value* r) {
  const uint64_t bytes = uint64_t{low(a[1])} << 32 | low(a[0]);
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) result |= (bytes >> (8 * (low(a[2]) >> (4 * i) & 7)) & 0xff) << (8 * i);
  return give_bits(r, result);
}

int bits_as(const Row& row, const Value* a, Value* r) {
  switch (row.option) {
    case 'i': return give_bits(r, std::bit_cast<uint32_t>(a[0].f));
    case 'f': return r[0].f = std::bit_cast<float>(low(a[0])), 1;
    case 'l': return give_bits(r, std::bit_cast<uint64_t>(a[0].d));
    case 'd': return r[0].d = std::bit_cast<double>(a[0].u), 1;
    case 'H': return give_bits(r, std::bit_cast<uint64_t>(a[0].d) >> 32);
    case 'L': return give_bits(r, std::bit_cast<uint64_t>(a[0].d));
    case 'h': return give_bits(r, half_bits(round_to_half(a[0].f)));
    case 'e': return r[0].f = half_value(static_cast<uint16_t>(a[0].u)), 1;
    default: return r[0].d = std::bit_cast<double>(uint64_t{low(a[0])} << 32 | low(a[1])), 1;
  }
}

int classify(const Row& row, const Value* a, Value* r) {
  const double x = as_double(a[0]);
  switch (row.option) {
    case 'n': return give_bits(r, std::isnan(x));
    case 'i': return give_bits(r, std::isinf(x));
    case 'f': return give_bits(r, std::isfinite(x));
    default: return give_bits(r, std::signbit(x));
  }
}

int split(const Row&, const Value* a, Value* r) {
  double whole = 0;
  const double fraction = std::modf(as_double(a[0]), &whole);
  r[1] = convert(of_double(whole), r[1].kind);
  return give(r, fraction);
}

int fraction_and_exponent(const Row&, const Value* a, Value* r) {
  int exponent = 0;
  const double fraction = std::frexp(as_double(a[0]), &exponent);
  r[1].i = std::isfinite(fraction) ? exponent : 0;
  return give(r, fraction);
}

template <Unary first, Unary second>
int both(const Row&, const Value* a, Value* r) {
  r[1] = convert(of_double(second(as_double(a[0]))), r[1].kind);
  return give(r, first(as_double(a[0])));
}

int scale_by_power(const Row&, const Value* a, Value* r) {
  const auto exponent = static_cast<int>(a[1].i);
  if (a[0].kind == Kind::float32) return r[0].f = std::scalbn(a[0].f, exponent), 1;
  return give(r, std::scalbn(a[0].d, exponent));
}

int power_of_int(const Row&, const Value* a, Value* r) {
  const auto exponent = static_cast<int32_t>(a[1].i);
  if (a[0].kind == Kind::float32) return r[0].f = power_of_integer(a[0].f, exponent), 1;
  return give(r, power_of_integer(a[0].d, exponent));
}

int exponent(const Row&, const Value* a, Value* r) {
  const double x = as_double(a[0]);
  if (x == 0 || std::isnan(x)) return give_bits(r, static_cast<uint64_t>(INT32_MIN));
  return give_bits(r, static_cast<uint64_t>(std::isinf(x) ? INT32_MAX : std::ilogb(x)));
}

int next_after(const Row&, const Value* a, Value* r) {
  if (a[0].kind == Kind::float32) return r[0].f = std::nextafter(a[0].f, a[1].f), 1;
  return give(r, std::nextafter(a[0].d, a[1].d));
}

int fused(const Row&, const Value* a, Value* r) {
  if (a[0].kind == Kind::float64) return give(r, std::fma(a[0].d, a[1].d, a[2].d));
  if (a[0].kind == Kind::float32) return r[0].f = std::fma(a[0].f, a[1].f, a[2].f), 1;
  return give(r, as_double(a[0]) * as_double(a[1]) + as_double(a[2]));  // float16: exact in double before rounding
}

int bessel(const Row& row, const Value* a, Value* r) {
  const auto order = static_cast<int>(a[0].i);
  return give(r, row.option == 'j' ? ::jn(order, as_double(a[1])) : ::yn(order, as_double(a[1])));
}

// Also returns the sign and the low three bits of the quotient.
int remainder_and_quotient(const Row&, const Value* a, Value* r) {
  int quotient = 0;
  const double rest = std::remquo(as_double(a[0]), as_double(a[1]), &quotient);
  r[1].i = std::isfinite(rest) ? quotient % 8 : 0;
  return give(r, rest);
}

int half_compare(const Row& row, const Value* a, Value* r) {
  const int order = compare(a[0], a[1]);
  switch (row.option) {
    case '<': return r[0] = of_bool(order == -1), 1;
    case 'l': return r[0] = of_bool(order <= 0), 1;
    case '=': return r[0] = of_bool(order == 0), 1;
    case '!': return r[0] = of_bool(order == -1 || order == 1), 1;  // setp.ne: false for a NaN
    case '>': return r[0] = of_bool(order == 1), 1;
    default: return r[0] = of_bool(order == 0 || order == 1), 1;
  }
}

// ex2(y * lg2(x)): NaN for a negative base, whatever the exponent.
double power_by_logarithm(double x, double y) {
  return std::exp2(y * std::log2(x));
}

double sum(double x, double y) {
  return x + y;
}
double difference(double x, double y) {
  return x - y;
}
double product(double x, double y) {
  return x * y;
}
double ratio(double x, double y) {
  return x / y;
}
double negative(double x) {
  return -x;
}

constexpr Row libdevice_table[] = {
#define TRIFOLD_BOTH(name, function) d("libdevice." name, function), f("libdevice." name "f", function)
    TRIFOLD_BOTH("acos", std::acos),
    TRIFOLD_BOTH("acosh", std::acosh),
    TRIFOLD_BOTH("asin", std::asin),
    TRIFOLD_BOTH("asinh", std::asinh),
    TRIFOLD_BOTH("atan", std::atan),
    TRIFOLD_BOTH("atanh", std::atanh),
    TRIFOLD_BOTH("cbrt", std::cbrt),
    TRIFOLD_BOTH("ceil", std::ceil),
    TRIFOLD_BOTH("cos", std::cos),
    TRIFOLD_BOTH("cosh", std::cosh),
    TRIFOLD_BOTH("cospi", cos_of_pi_times),
    TRIFOLD_BOTH("erf", std::erf),
    TRIFOLD_BOTH("erfc", std::erfc),
    TRIFOLD_BOTH("erfcinv", inverse_erfc),
    TRIFOLD_BOTH("erfcx", scaled_erfc),
    TRIFOLD_BOTH("erfinv", inverse_erf),
    TRIFOLD_BOTH("exp", std::exp),
    TRIFOLD_BOTH("exp10", exp10_of),
    TRIFOLD_BOTH("exp2", std::exp2),
    TRIFOLD_BOTH("expm1", std::expm1),
    TRIFOLD_BOTH("fabs", std::fabs),
    TRIFOLD_BOTH("floor", std::floor),
    TRIFOLD_BOTH("j0", ::j0),
    TRIFOLD_BOTH("j1", ::j1),
    TRIFOLD_BOTH("lgamma", log_gamma),
    TRIFOLD_BOTH("log", std::log),
    TRIFOLD_BOTH("log10", std::log10),
    TRIFOLD_BOTH("log1p", std::log1p),
    TRIFOLD_BOTH("log2", std::log2),
    TRIFOLD_BOTH("logb", std::logb),
    TRIFOLD_BOTH("nearbyint", std::nearbyint),
    TRIFOLD_BOTH("normcdf", normal_cdf),
    TRIFOLD_BOTH("normcdfinv", inverse_normal_cdf),
    TRIFOLD_BOTH("rcbrt", rcbrt_of),
    TRIFOLD_BOTH("rint", std::nearbyint),
    TRIFOLD_BOTH("round", std::round),
    TRIFOLD_BOTH("rsqrt", rsqrt_of),
    TRIFOLD_BOTH("sin", std::sin),
    TRIFOLD_BOTH("sinh", std::sinh),
    TRIFOLD_BOTH("sinpi", sin_of_pi_times),
    TRIFOLD_BOTH("sqrt", std::sqrt),
    TRIFOLD_BOTH("tan", std::tan),
    TRIFOLD_BOTH("tanh", std::tanh),
    TRIFOLD_BOTH("tgamma", gamma_of),
    TRIFOLD_BOTH("trunc", std::trunc),
    TRIFOLD_BOTH("y0", ::y0),
    TRIFOLD_BOTH("y1", ::y1),
#undef TRIFOLD_BOTH
#define TRIFOLD_BOTH(name, function) dd("libdevice." name, function), ff("libdevice." name "f", function)
    TRIFOLD_BOTH("atan2", std::atan2),
    TRIFOLD_BOTH("copysign", std::copysign),
    TRIFOLD_BOTH("fdim", std::fdim),
    TRIFOLD_BOTH("fmax", maximum_number),
    TRIFOLD_BOTH("fmin", minimum_number),
    TRIFOLD_BOTH("fmod", std::fmod),
    TRIFOLD_BOTH("hypot", std::hypot),
    TRIFOLD_BOTH("pow", std::pow),
    TRIFOLD_BOTH("remainder", std::remainder),
#undef TRIFOLD_BOTH
    f("libdevice.fast_cosf", std::cos),
    f("libdevice.fast_sinf", std::sin),
    f("libdevice.fast_tanf", std::tan),
    f("libdevice.fast_expf", std::exp),
    f("libdevice.fast_exp10f", exp10_of),
    f("libdevice.fast_logf", std::log),
    f("libdevice.fast_log2f", std::log2),
    f("libdevice.fast_log10f", std::log10),
    f("libdevice.saturatef", saturated),
    f("libdevice.frsqrt_rn", rsqrt_of),
    ff("libdevice.fast_powf", power_by_logarithm),
    ff("libdevice.fast_fdividef", ratio),
    with("libdevice.fast_sincosf", "ff:f", both<std::sin, std::cos>),
    with("libdevice.sincosf", "ff:f", both<std::sin, std::cos>),
    with("libdevice.sincos", "dd:d", both<std::sin, std::cos>),
    with("libdevice.sincospif", "ff:f", both<sin_of_pi_times, cos_of_pi_times>),
    with("libdevice.sincospi", "dd:d", both<sin_of_pi_times, cos_of_pi_times>),
    with("libdevice.frexp", "di:d", fraction_and_exponent),
    with("libdevice.frexpf", "fi:f", fraction_and_exponent),
    with("libdevice.modf", "dd:d", split),
    with("libdevice.modff", "ff:f", split),
    with("libdevice.remquo", "di:dd", remainder_and_quotient),
    with("libdevice.remquof", "fi:ff", remainder_and_quotient),
    with("libdevice.nextafter", "d:dd", next_after),
    with("libdevice.nextafterf", "f:ff", next_after),
    with("libdevice.fma", "d:ddd", fused),
    with("libdevice.fmaf", "f:fff", fused),
    with("libdevice.ldexp", "d:di", scale_by_power),
    with("libdevice.ldexpf", "f:fi", scale_by_power),
    with("libdevice.scalbn", "d:di", scale_by_power),
    with("libdevice.scalbnf", "f:fi", scale_by_power),
    with("libdevice.powi", "d:di", power_of_int),
    with("libdevice.powif", "f:fi", power_of_int),
    with("libdevice.jn", "d:id", bessel, 'j'),
    with("libdevice.jnf", "f:if", bessel, 'j'),
    with("libdevice.yn", "d:id", bessel, 'y'),
    with("libdevice.ynf", "f:if", bessel, 'y'),
    with("libdevice.ilogb", "i:d", exponent),
    with("libdevice.ilogbf", "i:f", exponent),
    with("libdevice.isnand", "i:d", classify, 'n'),
    with("libdevice.isnanf", "i:f", classify, 'n'),
    with("libdevice.isinfd", "i:d", classify, 'i'),
    with("libdevice.isinff", "i:f", classify, 'i'),
    with("libdevice.isfinited", "i:d", classify, 'f'),
    with("libdevice.finitef", "i:f", classify, 'f'),
    with("libdevice.signbitd", "i:d", classify, 's'),
    with("libdevice.signbitf", "i:f", classify, 's'),
    with("libdevice.abs", "i:i", integer_function, 'a'),
    with("libdevice.llabs", "l:l", integer_function, 'a'),
    with("libdevice.min", "i:ii", integer_function, 'm'),
    with("libdevice.llmin", "l:ll", integer_function, 'm'),
    with("libdevice.max", "i:ii", integer_function, 'M'),
    with("libdevice.llmax", "l:ll", integer_function, 'M'),
    with("libdevice.umin", "i:ii", integer_function, 'u'),
    with("libdevice.ullmin", "l:ll", integer_function, 'n'),
    with("libdevice.umax", "i:ii", integer_function, 'U'),
    with("libdevice.ullmax", "l:ll", integer_function, 'N'),
    with("libdevice.hadd", "i:ii", integer_function, 'h'),
    with("libdevice.rhadd", "i:ii", integer_function, 'H'),
    with("libdevice.uhadd", "i:ii", integer_function, 'g'),
    with("libdevice.urhadd", "i:ii", integer_function, 'G'),
    with("libdevice.sad", "i:iii", integer_function, 's'),
    with("libdevice.usad", "i:iii", integer_function, 'S'),
    with("libdevice.mulhi", "i:ii", integer_function, '*'),
    with("libdevice.umulhi", "i:ii", integer_function, 'x'),
    with("libdevice.mul64hi", "l:ll", high_of_product),
    with("libdevice.umul64hi", "l:ll", high_of_natural_product),
    with("libdevice.mul24", "i:ii", product24, 's'),
    with("libdevice.umul24", "i:ii", product24, 'u'),
    with("libdevice.popc", "i:i", integer_function, 'p'),
    with("libdevice.popcll", "i:l", integer_function, 'p'),
    with("libdevice.clz", "i:i", integer_function, 'z'),
    with("libdevice.clzll", "i:l", integer_function, 'Z'),
    with("libdevice.ffs", "i:i", integer_function, '1'),
    with("libdevice.ffsll", "i:l", integer_function, '1'),
    with("libdevice.brev", "i:i", reverse),
    with("libdevice.brevll", "l:l", reverse),
    with("libdevice.byte_perm", "i:iii", permute_bytes),
    with("libdevice.float_as_int", "i:f", bits_as, 'i'),
    with("libdevice.int_as_float", "f:i", bits_as, 'f'),
    with("libdevice.double_as_longlong", "l:d", bits_as, 'l'),
    with("libdevice.longlong_as_double", "d:l", bits_as, 'd'),
    with("libdevice.double2hiint", "i:d", bits_as, 'H'),
    with("libdevice.double2loint", "i:d", bits_as, 'L'),
    with("libdevice.hiloint2double", "d:ii", bits_as, 0),
    with("libdevice.float2half_rn", "h:f", bits_as, 'h'),
    with("libdevice.half2float", "f:h", bits_as, 'e'),
    ee("fp16.hadd", sum),
    ee("fp16.hsub", difference),
    ee("fp16.hmul", product),
    ee("fp16.hdiv", ratio),
    ee("fp16.hmax", maximum_number),
    ee("fp16.hmin", minimum_number),
    with("fp16.hfma", "e:eee", fused),
    e("fp16.hneg", negative),
    e("fp16.habs", std::fabs),
    e("fp16.hsin", std::sin),
    e("fp16.hcos", std::cos),
    e("fp16.hlog", std::log),
    e("fp16.hlog10", std::log10),
    e("fp16.hlog2", std::log2),
    e("fp16.hexp", std::exp),
    e("fp16.hexp10", exp10_of),
    e("fp16.hexp2", std::exp2),
    e("fp16.hsqrt", std::sqrt),
    e("fp16.hrsqrt", rsqrt_of),
    e("fp16.hfloor", std::floor),
    e("fp16.hceil", std::ceil),
    e("fp16.hrcp", reciprocal_of),
    e("fp16.hrint", std::nearbyint),
    e("fp16.htrunc", std::trunc),
    e("fp16.htanh", std::tanh),
    e("fp16.htanh_approx", std::tanh),
    with("fp16.heq", "b:ee", half_compare, '='),
    with("fp16.hne", "b:ee", half_compare, '!'),
    with("fp16.hlt", "b:ee", half_compare, '<'),
    with("fp16.hle", "b:ee", half_compare, 'l'),
    with("fp16.hgt", "b:ee", half_compare, '>'),
    with("fp16.hge", "b:ee", half_compare, 'g'),
};

}  // namespace

std::span<const Row> libdevice_rows() {
  return libdevice_table;
}

}  // namespace trifold::simulator
