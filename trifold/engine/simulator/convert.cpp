// Conversions between Python objects, memory and kinds.
#include <cstring>

#include "number.h"
#include "undefined.h"

namespace trifold::simulator {
namespace {

// NumPy's scalars are read through their buffers: nothing of NumPy is linked or imported.
bool read_numpy(PyObject* object, Value& value) {
  const char* name = Py_TYPE(object)->tp_name;
  if (std::strncmp(name, "numpy.", 6) != 0 || !PyObject_CheckBuffer(object)) return false;
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return false;
  }
  const Kind kind = view.ndim == 0 ? kind_of_format(view.format, static_cast<size_t>(view.itemsize)) : Kind::other;
  const bool known = kind != Kind::other;
  if (known) value = load_value(kind, static_cast<const char*>(view.buf));
  PyBuffer_Release(&view);
  return known;
}

bool read_int(PyObject* object, Value& value) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    value = of_int(small);
    return true;
  }
  const unsigned long long bits = PyLong_AsUnsignedLongLongMask(object);
  PyErr_Clear();
  value = overflow > 0 ? of_uint(bits) : of_int(static_cast<int64_t>(bits));
  return true;
}

template <typename T>
T take(const char* p) {
  T item;
  std::memcpy(&item, p, sizeof item);
  return item;
}

template <typename T>
void put(char* p, T item) {
  std::memcpy(p, &item, sizeof item);
}

}  // namespace

Kind kind_of_format(const char* format, size_t size) {
  if (format == nullptr) return Kind::uint8;
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  if (format[0] == '\0' || format[1] != '\0') return Kind::other;
  const auto sized = [size](Kind one, Kind two, Kind four, Kind eight) {
    return size == 8 ? eight : size == 4 ? four : size == 2 ? two : one;
  };
  switch (*format) {
    case '?': return Kind::boolean;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return sized(Kind::int8, Kind::int16, Kind::int32, Kind::int64);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return sized(Kind::uint8, Kind::uint16, Kind::uint32, Kind::uint64);
    case 'e': return Kind::float16;
    case 'f': return Kind::float32;
    case 'd': return Kind::float64;
    default: return Kind::other;
  }
}

namespace {
constexpr Kind sixteen_bits(Kind kind) {
  return is_unsigned(kind) ? Kind::uint16 : Kind::int16;
}
}  // namespace

uint64_t float_to_integer(double x, Kind from, Kind to) {
  const int bits = static_cast<int>(8 * item_size(to));
  if (std::isnan(x)) {
    const bool wide = from == Kind::float64 || bits == 64;
    return wide ? wrap(uint64_t{1} << (bits < 32 ? 31 : bits - 1), to) : 0;
  }
  // PTX has no conversion to 8 bits: to 16, then truncated. Numba converts a float16 to the nearest integer, also in 8
  // bits.
  if (bits == 8 && from != Kind::float16) return wrap(float_to_integer(x, from, sixteen_bits(to)), to);
  const double whole = from == Kind::float16 ? std::nearbyint(x) : std::trunc(x);
  if (is_unsigned(to)) {
    const double end = std::ldexp(1.0, bits);
    if (!(whole > 0)) return 0;
    return whole >= end ? wrap(~uint64_t{0}, to) : static_cast<uint64_t>(whole);
  }
  const double end = std::ldexp(1.0, bits - 1);
  if (whole >= end) return (uint64_t{1} << (bits - 1)) - 1;
  if (whole < -end) return wrap(uint64_t{1} << (bits - 1), to);
  return static_cast<uint64_t>(static_cast<int64_t>(whole));
}

uint64_t as_integer(const Value& value, Kind kind) {
  if (is_integer(value.kind)) return wrap(value.u, kind);
  return float_to_integer(as_double(value), value.kind, kind);
}

Value convert(const Value& value, Kind kind) {
  if (value.kind == kind) return value;
  switch (kind) {
    case Kind::boolean: return of_bool(is_true(value));
    case Kind::float16: return of_half(as_double(value));
    case Kind::bfloat16: return {kind, {.f = bfloat16_value(bfloat16_bits(as_float(value)))}};
    case Kind::float32: return of_float(as_float(value));
    case Kind::float64: return of_double(as_double(value));
    default: return {kind, {.u = as_integer(value, kind)}};
  }
}

bool read(PyObject* object, Value& value) {
  if (is_number(object)) {
    value = value_of(object);
    return true;
  }
  if (PyFloat_Check(object)) {
    value = of_double(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (PyBool_Check(object)) {
    value = of_bool(object == Py_True);
    return true;
  }
  if (PyLong_Check(object)) return read_int(object, value);
  return read_numpy(object, value);
}

bool read_index(PyObject* object, int64_t& index) {
  if (PyLong_Check(object)) {
    int overflow;
    index = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) index = overflow > 0 ? INT64_MAX : INT64_MIN;
    return true;
  }
  Value value;
  if (!read(object, value) || !is_integer(value.kind)) return false;
  index = value.i;
  return true;
}

PyObject* box(const Value& value) {
  switch (value.kind) {
    case Kind::float64: return PyFloat_FromDouble(value.d);
    case Kind::boolean: return PyBool_FromLong(value.i != 0);
    case Kind::int64: return make_int64(value.i);
    case Kind::bfloat16: return make_float32(value.f);
    default: return make_number(value);
  }
}

Value load_value(Kind kind, const char* p) {
  switch (kind) {
    case Kind::boolean: return of_bool(*p != 0);
    case Kind::int8: return {kind, {.i = take<int8_t>(p)}};
    case Kind::int16: return {kind, {.i = take<int16_t>(p)}};
    case Kind::int32: return {kind, {.i = take<int32_t>(p)}};
    case Kind::int64: return {kind, {.i = take<int64_t>(p)}};
    case Kind::uint8: return {kind, {.u = take<uint8_t>(p)}};
    case Kind::uint16: return {kind, {.u = take<uint16_t>(p)}};
    case Kind::uint32: return {kind, {.u = take<uint32_t>(p)}};
    case Kind::uint64: return {kind, {.u = take<uint64_t>(p)}};
    case Kind::float16: return {kind, {.f = half_value(take<uint16_t>(p))}};
    case Kind::bfloat16: return of_float(bfloat16_value(take<uint16_t>(p)));
    case Kind::float32: return {kind, {.f = take<float>(p)}};
    default: return of_double(take<double>(p));
  }
}

void store_value(Kind kind, char* p, const Value& value) {
  switch (kind) {
    case Kind::boolean: return put(p, static_cast<uint8_t>(is_true(value)));
    case Kind::float16: return put(p, half_bits(convert(value, kind).f));
    case Kind::bfloat16: return put(p, bfloat16_bits(as_float(value)));
    case Kind::float32: return put(p, as_float(value));
    case Kind::float64: return put(p, as_double(value));
    case Kind::int8:
    case Kind::uint8: return put(p, static_cast<uint8_t>(as_integer(value, kind)));
    case Kind::int16:
    case Kind::uint16: return put(p, static_cast<uint16_t>(as_integer(value, kind)));
    case Kind::int32:
    case Kind::uint32: return put(p, static_cast<uint32_t>(as_integer(value, kind)));
    default: return put(p, as_integer(value, kind));
  }
}

PyObject* load(Kind kind, const char* p) {
  if (kind == Kind::float32) return make_float32(take<float>(p));
  if (kind == Kind::float64) return PyFloat_FromDouble(take<double>(p));
  return box(load_value(kind, p));
}

int store(Kind kind, char* p, PyObject* object) {
  if (kind == Kind::float32) {
    if (is_float32(object)) return put(p, value_of(object).f), 0;
    if (PyFloat_CheckExact(object)) return put(p, static_cast<float>(PyFloat_AS_DOUBLE(object))), 0;
  }
  Value value;
  if (!read(object, value)) {
    if (refuse_undefined(object)) return -1;
    PyErr_Format(PyExc_TypeError, "cannot store a %s in an array of %s", Py_TYPE(object)->tp_name, kind_name(kind));
    return -1;
  }
  store_value(kind, p, value);
  return 0;
}

const char* kind_name(Kind kind) {
  static constexpr const char* names[] = {"bool",   "int8",   "int16",   "int32",    "int64",   "uint8",   "uint16",
                                          "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "object"};
  return names[static_cast<int>(kind)];
}

}  // namespace trifold::simulator
