// The value that an atomic operation writes: numba/cuda/cudaimpl.py, and the PTX of its helpers in cudadrv/nvvm.py.
#include "arithmetic.h"
#include "undefined.h"

namespace trifold::simulator {
namespace {

constexpr const char* name_of(AtomicOp operation) {
  constexpr const char* names[] = {
      "add", "sub", "and_", "or_", "xor", "inc", "dec", "exch", "max", "min", "nanmax", "nanmin", "compare_and_swap"};
  return names[static_cast<int>(operation)];
}

constexpr bool supported(AtomicOp operation, Kind kind) {
  const bool integer = is_integer(kind) && item_size(kind) >= 4;
  switch (operation) {
    case AtomicOp::inc:
    case AtomicOp::dec: return integer && is_unsigned(kind);
    case AtomicOp::bit_and:
    case AtomicOp::bit_or:
    case AtomicOp::bit_xor:
    case AtomicOp::exchange:
    case AtomicOp::compare_and_swap: return integer;
    default: return integer || kind == Kind::float32 || kind == Kind::float64;
  }
}

bool is_nan(const Value& value) {
  return is_floating(value.kind) && std::isnan(as_double(value));
}

// Whether `value` replaces `old` in a minimum or maximum. A NaN operand never does; a NaN in memory stays for max and
// min, and is replaced for nanmax and nanmin.
bool replaces(AtomicOp operation, const Value& old, const Value& value) {
  if (is_nan(value)) return false;
  if (is_nan(old)) return operation == AtomicOp::nanmax || operation == AtomicOp::nanmin;
  const int order = compare(value, old);
  return operation == AtomicOp::max || operation == AtomicOp::nanmax ? order > 0 : order < 0;
}

Value sum(const Value& old, const Value& value, bool subtract) {
  switch (old.kind) {
    case Kind::float32: return of_float(subtract ? old.f - value.f : old.f + value.f);
    case Kind::float64: return of_double(subtract ? old.d - value.d : old.d + value.d);
    default: return {old.kind, {.u = wrap(subtract ? old.u - value.u : old.u + value.u, old.kind)}};
  }
}

// The new content; false if memory does not change.
bool next_content(AtomicOp operation, const Value& old, const Value& value, const Value& compared, Value& next) {
  next = value;
  switch (operation) {
    case AtomicOp::add:
    case AtomicOp::sub: next = sum(old, value, operation == AtomicOp::sub); return true;
    case AtomicOp::bit_and: next.u = old.u & value.u; return true;
    case AtomicOp::bit_or: next.u = old.u | value.u; return true;
    case AtomicOp::bit_xor: next.u = old.u ^ value.u; return true;
    case AtomicOp::inc: next.u = old.u >= value.u ? 0 : old.u + 1; return true;
    case AtomicOp::dec: next.u = old.u == 0 || old.u > value.u ? value.u : old.u - 1; return true;
    case AtomicOp::exchange: return true;
    case AtomicOp::compare_and_swap: return old.u == compared.u;
    default: return replaces(operation, old, value);
  }
}

bool read_operand(AtomicOp operation, Kind kind, PyObject* object, Value& value) {
  if (!read(object, value)) {
    if (refuse_undefined(object)) return false;
    PyErr_Format(PyExc_TypeError, "cuda.atomic.%s() takes a number, not %s", name_of(operation),
                 Py_TYPE(object)->tp_name);
    return false;
  }
  value = convert(value, kind);
  return true;
}

}  // namespace

PyObject* atomic(AtomicOp operation, Kind kind, char* p, PyObject* value, PyObject* compare, bool& changed) {
  changed = false;
  if (!supported(operation, kind)) {
    PyErr_Format(PyExc_TypeError, "cuda.atomic.%s() has no form for an array of %s", name_of(operation),
                 kind_name(kind));
    return nullptr;
  }
  Value operand, compared{}, next;
  if (!read_operand(operation, kind, value, operand)) return nullptr;
  if (compare != nullptr && !read_operand(operation, kind, compare, compared)) return nullptr;
  const Value old = load_value(kind, p);
  changed = next_content(operation, old, operand, compared, next);
  if (changed) store_value(kind, p, next);
  return box(old);
}

}  // namespace trifold::simulator
