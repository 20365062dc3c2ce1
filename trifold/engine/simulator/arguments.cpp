// A launch's arguments: NumPy arrays become Arrays, and those whose bytes overlap share one Memory.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "fresh.h"
#include "writes.h"

namespace trifold::simulator {
namespace {

// Bits of wrap_arguments' flags.
enum ArgumentFlag : long {
  flag_bfloat16 = 1,       // its 16-bit integers are the bits of bfloat16
  flag_uninitialised = 2,  // unwritten
  flag_constant = 4,       // constant memory
  flag_read_only = 8,
  flag_filled = 16,  // elements that still hold the pattern of trifold/simulator/uninitialised.py are unwritten
};

struct Argument {
  Py_ssize_t position = 0;
  PyObject* value = nullptr;  // borrowed
  PyObject* name = nullptr;   // borrowed
  long flags = 0;
  char* data = nullptr;
  char* low = nullptr;   // of its bytes: begin
  char* high = nullptr;  // of its bytes: end
  ElementType type;
  std::vector<Py_ssize_t> shape, strides;
  bool writable = true;
};

// Reads NumPy's array interface, for element types without a buffer (datetime64).
bool read_interface(Argument& argument) {
  const Object interface(PyObject_GetAttrString(argument.value, "__array_interface__"));
  const Object strides(PyObject_GetAttrString(argument.value, "strides"));
  PyObject* const data = interface ? PyDict_GetItemString(interface.get(), "data") : nullptr;
  PyObject* const shape = interface ? PyDict_GetItemString(interface.get(), "shape") : nullptr;
  if (data == nullptr || shape == nullptr || !strides) return false;
  argument.data = static_cast<char*>(PyLong_AsVoidPtr(PyTuple_GetItem(data, 0)));
  argument.writable = PyTuple_GetItem(data, 1) == Py_False;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
    argument.shape.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i)));
    argument.strides.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(strides.get(), i)));
  }
  return PyErr_Occurred() == nullptr;
}

bool read_buffer(Argument& argument) {
  Py_buffer view;
  if (PyObject_GetBuffer(argument.value, &view, PyBUF_STRIDED_RO) != 0) {
    PyErr_Clear();
    return read_interface(argument);
  }
  argument.data = static_cast<char*>(view.buf);
  argument.writable = view.readonly == 0;
  argument.shape.assign(view.shape, view.shape + view.ndim);
  argument.strides.assign(view.strides, view.strides + view.ndim);
  PyBuffer_Release(&view);  // the array does not move while it is referenced
  return true;
}

bool read_array(Argument& argument) {
  const Object dtype(PyObject_GetAttrString(argument.value, "dtype"));
  if (!dtype || !element_type(dtype.get(), argument.type) || !read_buffer(argument)) return false;
  if (argument.shape.size() > max_dimensions) {
    PyErr_Format(PyExc_TypeError, "argument %S has %zd axes: a kernel takes arrays of at most %d", argument.name,
                 argument.shape.size(), max_dimensions);
    return false;
  }
  if ((argument.flags & flag_bfloat16) != 0) argument.type.kind = Kind::bfloat16;
  argument.low = argument.high = argument.data;
  bool empty = false;
  for (size_t axis = 0; axis < argument.shape.size(); ++axis) {
    const Py_ssize_t reach = (argument.shape[axis] - 1) * argument.strides[axis];
    (reach < 0 ? argument.low : argument.high) += reach;
    empty = empty || argument.shape[axis] == 0;
  }
  if (empty) argument.low = argument.high = argument.data;
  if (!empty) argument.high += argument.type.size;
  return true;
}

// Constant memory cannot be written, so it needs neither a shadow nor a common Memory.
engine::Space space_of(const Argument& argument) {
  return (argument.flags & flag_constant) != 0 ? engine::Space::constant : engine::Space::global;
}

// The width of a cell: the smallest element, and no more than the addresses' common alignment.
size_t cell_width(std::span<Argument> group) {
  size_t bits = 64;
  for (const Argument& argument : group) {
    bits |= static_cast<size_t>(argument.type.size) | static_cast<size_t>(argument.low - group[0].low);
  }
  return size_t{1} << std::countr_zero(bits);
}

// The pattern with which uninitialised.py fills an element.
std::string pattern_of(const ElementType& type) {
  const Object kind(PyObject_GetAttrString(type.dtype, "kind"));
  const Py_UCS4 letter = kind ? PyUnicode_ReadChar(kind.get(), 0) : 0;
  const Py_ssize_t part = letter == 'c' ? type.size / 2 : type.size;
  std::string pattern(static_cast<size_t>(type.size), static_cast<char>(0xCB));
  if ((letter != 'c' && letter != 'f') || (part != 4 && part != 8)) return pattern;
  for (Py_ssize_t end = part; end <= type.size; end += part) {
    pattern[static_cast<size_t>(end - 1)] = 0x7F;
    if (part == 8) pattern[static_cast<size_t>(end - 2)] = static_cast<char>(0xFB);
  }
  return pattern;
}

// Elements that no longer hold the pattern have been written. Of a few bytes it may be a value, which then counts as
// unwritten.
void note_written(const Argument& argument, engine::Buffer& buffer) {
  const std::string pattern = pattern_of(argument.type);
  for_each_element(argument.data, argument.shape, argument.strides, [&](char* p) {
    const bool unwritten = pattern.size() >= 4 && memcmp(p, pattern.data(), pattern.size()) == 0;
    if (!unwritten) buffer.note_written(reinterpret_cast<uintptr_t>(p), pattern.size());
    return 0;
  });
}

Object memory_of(std::span<Argument> group, long checks) {
  auto* const memory = PyObject_New(Memory, &memory_type);
  if (memory == nullptr) return Object();
  Object result(reinterpret_cast<PyObject*>(memory));
  char* end = group[0].high;
  bool initialised = false;
  for (const Argument& argument : group) {
    end = std::max(end, argument.high);
    initialised = initialised || (argument.flags & (flag_uninitialised | flag_filled)) == 0;
  }
  memory->begin = group[0].low;
  memory->size = static_cast<size_t>(end - group[0].low);
  memory->space = space_of(group[0]);
  memory->read_only = !std::ranges::any_of(group, &Argument::writable);
  memory->allocated = false;
  memory->buffer = nullptr;
  memory->owner = PyTuple_New(static_cast<Py_ssize_t>(group.size()));
  if (memory->owner == nullptr) return Object();
  for (size_t i = 0; i < group.size(); ++i) {
    PyTuple_SET_ITEM(memory->owner, static_cast<Py_ssize_t>(i), Py_NewRef(group[i].value));
  }
  const bool races = (checks & engine::check_race) != 0;
  std::vector<engine::ByteRange> unwritten;
  if ((checks & engine::check_uninitialised) != 0 && initialised && memory->space == engine::Space::global) {
    const auto begin = reinterpret_cast<uintptr_t>(memory->begin);
    unwritten = fresh_memory().unwritten(begin, begin + memory->size);
    initialised = unwritten.empty();
  }
  const bool reads = (checks & engine::check_uninitialised) != 0 && !initialised;
  const bool wanted = races || reads || records_writes();
  const bool watched = memory->space == engine::Space::global && memory->size > 0 && wanted;
  if (watched && !watch(memory, cell_width(group), initialised)) return Object();
  if (!unwritten.empty()) memory->buffer->note_written_beside(unwritten);
  for (const Argument& argument : group) {
    if (watched && reads && (argument.flags & flag_filled) != 0) note_written(argument, *memory->buffer);
  }
  return result;
}

bool wrap_group(std::span<Argument> group, long checks, PyObject* result) {
  const Object memory = memory_of(group, checks);
  if (!memory) return false;
  for (const Argument& argument : group) {
    PyObject* const object = new_array(reinterpret_cast<Memory*>(memory.get()), argument.type, argument.data,
                                       argument.shape, argument.strides, nullptr);
    if (object == nullptr) return false;
    Array* const array = as_array(object);
    array->read_only = !argument.writable || (argument.flags & (flag_constant | flag_read_only)) != 0;
    array->name = Py_NewRef(argument.name);
    if ((argument.flags & flag_bfloat16) == 0) array->base = Py_NewRef(argument.value);
    PyTuple_SetItem(result, argument.position, object);
  }
  return true;
}

bool wrap_all(std::vector<Argument>& arguments, long checks, PyObject* result) {
  const auto order = [](const Argument& argument) {
    return std::pair(space_of(argument), reinterpret_cast<uintptr_t>(argument.low));
  };
  std::ranges::stable_sort(arguments, {}, order);
  for (size_t first = 0; first < arguments.size();) {
    char* end = arguments[first].high;
    size_t last = first + 1;
    for (; last < arguments.size() && arguments[last].low < end; ++last) {
      if (space_of(arguments[last]) != space_of(arguments[first])) break;
      end = std::max(end, arguments[last].high);
    }
    if (!wrap_group(std::span(arguments).subspan(first, last - first), checks, result)) return false;
    first = last;
  }
  return true;
}

PyTypeObject* ndarray() {
  static PyObject* const type = [] {
    const Object numpy(PyImport_ImportModule("numpy"));
    return numpy ? PyObject_GetAttrString(numpy.get(), "ndarray") : nullptr;
  }();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

PyObject* constant_array(PyObject* numpy_array) {
  const Object name(PyUnicode_FromString(""));
  const Object result(PyTuple_New(1));
  std::vector<Argument> one(1);
  one[0].value = numpy_array;
  one[0].name = name.get();
  one[0].flags = flag_constant;
  if (!name || !result || !read_array(one[0]) || !wrap_all(one, 0, result.get())) return nullptr;
  Array* const array = as_array(PyTuple_GET_ITEM(result.get(), 0));
  Py_CLEAR(array->name);
  return Py_NewRef(reinterpret_cast<PyObject*>(array));
}

std::set<engine::Buffer*> buffers_of(PyObject* wrapped) {
  std::set<engine::Buffer*> buffers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wrapped); ++i) {
    PyObject* const argument = PyTuple_GET_ITEM(wrapped, i);
    if (is_array(argument) && as_array(argument)->buffer != nullptr) buffers.insert(as_array(argument)->buffer);
  }
  return buffers;
}

PyObject* wrap_arguments(PyObject*, PyObject* all) {
  PyObject *names = nullptr, *values = nullptr, *flags = nullptr;
  long checks = 0;
  if (PyArg_ParseTuple(all, "O!O!O!l:wrap_arguments", &PyTuple_Type, &names, &PyTuple_Type, &values, &PyTuple_Type,
                       &flags, &checks) == 0) {
    return nullptr;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(values);
  if (PyTuple_GET_SIZE(names) != count || PyTuple_GET_SIZE(flags) != count) {
    PyErr_SetString(PyExc_ValueError, "names, values and flags have different lengths");
    return nullptr;
  }
  PyTypeObject* const array_class = ndarray();
  Object result(PyTuple_New(count));
  if (array_class == nullptr || !result) return nullptr;
  std::vector<Argument> arguments;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const value = PyTuple_GET_ITEM(values, i);
    if (!PyObject_TypeCheck(value, array_class)) {
      PyTuple_SET_ITEM(result.get(), i, Py_NewRef(value));
      continue;
    }
    Argument& argument = arguments.emplace_back();
    argument.position = i;
    argument.value = value;
    argument.name = PyTuple_GET_ITEM(names, i);
    argument.flags = PyLong_AsLong(PyTuple_GET_ITEM(flags, i));
    if (PyErr_Occurred() != nullptr || !read_array(argument)) return nullptr;
  }
  return wrap_all(arguments, checks, result.get()) ? result.release() : nullptr;
}

}  // namespace trifold::simulator
