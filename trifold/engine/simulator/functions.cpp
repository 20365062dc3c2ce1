#include "functions.h"

#include <cstring>

#include "arithmetic.h"
#include "complex.h"
#include "device_function.h"
#include "undefined.h"

namespace trifold::simulator {
namespace {

using BinarySlot = PyObject* (*)(PyObject*, PyObject*);

PyObject* python_power(PyObject* a, PyObject* b) {
  return PyNumber_Power(a, b, Py_None);
}

constexpr BinarySlot python_operators[] = {
    PyNumber_Add, PyNumber_Subtract, PyNumber_Multiply, PyNumber_TrueDivide, PyNumber_FloorDivide, PyNumber_Remainder,
    python_power, PyNumber_Lshift,   PyNumber_Rshift,   PyNumber_And,        PyNumber_Or,          PyNumber_Xor,
};

bool expect(const char* function, Py_ssize_t count, Py_ssize_t expected) {
  if (count == expected) return true;
  PyErr_Format(PyExc_TypeError, "%s() takes %zd argument%s (%zd given)", function, expected, expected == 1 ? "" : "s",
               count);
  return false;
}

// The rewriter's replacement of an operator if Python's would raise, or exceed 64 bits.
template <Operator op>
PyObject* operate(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2) return expect(symbol(op), count, 2), nullptr;
  PyObject *left = arguments[0], *right = arguments[1];
  if constexpr (op <= Operator::truediv) {
    const auto apply = [](auto a, auto b) {
      if constexpr (op == Operator::add) return a + b;
      if constexpr (op == Operator::sub) return a - b;
      if constexpr (op == Operator::mul) return a * b;
      if constexpr (op == Operator::truediv) return a / b;
    };
    if (is_float32(left) && is_float32(right)) return make_float32(apply(value_of(left).f, value_of(right).f));
    if (PyFloat_CheckExact(left) && PyFloat_CheckExact(right))
      return PyFloat_FromDouble(apply(PyFloat_AS_DOUBLE(left), PyFloat_AS_DOUBLE(right)));
  }
  Value a, b, result;
  if (read(left, a) && read(right, b) && compute(op, a, b, result)) return box(result);
  if (is_complex(left) || is_complex(right)) {
    PyObject* made = operate_complex(op, left, right);
    if (made != Py_NotImplemented) return made;
    Py_DECREF(made);
  }
  return python_operators[static_cast<int>(op)](left, right);  // tuples, arrays, complex numbers, dates
}

template <bool (*function)(const Value&, Value&), PyObject* (*otherwise)(PyObject*)>
PyObject* operate_on(PyObject*, PyObject* argument) {
  Value a, result;
  if (read(argument, a) && function(a, result)) return box(result);
  return otherwise(argument);
}

PyObject* builtin_abs(PyObject*, PyObject* argument) {
  Value value;
  if (read(argument, value)) return box(absolute(value));
  PyObject* size = PyNumber_Absolute(argument);
  if (size == nullptr || !read(size, value)) return size;
  Py_DECREF(size);  // size of a complex number: NumPy's scalar
  return box(value);
}

PyObject* builtin_divmod(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Value values[2], quotient, remainder;
  if (!read_arguments("divmod", arguments, count, 2, values)) return undefined_among(arguments, count);
  divide_with_remainder(values[0], values[1], quotient, remainder);
  return pair(box(quotient), box(remainder));
}

PyObject* builtin_int(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Value value;
  if (count == 1 && read(arguments[0], value)) {
    const bool keeps = is_integer(value.kind) && value.kind != Kind::boolean;
    return box(keeps ? value : convert(value, Kind::int64));
  }
  if (PyObject* const undefined = undefined_among(arguments, count)) return undefined;
  return PyObject_Vectorcall(reinterpret_cast<PyObject*>(&PyLong_Type), arguments, static_cast<size_t>(count), nullptr);
}

PyObject* builtin_float(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Value value;
  if (count == 1 && read(arguments[0], value))
    return box(is_floating(value.kind) ? value : convert(value, Kind::float64));
  if (PyObject* const undefined = undefined_among(arguments, count)) return undefined;
  return PyObject_Vectorcall(reinterpret_cast<PyObject*>(&PyFloat_Type), arguments, static_cast<size_t>(count),
                             nullptr);
}

PyObject* builtin_bool(PyObject*, PyObject* argument) {
  const int truth = PyObject_IsTrue(argument);
  return truth < 0 ? nullptr : PyBool_FromLong(truth);
}

PyObject* to_float64(PyObject*, PyObject* argument) {
  return cast(Kind::float64, argument);
}

// Two floats use the GPU's min or max, which ignores a NaN and orders -0 below 0. All else is selected by comparisons
// from the left, in the kind that holds both: numba/cpython/builtins.py, do_minmax.
Value extreme(const Value& a, const Value& b, bool largest) {
  const Kind kind = unified(a.kind, b.kind);
  const Value left = convert(a, kind), right = convert(b, kind);
  const auto by_instruction = [](Kind k) { return k == Kind::float32 || k == Kind::float64; };
  if (by_instruction(a.kind) && by_instruction(b.kind)) {
    const double x = as_double(left), y = as_double(right);
    if (std::isnan(x)) return right;
    if (std::isnan(y)) return left;
    if (x == 0 && y == 0) return std::signbit(x) == largest ? right : left;
  }
  return compare(right, left) == (largest ? 1 : -1) ? right : left;
}

PyObject* extreme_of(PyObject* const* items, Py_ssize_t count, bool largest) {
  if (count == 0) {
    PyErr_Format(PyExc_ValueError, "%s() of nothing", largest ? "max" : "min");
    return nullptr;
  }
  Value result;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Value value;
    if (!read(items[i], value)) {
      PyErr_Format(PyExc_TypeError, "%s() takes numbers, not %s", largest ? "max" : "min", Py_TYPE(items[i])->tp_name);
      return undefined_among(items, count);
    }
    result = i == 0 ? value : extreme(result, value, largest);
  }
  return box(result);
}

template <bool largest>
PyObject* builtin_extreme(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 1) return extreme_of(arguments, count, largest);
  PyObject* items = PySequence_Fast(arguments[0], largest ? "max() takes numbers" : "min() takes numbers");
  if (items == nullptr) return nullptr;
  PyObject* result = extreme_of(PySequence_Fast_ITEMS(items), PySequence_Fast_GET_SIZE(items), largest);
  Py_DECREF(items);
  return result;
}

int64_t round_to_integer(double x) {
  if (std::isnan(x)) return INT64_MIN;
  const double whole = std::nearbyint(x);
  return static_cast<int64_t>(float_to_integer(whole, Kind::float64, Kind::int64));
}

// numba/cuda/cudaimpl.py, round_to_impl.
double round_to_digits(double x, const Value& digits) {
  if (std::isinf(x) || std::isnan(x)) return x;
  const auto power_of_ten = [](int64_t exponent) {
    Value result;
    compute(Operator::pow, of_double(10), of_int(exponent), result);
    return result.d;
  };
  const int64_t places = as_int64(digits);
  double first = power_of_ten(places > 22 ? places - 22 : std::abs(places)), second = places > 22 ? 1e22 : 1.0;
  const double scaled = places >= 0 ? x * first * second : x / first;
  if (places >= 0 && std::isinf(scaled)) return x;
  double rounded = static_cast<double>(round_to_integer(scaled));
  if (std::fabs(scaled - rounded) == 0.5) rounded = 2.0 * static_cast<double>(round_to_integer(scaled / 2.0));
  return places >= 0 ? rounded / second / first : rounded * first;
}

// unified(x, y): converts x to the type of a variable that is assigned numbers of both types.
PyObject* unified_number(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Value values[2];
  if (!read_arguments("unified", arguments, count, 2, values)) return undefined_among(arguments, count);
  return box(convert(values[0], unified(values[0].kind, values[1].kind)));
}

Kind kind_of_type(PyObject* type) {
  const auto* candidate = reinterpret_cast<PyTypeObject*>(type);
  if (candidate >= number_types && candidate < number_types + kind_count)
    return static_cast<Kind>(candidate - number_types);
  PyObject* name = PyObject_GetAttrString(type, "__name__");
  if (name == nullptr) {
    PyErr_Clear();
    name = PyObject_Str(type);
  }
  const char* text = name == nullptr ? nullptr : PyUnicode_AsUTF8(name);
  Kind found = Kind::other;
  for (int i = 0; text != nullptr && i < kind_count; ++i)
    if (std::strcmp(text, kind_name(static_cast<Kind>(i))) == 0) found = static_cast<Kind>(i);
  Py_XDECREF(name);
  PyErr_Clear();
  return found;
}

PyMethodDef functions[] = {
#define TRIFOLD_FAST(name, function, text) \
  {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, text}
    TRIFOLD_FAST("add", operate<Operator::add>, "add(a, b): a + b as the GPU computes it."),
    TRIFOLD_FAST("sub", operate<Operator::sub>, "sub(a, b): a - b as the GPU computes it."),
    TRIFOLD_FAST("mul", operate<Operator::mul>, "mul(a, b): a * b as the GPU computes it."),
    TRIFOLD_FAST("truediv", operate<Operator::truediv>, "truediv(a, b): a / b as the GPU computes it."),
    TRIFOLD_FAST("floordiv", operate<Operator::floordiv>, "floordiv(a, b): a // b as the GPU computes it."),
    TRIFOLD_FAST("mod", operate<Operator::mod>, "mod(a, b): a % b as the GPU computes it."),
    TRIFOLD_FAST("pow", operate<Operator::pow>, "pow(a, b): a ** b as the GPU computes it."),
    TRIFOLD_FAST("lshift", operate<Operator::lshift>, "lshift(a, b): a << b as the GPU computes it."),
    TRIFOLD_FAST("rshift", operate<Operator::rshift>, "rshift(a, b): a >> b as the GPU computes it."),
    TRIFOLD_FAST("bit_and", operate<Operator::bit_and>, "bit_and(a, b): a & b as the GPU computes it."),
    TRIFOLD_FAST("bit_or", operate<Operator::bit_or>, "bit_or(a, b): a | b as the GPU computes it."),
    TRIFOLD_FAST("bit_xor", operate<Operator::bit_xor>, "bit_xor(a, b): a ^ b as the GPU computes it."),
    TRIFOLD_FAST("round", builtin_round, "round(x[, digits]), half to even."),
    TRIFOLD_FAST("divmod", builtin_divmod, "divmod(a, b) as the GPU computes it."),
    TRIFOLD_FAST("int", builtin_int, "int(x): an integer keeps its type, a float becomes int64."),
    TRIFOLD_FAST("float", builtin_float, "float(x): a float keeps its type, an integer becomes float64."),
    TRIFOLD_FAST("min", builtin_extreme<false>, "min(a, b, ...) or min(tuple)."),
    TRIFOLD_FAST("max", builtin_extreme<true>, "max(a, b, ...) or max(tuple)."),
    TRIFOLD_FAST("unified", unified_number, "unified(x, y): x as the one type of a variable that takes both."),
    TRIFOLD_FAST("view", view, "view(x, type): the bits of x as another type of the same size."),
#undef TRIFOLD_FAST
    {"neg", operate_on<negate, PyNumber_Negative>, METH_O, "neg(a): -a as the GPU computes it."},
    {"pos", operate_on<keep_sign, PyNumber_Positive>, METH_O, "pos(a): +a as the GPU computes it."},
    {"invert", operate_on<invert, PyNumber_Invert>, METH_O, "invert(a): ~a as the GPU computes it."},
    {"abs", builtin_abs, METH_O, "abs(x), of x's own type."},
    {"boolean", builtin_bool, METH_O, "bool(x)."},
    {"float64", to_float64, METH_O, "float64(x): a Python float."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool read_arguments(const char* function, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t expected,
                    Value* values) {
  if (!expect(function, count, expected)) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (read(arguments[i], values[i])) continue;
    PyErr_Format(PyExc_TypeError, "%s() takes numbers, not %s", function, Py_TYPE(arguments[i])->tp_name);
    return false;
  }
  return true;
}

PyObject* pair(PyObject* first, PyObject* second) {
  PyObject* both = first == nullptr || second == nullptr ? nullptr : PyTuple_Pack(2, first, second);
  Py_XDECREF(first);
  Py_XDECREF(second);
  return both;
}

PyObject* cast(Kind kind, PyObject* object) {
  Value value;
  if (read(object, value)) return box(convert(value, kind));
  PyErr_Format(PyExc_TypeError, "%s() takes a number, not %s", kind_name(kind), Py_TYPE(object)->tp_name);
  return undefined_among(&object, 1);
}

PyObject* numpy_dtype(Kind kind) {
  PyObject* numpy = PyImport_ImportModule("numpy");
  if (numpy == nullptr) return nullptr;
  PyObject* dtype = PyObject_CallMethod(numpy, "dtype", "s", kind_name(kind));
  Py_DECREF(numpy);
  return dtype;
}

PyObject* builtin_round(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Value values[2];
  const bool to_digits = count == 2 && arguments[1] != Py_None;
  if (!read_arguments("round", arguments, count == 2 && !to_digits ? 1 : count, to_digits ? 2 : 1, values))
    return undefined_among(arguments, count);
  const bool single = promotes_to_float32(values[0].kind);
  const double x = single ? as_float(values[0]) : as_double(values[0]);
  if (!to_digits) return make_int64(round_to_integer(x));
  const double rounded = round_to_digits(x, values[1]);
  return single ? make_float32(static_cast<float>(rounded)) : PyFloat_FromDouble(rounded);
}

PyObject* view(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Value value;
  if (!expect("view", count, 2)) return nullptr;
  const Kind kind = kind_of_type(arguments[1]);
  if (!read(arguments[0], value) || kind == Kind::other || item_size(kind) != item_size(value.kind)) {
    PyErr_Format(PyExc_TypeError, "view() takes a number and a type of the same size, not %s and %R",
                 Py_TYPE(arguments[0])->tp_name, arguments[1]);
    return nullptr;
  }
  char bytes[sizeof(uint64_t)];
  store_value(value.kind, bytes, value);
  return load(kind, bytes);
}

int add_functions(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 ? add_device_functions(module) : -1;
}

}  // namespace trifold::simulator
