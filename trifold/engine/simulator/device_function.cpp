#include "device_function.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "array.h"
#include "functions.h"
#include "typing.h"
#include "undefined.h"

namespace trifold::simulator {
namespace {

constexpr int most_arguments = 4;

struct DeviceFunction {
  PyObject_HEAD vectorcallfunc call;
  const Row* row;
};

const Row& row_of(PyObject* function) {
  return *reinterpret_cast<DeviceFunction*>(function)->row;
}

const char* arguments_of(const Row& row) {
  const char* colon = std::strchr(row.signature, ':');
  return colon == nullptr ? row.signature : colon + 1;
}

Py_ssize_t argument_count(const Row& row) {
  const char* arguments = arguments_of(row);
  return row.typing == Typing::fixed ? static_cast<Py_ssize_t>(std::strlen(arguments)) : *arguments - '0';
}

// The float that the arguments are converted to if the row's typing chooses a common one.
Kind common_kind(Typing typing, const Value* values, Py_ssize_t count) {
  const Kind a = values[0].kind, b = values[count - 1].kind;
  switch (typing) {
    case Typing::real_or_half:
      if (a == Kind::float16) return a;
      [[fallthrough]];
    case Typing::real: return a == Kind::float16 || a == Kind::float32 ? Kind::float32 : Kind::float64;
    case Typing::joined_integers:
      if (is_integer(a) && is_integer(b)) return Kind::float64;
      [[fallthrough]];
    case Typing::joined: {
      Kind kind = float_result(a, a, false);
      for (Py_ssize_t i = 1; i < count; ++i) kind = float_result(kind, values[i].kind, false);
      return kind;
    }
    default: return numpy_float(a, b);
  }
}

int compute_reals(const Row& row, Kind kind, const Value* values, Value* results) {
  const double x = as_double(convert(values[0], kind));
  const double y = row.binary == nullptr ? row.unary(x) : row.binary(x, as_double(convert(values[1], kind)));
  results[0] = convert(of_double(y), kind);
  return 1;
}

int compute_fixed(const Row& row, Value* values, Py_ssize_t count, Value* results) {
  const char* arguments = arguments_of(row);
  for (Py_ssize_t i = 0; i < count; ++i) values[i] = convert(values[i], kind_of_letter(arguments[i]));
  int made = 0;
  for (const char* letter = row.signature; *letter != ':'; ++letter) results[made++].kind = kind_of_letter(*letter);
  if (row.general != nullptr) return row.general(row, values, results), made;
  return compute_reals(row, results[0].kind, values, results);
}

PyObject* box_results(const Value* results, int count) {
  if (count == 1) return box(results[0]);
  PyObject* tuple = PyTuple_New(count);
  for (int i = 0; tuple != nullptr && i < count; ++i) {
    PyObject* item = box(results[i]);
    if (item == nullptr)
      Py_CLEAR(tuple);
    else
      PyTuple_SET_ITEM(tuple, i, item);
  }
  return tuple;
}

// For np.sin(x, out) of whole arrays calls NumPy's function: an Array checks each element. If no argument is an array,
// null with the exception already set.
PyObject* call_on_arrays(const Row& row, PyObject* const* arguments, Py_ssize_t count) {
  constexpr std::string_view module = "numpy.";
  if (!std::string_view(row.name).starts_with(module) || std::none_of(arguments, arguments + count, is_array)) {
    return nullptr;
  }
  PyErr_Clear();
  const Object numpy(PyImport_ImportModule("numpy"));
  const Object function(numpy ? PyObject_GetAttrString(numpy.get(), row.name + module.size()) : nullptr);
  return function ? PyObject_Vectorcall(function.get(), arguments, static_cast<size_t>(count), nullptr) : nullptr;
}

PyObject* call(PyObject* self, PyObject* const* arguments, size_t flagged, PyObject* keywords) {
  const Row& row = row_of(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  if (keywords != nullptr && PyTuple_GET_SIZE(keywords) > 0) {
    PyErr_Format(PyExc_TypeError, "%s() takes no keyword arguments", row.name);
    return nullptr;
  }
  Value values[most_arguments], results[most_arguments];
  if (!read_arguments(row.name, arguments, count, argument_count(row), values)) {
    PyObject* const result = call_on_arrays(row, arguments, count);
    return result != nullptr ? result : undefined_among(arguments, count);
  }
  switch (row.typing) {
    case Typing::fixed: return box_results(results, compute_fixed(row, values, count, results));
    case Typing::as_given: return box_results(results, row.general(row, values, results));
    default: compute_reals(row, common_kind(row.typing, values, count), values, results); return box(results[0]);
  }
}

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("<device function %s>", row_of(self).name);
}

PyObject* name(PyObject* self, void*) {
  return PyUnicode_FromString(std::strchr(row_of(self).name, '.') + 1);
}

// Results and arguments as letters; None if the arguments' types choose.
PyObject* signature(PyObject* self, void*) {
  const Row& row = row_of(self);
  if (row.typing != Typing::fixed) Py_RETURN_NONE;
  return PyUnicode_FromString(row.signature);
}

PyGetSetDef attributes[] = {
    {"__name__", name, nullptr, nullptr, nullptr},
    {"signature", signature, nullptr, "Letters of the types of results and arguments, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject make_type() {
  static const PyVarObject head[] = {PyVarObject_HEAD_INIT(nullptr, 0)};
  PyTypeObject type{};
  type.ob_base = head[0];
  type.tp_name = "trifold._simulator.DeviceFunction";
  type.tp_basicsize = sizeof(DeviceFunction);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_vectorcall_offset = offsetof(DeviceFunction, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_repr = repr;
  type.tp_getset = attributes;
  return type;
}

PyTypeObject function_type = make_type();

int add_row(PyObject* functions, const Row& row) {
  auto* function = PyObject_New(DeviceFunction, &function_type);
  if (function == nullptr) return -1;
  function->call = call;
  function->row = &row;
  const int status = PyDict_SetItemString(functions, row.name, reinterpret_cast<PyObject*>(function));
  Py_DECREF(function);
  return status;
}

}  // namespace

Kind kind_of_letter(char letter) {
  switch (letter) {
    case 'e': return Kind::float16;
    case 'f': return Kind::float32;
    case 'd': return Kind::float64;
    case 'b': return Kind::boolean;
    case 'h': return Kind::int16;
    case 'i': return Kind::int32;
    case 'l': return Kind::int64;
    case 'I': return Kind::uint32;
    default: return Kind::uint64;
  }
}

int add_device_functions(PyObject* module) {
  if (PyType_Ready(&function_type) != 0) return -1;
  PyObject* functions = PyDict_New();
  if (functions == nullptr) return -1;
  int status = 0;
  for (const auto rows : {math_rows(), numpy_rows(), cuda_rows(), libdevice_rows(), rounding_rows()})
    for (const Row& row : rows)
      if (status == 0) status = add_row(functions, row);
  if (status == 0) status = PyModule_AddObjectRef(module, "functions", functions);
  Py_DECREF(functions);
  return status;
}

}  // namespace trifold::simulator
