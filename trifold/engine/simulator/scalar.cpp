// The classes of typed numbers: slots, attributes, formatting.
#include <bit>
#include <charconv>
#include <cstring>
#include <string>

#include "arithmetic.h"
#include "complex.h"
#include "functions.h"

namespace trifold::simulator {

FreeNumbers free_numbers;

namespace {

void dealloc(PyObject* self) {
  if (free_numbers.count < FreeNumbers::capacity)
    free_numbers.kept[free_numbers.count++] = reinterpret_cast<Number*>(self);
  else
    PyObject_Free(self);
}

template <Operator op>
PyObject* binary(PyObject* left, PyObject* right) {
  if constexpr (op <= Operator::truediv) {
    if (is_float32(left) && is_float32(right)) {
      const float a = value_of(left).f, b = value_of(right).f;
      if constexpr (op == Operator::add) return make_float32(a + b);
      if constexpr (op == Operator::sub) return make_float32(a - b);
      if constexpr (op == Operator::mul) return make_float32(a * b);
      if constexpr (op == Operator::truediv) return make_float32(a / b);
    }
  }
  Value a, b, result;
  if (read(left, a) && read(right, b)) {
    if (compute(op, a, b, result)) return box(result);
  } else if (is_complex(left) || is_complex(right)) {
    return operate_complex(op, left, right);
  }
  Py_RETURN_NOTIMPLEMENTED;
}

PyObject* power(PyObject* left, PyObject* right, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary<Operator::pow>(left, right);
}

PyObject* divmod(PyObject* left, PyObject* right) {
  Value a, b, quotient, remainder;
  if (!read(left, a) || !read(right, b)) Py_RETURN_NOTIMPLEMENTED;
  divide_with_remainder(a, b, quotient, remainder);
  return pair(box(quotient), box(remainder));
}

template <bool (*function)(const Value&, Value&)>
PyObject* unary(PyObject* self) {
  Value result;
  if (!function(value_of(self), result)) {
    PyErr_Format(PyExc_TypeError, "bad operand type for unary ~: '%s'", Py_TYPE(self)->tp_name);
    return nullptr;
  }
  return box(result);
}

PyObject* absolute_value(PyObject* self) {
  return box(absolute(value_of(self)));
}
int truth(PyObject* self) {
  return is_true(value_of(self));
}

// The same number in Python's own type, for conversions, hashes and formats.
PyObject* plain(PyObject* self) {
  const Value& value = value_of(self);
  if (is_floating(value.kind)) return PyFloat_FromDouble(as_double(value));
  return is_unsigned(value.kind) ? PyLong_FromUnsignedLongLong(value.u) : PyLong_FromLongLong(value.i);
}

PyObject* to_int(PyObject* self) {
  const Value& value = value_of(self);
  return is_floating(value.kind) ? PyLong_FromLongLong(as_int64(value)) : plain(self);
}

PyObject* to_index(PyObject* self) {
  if (is_integer(value_of(self).kind)) return plain(self);
  PyErr_Format(PyExc_TypeError, "'%s' object cannot be interpreted as an integer", Py_TYPE(self)->tp_name);
  return nullptr;
}

PyObject* to_float(PyObject* self) {
  return PyFloat_FromDouble(as_double(value_of(self)));
}

Py_hash_t hash(PyObject* self) {
  PyObject* number = plain(self);
  if (number == nullptr) return -1;
  const Py_hash_t result = PyObject_Hash(number);
  Py_DECREF(number);
  return result;
}

PyObject* rich_compare(PyObject* left, PyObject* right, int op) {
  Value a, b;
  if (!read(left, a) || !read(right, b)) Py_RETURN_NOTIMPLEMENTED;
  const int order = compare(a, b);
  switch (op) {
    case Py_LT: return PyBool_FromLong(order == -1);
    case Py_LE: return PyBool_FromLong(order <= 0);
    case Py_EQ: return PyBool_FromLong(order == 0);
    case Py_NE: return PyBool_FromLong(order != 0);
    case Py_GT: return PyBool_FromLong(order == 1);
    default: return PyBool_FromLong(order == 0 || order == 1);
  }
}

// The shortest digits that identify this float16 or float32, in Python's format.
std::string shortest(const Value& value) {
  if (std::isnan(value.f)) return "nan";
  if (std::isinf(value.f)) return value.f < 0 ? "-inf" : "inf";
  char digits[40];
  char* end = std::to_chars(digits, digits + sizeof digits, value.f, std::chars_format::scientific).ptr;
  for (int precision = 0; value.kind == Kind::float16 && precision < 5; ++precision) {
    end = std::to_chars(digits, digits + sizeof digits, value.f, std::chars_format::scientific, precision).ptr;
    float again = 0;
    std::from_chars(digits, end, again);
    if (round_to_half(again) == value.f) break;
  }
  // These digits, read as a double, print unchanged: repr() finds the same shortest ones.
  double same = 0;
  std::from_chars(digits, end, same);
  char* text = PyOS_double_to_string(same, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
  std::string result = text == nullptr ? "" : text;
  PyMem_Free(text);
  return result;
}

PyObject* repr(PyObject* self) {
  const Value& value = value_of(self);
  if (is_floating(value.kind)) return PyUnicode_FromString(shortest(value).c_str());
  return is_unsigned(value.kind) ? PyUnicode_FromFormat("%llu", static_cast<unsigned long long>(value.u))
                                 : PyUnicode_FromFormat("%lld", static_cast<long long>(value.i));
}

PyObject* format(PyObject* self, PyObject* specification) {
  if (PyUnicode_GetLength(specification) == 0) return repr(self);
  PyObject* number = plain(self);
  if (number == nullptr) return nullptr;
  PyObject* text = PyObject_Format(number, specification);
  Py_DECREF(number);
  return text;
}

PyObject* round_to(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* both[] = {self, count > 0 ? arguments[0] : nullptr};
  return builtin_round(nullptr, both, count > 0 ? 2 : 1);
}

PyObject* construct(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  if (keywords != nullptr && PyDict_GET_SIZE(keywords) > 0) {
    PyErr_Format(PyExc_TypeError, "%s() takes no keyword arguments", type->tp_name);
    return nullptr;
  }
  PyObject* argument = nullptr;
  if (!PyArg_UnpackTuple(arguments, type->tp_name, 0, 1, &argument)) return nullptr;
  const Kind kind = static_cast<Kind>(type - number_types);
  return argument == nullptr ? box(convert(of_int(0), kind)) : cast(kind, argument);
}

PyObject* itself(PyObject* self, PyObject*) {
  return Py_NewRef(self);
}
PyObject* real(PyObject* self, void*) {
  return Py_NewRef(self);
}
PyObject* imaginary(PyObject* self, void*) {
  return box(convert(of_int(0), value_of(self).kind));
}
PyObject* element_type(PyObject* self, void*) {
  return numpy_dtype(value_of(self).kind);
}

PyObject* view_as(PyObject* self, PyObject* target) {
  PyObject* both[] = {self, target};
  return view(nullptr, both, 2);
}

// A 0-d buffer, from which NumPy makes an array of the same type.
int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  static constexpr char formats[kind_count][2] = {"?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", "", "f", "d"};
  const Value& value = value_of(self);
  char* bytes = static_cast<char*>(PyMem_Malloc(sizeof(uint64_t)));
  if (bytes == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  store_value(value.kind, bytes, value);
  if (PyBuffer_FillInfo(buffer, self, bytes, static_cast<Py_ssize_t>(item_size(value.kind)), 1, flags) != 0) {
    PyMem_Free(bytes);
    return -1;
  }
  buffer->itemsize = buffer->len;
  buffer->ndim = 0;
  buffer->shape = buffer->strides = nullptr;
  buffer->format = flags & PyBUF_FORMAT ? const_cast<char*>(formats[static_cast<int>(value.kind)]) : nullptr;
  buffer->internal = bytes;
  return 0;
}

void release_buffer(PyObject*, Py_buffer* buffer) {
  PyMem_Free(buffer->internal);
}

PyBufferProcs buffer_slots = {get_buffer, release_buffer};

PyNumberMethods slots(bool integer) {
  PyNumberMethods methods = {};
  methods.nb_add = binary<Operator::add>;
  methods.nb_subtract = binary<Operator::sub>;
  methods.nb_multiply = binary<Operator::mul>;
  methods.nb_true_divide = binary<Operator::truediv>;
  methods.nb_floor_divide = binary<Operator::floordiv>;
  methods.nb_remainder = binary<Operator::mod>;
  methods.nb_divmod = divmod;
  methods.nb_power = power;
  methods.nb_negative = unary<negate>;
  methods.nb_positive = unary<keep_sign>;
  methods.nb_absolute = absolute_value;
  methods.nb_bool = truth;
  methods.nb_int = to_int;
  methods.nb_float = to_float;
  if (!integer) return methods;
  methods.nb_invert = unary<invert>;
  methods.nb_lshift = binary<Operator::lshift>;
  methods.nb_rshift = binary<Operator::rshift>;
  methods.nb_and = binary<Operator::bit_and>;
  methods.nb_or = binary<Operator::bit_or>;
  methods.nb_xor = binary<Operator::bit_xor>;
  methods.nb_index = to_index;
  return methods;
}

PyNumberMethods integer_slots = slots(true);
PyNumberMethods real_slots = slots(false);

// As in numba-cuda: cuda.popc, with a result of the number's own type.
PyObject* bit_count(PyObject* self, PyObject*) {
  const Value& value = value_of(self);
  const uint64_t bits = value.u << (64 - 8 * item_size(value.kind));
  return box({value.kind, {.i = std::popcount(bits)}});
}

PyMethodDef integer_methods[] = {
    {"bit_count", bit_count, METH_NOARGS, "How many bits are 1."},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef methods[] = {
    {"__format__", format, METH_O, nullptr},
    {"__round__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(round_to)), METH_FASTCALL, nullptr},
    {"conjugate", itself, METH_NOARGS, "The number itself."},
    {"item", itself, METH_NOARGS, "The number itself."},
    {"view", view_as, METH_O, "The same bits as another type of the same size."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"real", real, nullptr, "The number itself.", nullptr},
    {"imag", imaginary, nullptr, "Zero.", nullptr},
    {"dtype", element_type, nullptr, "NumPy's type of the same numbers.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject make_type(Kind kind, const char* name, const char* documentation) {
  static const PyVarObject head[] = {PyVarObject_HEAD_INIT(nullptr, 0)};
  PyTypeObject type{};
  type.ob_base = head[0];
  type.tp_name = name;
  type.tp_doc = documentation;
  type.tp_basicsize = sizeof(Number);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_new = construct;
  type.tp_dealloc = dealloc;
  type.tp_as_number = is_integer(kind) ? &integer_slots : &real_slots;
  type.tp_as_buffer = &buffer_slots;
  type.tp_hash = hash;
  type.tp_richcompare = rich_compare;
  type.tp_repr = repr;
  type.tp_methods = methods;
  type.tp_getset = attributes;
  return type;
}

// The methods that integers have and floats lack; a second table would repeat the first.
int add_integer_methods(PyTypeObject* type) {
  for (PyMethodDef* method = integer_methods; method->ml_name != nullptr; ++method) {
    PyObject* const descriptor = PyDescr_NewMethod(type, method);
    const int failed = descriptor == nullptr || PyDict_SetItemString(type->tp_dict, method->ml_name, descriptor) != 0;
    Py_XDECREF(descriptor);
    if (failed) return -1;
  }
  return 0;
}

// NumPy's operators defer to a class with a higher __array_priority__.
int outrank_numpy(PyTypeObject* type) {
  PyObject* priority = PyFloat_FromDouble(1e6);
  const int failed = priority == nullptr || PyDict_SetItemString(type->tp_dict, "__array_priority__", priority) != 0;
  Py_XDECREF(priority);
  PyType_Modified(type);
  return failed ? -1 : 0;
}

}  // namespace

PyTypeObject number_types[kind_count] = {
    {},
    make_type(Kind::int8, "trifold._simulator.int8", "An 8-bit integer of a kernel; it wraps."),
    make_type(Kind::int16, "trifold._simulator.int16", "A 16-bit integer of a kernel; it wraps."),
    make_type(Kind::int32, "trifold._simulator.int32", "A 32-bit integer of a kernel; it wraps."),
    make_type(Kind::int64, "trifold._simulator.int64", "A 64-bit integer of a kernel, beyond 32 bits; it wraps."),
    make_type(Kind::uint8, "trifold._simulator.uint8", "An unsigned 8-bit integer of a kernel; it wraps."),
    make_type(Kind::uint16, "trifold._simulator.uint16", "An unsigned 16-bit integer of a kernel; it wraps."),
    make_type(Kind::uint32, "trifold._simulator.uint32", "An unsigned 32-bit integer of a kernel; it wraps."),
    make_type(Kind::uint64, "trifold._simulator.uint64", "An unsigned 64-bit integer of a kernel; it wraps."),
    make_type(Kind::float16, "trifold._simulator.float16", "A half-precision number of a kernel."),
    {},
    make_type(Kind::float32, "trifold._simulator.float32", "A single-precision number of a kernel."),
    {},
};

int add_scalars(PyObject* module) {
  for (PyTypeObject& type : number_types) {
    if (type.tp_name == nullptr) continue;
    if (PyType_Ready(&type) != 0) return -1;
    if (type.tp_as_number == &integer_slots && add_integer_methods(&type) != 0) return -1;
    if (outrank_numpy(&type) != 0) return -1;
    if (PyModule_AddObjectRef(module, std::strrchr(type.tp_name, '.') + 1, reinterpret_cast<PyObject*>(&type)) != 0)
      return -1;
  }
  return add_functions(module);
}

}  // namespace trifold::simulator
