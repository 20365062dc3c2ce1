#include "array_request.h"

#include <array>
#include <bit>
#include <string>
#include <utility>

namespace trifold::simulator {
namespace {

using Given = std::array<PyObject*, 3>;  // shape, dtype, alignment

// The results of the last few calls: a kernel's threads make the same calls with the same objects.
struct Known {
  Given given{};  // owned
  ArrayRequest request;
};
std::array<Known, 64> known;

bool append_extent(PyObject* object, std::vector<Py_ssize_t>& shape) {
  int64_t extent = 0;
  if (!read_index(object, extent)) {
    PyErr_Format(PyExc_TypeError, "the shape of an array is an integer or a tuple of integers, not %R", object);
    return false;
  }
  if (extent < 0) {
    PyErr_Format(PyExc_ValueError, "the shape of an array has a negative extent, %lld", static_cast<long long>(extent));
    return false;
  }
  shape.push_back(static_cast<Py_ssize_t>(extent));
  return true;
}

bool read_shape(PyObject* object, std::vector<Py_ssize_t>& shape) {
  if (!PyTuple_Check(object)) return append_extent(object, shape);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (!append_extent(PyTuple_GET_ITEM(object, i), shape)) return false;
  }
  return true;
}

// As Numba's compiled code checks it.
bool read_alignment(PyObject* object, size_t& alignment) {
  if (object == nullptr || object == Py_None) return true;
  int64_t value = 0;
  const char* problem = nullptr;
  if (!read_index(object, value) || PyBool_Check(object)) {
    problem = "Alignment must be an integer";
  } else if (value <= 0) {
    problem = "Alignment must be positive";
  } else if (!std::has_single_bit(static_cast<uint64_t>(value))) {
    problem = "Alignment must be a power of 2";
  } else if (value % 8 != 0) {
    problem = "Alignment must be a multiple of 8";  // the size of a pointer
  }
  if (problem != nullptr) {
    PyErr_SetString(PyExc_ValueError, problem);
    return false;
  }
  alignment = static_cast<size_t>(value);
  return true;
}

// The call's objects, by position or by name; false with an exception.
bool place(const char* function, PyObject* arguments, PyObject* keywords, Given& given) {
  static const char* names[] = {"shape", "dtype", "alignment", nullptr};
  if (keywords == nullptr && PyTuple_GET_SIZE(arguments) == 2) {
    given = {PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_ITEM(arguments, 1), nullptr};
    return true;
  }
  const std::string format = std::string("OO|O:") + function;
  return PyArg_ParseTupleAndKeywords(arguments, keywords, format.c_str(), const_cast<char**>(names), &given[0],
                                     &given[1], &given[2]) != 0;
}

bool describe(const Given& given, ArrayRequest& request) {
  static uint64_t readings = 0;
  if (!read_shape(given[0], request.shape) || !element_type(given[1], request.type)) return false;
  if (!read_alignment(given[2], request.alignment)) return false;
  request.bytes = static_cast<size_t>(request.type.size);
  for (const Py_ssize_t extent : request.shape) request.bytes *= static_cast<size_t>(extent);
  request.number = ++readings;
  return true;
}

}  // namespace

const ArrayRequest* read_request(const char* function, PyObject* arguments, PyObject* keywords) {
  Given given{};
  if (!place(function, arguments, keywords, given)) return nullptr;
  const auto hash = reinterpret_cast<uintptr_t>(given[0]) / 16 + reinterpret_cast<uintptr_t>(given[1]) / 64;
  Known& entry = known[hash % known.size()];
  if (entry.given == given) return &entry.request;
  ArrayRequest request;
  if (!describe(given, request)) return nullptr;
  for (PyObject* const object : given) Py_XINCREF(object);
  for (PyObject* const object : entry.given) Py_XDECREF(object);
  entry = {given, std::move(request)};
  return &entry.request;
}

}  // namespace trifold::simulator
