// libdevice's operations and conversions with a rounding mode in their name: _rn, _rz, _ru, _rd.
#include <cfenv>
#include <deque>
#include <string>
#include <vector>

#include "device_function.h"

namespace trifold::simulator {
namespace {

constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
constexpr const char* suffixes[] = {"_rn", "_rz", "_ru", "_rd"};

// Sets the rounding mode while one operation runs, whose operands are opaque to the compiler.
template <typename Function>
auto rounded(int mode, Function function) {
  std::fesetround(mode);
  const auto result = function();
  std::fesetround(FE_TONEAREST);
  return result;
}

template <typename T, char operation>
int operate(const Row& row, const Value* values, Value* results) {
  const auto operand = [](const Value& value) -> T { return static_cast<T>(as_double(value)); };
  volatile T a = operand(values[0]), b = 0, c = 0;
  if (operation != 'r' && operation != 's') b = operand(values[1]);
  if (operation == 'f') c = operand(values[2]);
  const T result = rounded(row.option, [&]() -> T {
    volatile T x = 0;
    if constexpr (operation == '+') x = a + b;
    if constexpr (operation == '-') x = a - b;
    if constexpr (operation == '*') x = a * b;
    if constexpr (operation == '/') x = a / b;
    if constexpr (operation == 'r') x = 1 / a;
    if constexpr (operation == 's') x = std::sqrt(a);
    if constexpr (operation == 'f') x = std::fma(a, b, c);
    return x;
  });
  if constexpr (sizeof(T) == sizeof(float))
    results[0].f = result;
  else
    results[0].d = result;
  return 1;
}

// From any kind to a float; `natural` reads an integer's bits as unsigned.
template <typename To, bool natural>
int to_float(const Row& row, const Value* values, Value* results) {
  const Value& value = values[0];
  volatile double real = is_floating(value.kind) ? as_double(value) : 0;
  volatile int64_t integer = value.i;
  volatile uint64_t bits = value.kind == Kind::int32 ? static_cast<uint32_t>(value.u) : value.u;
  const To result = rounded(row.option, [&]() -> To {
    volatile To x = 0;
    if (is_floating(value.kind))
      x = static_cast<To>(real);
    else if (natural)
      x = static_cast<To>(bits);
    else
      x = static_cast<To>(integer);
    return x;
  });
  if constexpr (sizeof(To) == sizeof(float))
    results[0].f = result;
  else
    results[0].d = result;
  return 1;
}

// From a float to an integer of the row's result type; `natural`: to the bits of the unsigned type.
template <bool natural>
int to_integer(const Row& row, const Value* values, Value* results) {
  const double x = as_double(values[0]);
  const double whole = rounded(row.option, [&] { return std::nearbyint(x); });
  const bool wide = results[0].kind == Kind::int64;
  const Kind kind = wide ? (natural ? Kind::uint64 : Kind::int64) : (natural ? Kind::uint32 : Kind::int32);
  results[0].u = wrap(float_to_integer(std::isnan(x) ? x : whole, values[0].kind, kind), results[0].kind);
  return 1;
}

int round_to_long(const Row& row, const Value* values, Value* results) {
  const double x = as_double(values[0]);
  const double whole = row.option == 'r' ? std::round(x) : std::nearbyint(x);
  results[0].u = float_to_integer(whole, values[0].kind, Kind::int64);
  return 1;
}

struct Form {
  const char* name;
  const char* signature;
  General function;
};

constexpr Form forms[] = {
    {"fadd", "f:ff", operate<float, '+'>},         {"fsub", "f:ff", operate<float, '-'>},
    {"fmul", "f:ff", operate<float, '*'>},         {"fdiv", "f:ff", operate<float, '/'>},
    {"frcp", "f:f", operate<float, 'r'>},          {"fsqrt", "f:f", operate<float, 's'>},
    {"fmaf", "f:fff", operate<float, 'f'>},        {"dadd", "d:dd", operate<double, '+'>},
    {"dmul", "d:dd", operate<double, '*'>},        {"ddiv", "d:dd", operate<double, '/'>},
    {"drcp", "d:d", operate<double, 'r'>},         {"dsqrt", "d:d", operate<double, 's'>},
    {"fma", "d:ddd", operate<double, 'f'>},        {"double2float", "f:d", to_float<float, false>},
    {"int2float", "f:i", to_float<float, false>},  {"uint2float", "f:i", to_float<float, true>},
    {"ll2float", "f:l", to_float<float, false>},   {"ull2float", "f:l", to_float<float, true>},
    {"ll2double", "d:l", to_float<double, false>}, {"ull2double", "d:l", to_float<double, true>},
    {"double2int", "i:d", to_integer<false>},      {"double2uint", "i:d", to_integer<true>},
    {"double2ll", "l:d", to_integer<false>},       {"double2ull", "l:d", to_integer<true>},
    {"float2int", "i:f", to_integer<false>},       {"float2uint", "i:f", to_integer<true>},
    {"float2ll", "l:f", to_integer<false>},        {"float2ull", "l:f", to_integer<true>},
};

// Operations that only exist with rounding to nearest.
constexpr Row nearest_only[] = {
    {"libdevice.int2double_rn", Typing::fixed, "d:i", nullptr, nullptr, to_float<double, false>, FE_TONEAREST},
    {"libdevice.uint2double_rn", Typing::fixed, "d:i", nullptr, nullptr, to_float<double, true>, FE_TONEAREST},
    {"libdevice.llrint", Typing::fixed, "l:d", nullptr, nullptr, round_to_long, 0},
    {"libdevice.llrintf", Typing::fixed, "l:f", nullptr, nullptr, round_to_long, 0},
    {"libdevice.llround", Typing::fixed, "l:d", nullptr, nullptr, round_to_long, 'r'},
    {"libdevice.llroundf", Typing::fixed, "l:f", nullptr, nullptr, round_to_long, 'r'},
};

}  // namespace

std::span<const Row> rounding_rows() {
  static std::deque<std::string> names;  // addresses are stable
  static const std::vector<Row> rows = [] {
    std::vector<Row> made(std::begin(nearest_only), std::end(nearest_only));
    for (const Form& form : forms)
      for (int i = 0; i < 4; ++i) {
        const auto& name = names.emplace_back(std::string("libdevice.") + form.name + suffixes[i]);
        made.push_back({name.c_str(), Typing::fixed, form.signature, nullptr, nullptr, form.function, modes[i]});
      }
    return made;
  }();
  return rows;
}

}  // namespace trifold::simulator
