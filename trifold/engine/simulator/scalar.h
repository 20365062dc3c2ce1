// Typed numbers of the simulator: the types of array elements in a kernel, and of results of arithmetic.
//
// A value has Numba's type for the GPU, in the fastest Python object for it:
//   float64   Python float
//   boolean   Python bool
//   int64     Python int where |v| < 2^31, else the class `int64`: sums of small ones cannot leave 64 bits unseen
//   others    the classes below, which wrap, round and promote as Numba does
// complex and datetime64 values are NumPy's own scalars and `Kind::other` here.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

namespace trifold::simulator {

enum class Kind : uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,  // in memory only: it loads as float32
  float32,
  float64,
  other,
};

inline constexpr int kind_count = static_cast<int>(Kind::other);

constexpr size_t item_size(Kind kind) {
  constexpr uint8_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 0};
  return sizes[static_cast<int>(kind)];
}
constexpr bool is_signed(Kind kind) {
  return kind >= Kind::int8 && kind <= Kind::int64;
}
constexpr bool is_unsigned(Kind kind) {
  return kind >= Kind::uint8 && kind <= Kind::uint64;
}
constexpr bool is_integer(Kind kind) {
  return kind <= Kind::uint64;
}  // includes bool, as in Numba's arithmetic
constexpr bool is_floating(Kind kind) {
  return kind >= Kind::float16 && kind <= Kind::float64;
}

struct Value {
  Kind kind;
  union {
    int64_t i;   // signed integers, sign-extended; boolean: 0 or 1
    uint64_t u;  // unsigned integers, zero-extended
    float f;     // float32, and float16 exactly
    double d;    // float64
  };
};

// Reads a Python number, a number of this module, or a NumPy scalar. False without an exception for another object
// (complex numbers too). A Python int of 2^63 or more is a uint64, one beyond 64 bits is reduced to its low 64.
bool read(PyObject* object, Value& value);

// An integer of any of those kinds as an index; false without an exception if it is none. A uint64 is reinterpreted.
bool read_index(PyObject* object, int64_t& index);

// New reference; null with an exception only when memory is exhausted. `other` is not a value.
PyObject* box(const Value& value);

// The value converted to another kind: wrapped, truncated or rounded as on the GPU.
Value convert(const Value& value, Kind kind);

// Loads memory as a typed object, and stores one; `p` need not be aligned. store() converts as Numba's setitem does and
// sets TypeError (-1) if the object is not a number.
PyObject* load(Kind kind, const char* p);
int store(Kind kind, char* p, PyObject* object);

enum class AtomicOp : uint8_t {
  add,
  sub,
  bit_and,
  bit_or,
  bit_xor,
  inc,  // wraps to 0 after the operand
  dec,  // wraps to the operand after 0, and from above it
  exchange,
  max,  // handles NaN as the GPU does
  min,
  nanmax,  // ignores NaN
  nanmin,
  compare_and_swap,  // writes `value` if memory equals `compare`
};

// Returns the content of `p` before the operation, typed; `changed`: whether memory was written (a failed
// compare_and_swap is only a read). `compare` is null except for compare_and_swap. Null with TypeError if Numba has no
// such atomic for this kind or the operand is not a number.
PyObject* atomic(AtomicOp operation, Kind kind, char* p, PyObject* value, PyObject* compare, bool& changed);

// Adds the classes and functions of this part to the extension module; -1 with an exception.
int add_scalars(PyObject* module);

}  // namespace trifold::simulator
