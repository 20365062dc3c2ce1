// The Python objects that hold scalar.h's values, and the conversions between kinds.
#pragma once

#include <Python.h>

#include <cmath>
#include <limits>

#include "half.h"
#include "scalar.h"

namespace trifold::simulator {

struct Number {
  PyObject_HEAD Value value;
};

// One class per kind, except boolean, bfloat16 and float64, at the kind's index.
extern PyTypeObject number_types[kind_count];

inline PyTypeObject* type_of(Kind kind) {
  return &number_types[static_cast<int>(kind)];
}

inline bool is_number(PyObject* object) {
  const auto place = reinterpret_cast<uintptr_t>(Py_TYPE(object)) - reinterpret_cast<uintptr_t>(number_types);
  return place < sizeof number_types;
}
inline const Value& value_of(PyObject* object) {
  return reinterpret_cast<Number*>(object)->value;
}
inline bool is_float32(PyObject* object) {
  return Py_TYPE(object) == type_of(Kind::float32);
}

// A free list for numbers of all classes, which have one size.
struct FreeNumbers {
  static constexpr int capacity = 512;
  Number* kept[capacity];
  int count = 0;
};
extern FreeNumbers free_numbers;

inline PyObject* make_number(const Value& value) {
  Number* number;
  if (free_numbers.count > 0) {
    number = free_numbers.kept[--free_numbers.count];
    PyObject_Init(reinterpret_cast<PyObject*>(number), type_of(value.kind));
  } else {
    number = PyObject_New(Number, type_of(value.kind));
    if (number == nullptr) return nullptr;
  }
  number->value = value;
  return reinterpret_cast<PyObject*>(number);
}

constexpr Value of_bool(bool b) {
  return {Kind::boolean, {.i = b}};
}
constexpr Value of_int(int64_t i) {
  return {Kind::int64, {.i = i}};
}
constexpr Value of_int32(int32_t i) {
  return {Kind::int32, {.i = i}};
}
constexpr Value of_uint(uint64_t u) {
  return {Kind::uint64, {.u = u}};
}
constexpr Value of_float(float f) {
  return {Kind::float32, {.f = f}};
}
constexpr Value of_double(double d) {
  return {Kind::float64, {.d = d}};
}
inline Value of_half(double d) {
  return {Kind::float16, {.f = round_to_half(d)}};
}

inline PyObject* make_float32(float f) {
  return make_number(of_float(f));
}
inline PyObject* make_int64(int64_t i) {
  if (i == static_cast<int32_t>(i)) return PyLong_FromLong(static_cast<long>(i));
  return make_number(of_int(i));
}

inline double as_double(const Value& value) {
  switch (value.kind) {
    case Kind::float64: return value.d;
    case Kind::float32:
    case Kind::float16:
    case Kind::bfloat16: return value.f;
    case Kind::uint8:
    case Kind::uint16:
    case Kind::uint32:
    case Kind::uint64: return static_cast<double>(value.u);
    default: return static_cast<double>(value.i);
  }
}

inline float as_float(const Value& value) {
  switch (value.kind) {
    case Kind::float64: return static_cast<float>(value.d);
    case Kind::float32:
    case Kind::float16:
    case Kind::bfloat16: return value.f;
    case Kind::uint8:
    case Kind::uint16:
    case Kind::uint32:
    case Kind::uint64: return static_cast<float>(value.u);
    default: return static_cast<float>(value.i);
  }
}

inline bool is_true(const Value& value) {
  switch (value.kind) {
    case Kind::float64: return value.d != 0;
    case Kind::float32:
    case Kind::float16:
    case Kind::bfloat16: return value.f != 0;
    default: return value.u != 0;
  }
}

Value load_value(Kind kind, const char* p);
void store_value(Kind kind, char* p, const Value& value);
Kind kind_of_format(const char* format, size_t size);  // of a buffer; `other` for unsupported formats
const char* kind_name(Kind kind);

// Converts a float to an integer of this kind as PTX's cvt does: toward zero, clamped. A NaN becomes 0 or, if either
// side has 64 bits, the sign bit of a 32- or 64-bit integer (PTX ISA, "cvt").
uint64_t float_to_integer(double x, Kind from, Kind to);

// The low 64 bits of a number as an integer of this kind, sign- or zero-extended.
uint64_t as_integer(const Value& value, Kind kind);
inline int64_t as_int64(const Value& value) {
  return is_integer(value.kind) ? value.i : static_cast<int64_t>(as_integer(value, Kind::int64));
}

// The low bits of this kind, sign-extended to 64.
constexpr uint64_t wrap(uint64_t bits, Kind kind) {
  switch (kind) {
    case Kind::boolean: return bits != 0;
    case Kind::int8: return static_cast<uint64_t>(static_cast<int8_t>(bits));
    case Kind::int16: return static_cast<uint64_t>(static_cast<int16_t>(bits));
    case Kind::int32: return static_cast<uint64_t>(static_cast<int32_t>(bits));
    case Kind::uint8: return static_cast<uint8_t>(bits);
    case Kind::uint16: return static_cast<uint16_t>(bits);
    case Kind::uint32: return static_cast<uint32_t>(bits);
    default: return bits;
  }
}

}  // namespace trifold::simulator
