// Attributes and methods of Arrays, and their conversion to NumPy's.
#include <algorithm>
#include <cstring>
#include <vector>

#include "array.h"

namespace trifold::simulator {
namespace {

using engine::AccessType;

Object tuple_of(std::span<const Py_ssize_t> values) {
  Object tuple(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; tuple && i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromSsize_t(values[i]));
  }
  return tuple;
}

PyObject* derived(Array* array, const ElementType& type, char* data, std::span<const Py_ssize_t> shape,
                  std::span<const Py_ssize_t> strides) {
  Array* const root = array->root != nullptr ? array->root : array;
  PyObject* const object = new_array(array->memory, type, data, shape, strides, root);
  if (object != nullptr) as_array(object)->read_only = array->read_only;
  return object;
}

PyObject* get_shape(PyObject* object, void*) {
  Array* const array = as_array(object);
  if (array->shape_tuple == nullptr) array->shape_tuple = tuple_of(array->shape()).release();
  return Py_XNewRef(array->shape_tuple);
}

PyObject* get_strides(PyObject* object, void*) {
  return tuple_of(as_array(object)->strides()).release();
}
PyObject* get_size(PyObject* object, void*) {
  return PyLong_FromSsize_t(element_count(*as_array(object)));
}
PyObject* get_ndim(PyObject* object, void*) {
  return PyLong_FromLong(as_array(object)->ndim);
}
PyObject* get_dtype(PyObject* object, void*) {
  return Py_NewRef(as_array(object)->type.dtype);
}
PyObject* get_itemsize(PyObject* object, void*) {
  return PyLong_FromSsize_t(as_array(object)->type.size);
}

PyObject* get_nbytes(PyObject* object, void*) {
  return PyLong_FromSsize_t(element_count(*as_array(object)) * as_array(object)->type.size);
}

PyObject* transposed(Array* array, std::span<const int> axes) {
  std::vector<Py_ssize_t> shape, strides;
  for (const int axis : axes) {
    shape.push_back(array->extents[axis]);
    strides.push_back(array->extents[array->ndim + axis]);
  }
  return derived(array, array->type, array->data, shape, strides);
}

PyObject* get_transposed(PyObject* object, void*) {
  Array* const array = as_array(object);
  std::vector<int> axes;
  for (int axis = array->ndim - 1; axis >= 0; --axis) axes.push_back(axis);
  return transposed(array, axes);
}

// The real (0) or imaginary (1) parts of a complex array.
PyObject* get_part(PyObject* object, void* which) {
  Array* const array = as_array(object);
  const Object kind(PyObject_GetAttrString(array->type.dtype, "kind"));
  if (!kind) return nullptr;
  if (PyUnicode_CompareWithASCIIString(kind.get(), "c") != 0) {
    if (which == nullptr) return Py_NewRef(object);
    PyErr_Format(PyExc_AttributeError, "array %s is not complex: it has no imaginary part", name_of(array).c_str());
    return nullptr;
  }
  const Object part(PyUnicode_FromFormat("float%zd", array->type.size * 4));
  const Object numpy(PyImport_ImportModule("numpy"));
  const Object dtype(part && numpy ? PyObject_CallMethod(numpy.get(), "dtype", "O", part.get()) : nullptr);
  ElementType type;
  if (!dtype || !element_type(dtype.get(), type)) return nullptr;
  char* const data = array->data + (which == nullptr ? 0 : type.size);
  return derived(array, type, data, array->shape(), array->strides());
}

int check_elements(PyObject* object, AccessType type) {
  if (!is_array(object) || at_prompt()) return 0;
  Array* const array = as_array(object);
  if (type == AccessType::write && array->read_only) return refuse_write(array);
  return for_each_element(array->data, array->shape(), array->strides(),
                          [&](char* p) { return check_access(array, p, static_cast<size_t>(array->type.size), type); });
}

// A copy of the elements in the thread's local memory.
PyObject* copied(PyObject* object, PyObject*) {
  Array* const array = as_array(object);
  if (check_elements(object, AccessType::read) != 0) return nullptr;
  const auto size = static_cast<size_t>(array->type.size);
  const auto alignment = static_cast<size_t>(array->type.alignment);
  const Object memory(new_memory(engine::Space::local, size * static_cast<size_t>(element_count(*array)), alignment));
  if (!memory) return nullptr;
  auto* const bytes = reinterpret_cast<Memory*>(memory.get());
  char* next = bytes->begin;
  for_each_element(array->data, array->shape(), array->strides(), [&](const char* p) {
    memcpy(next, p, size);
    next += size;
    return 0;
  });
  const std::vector<Py_ssize_t> strides = contiguous_strides(array->shape(), array->type.size);
  return new_array(bytes, array->type, bytes->begin, array->shape(), strides, nullptr);
}

// A C-contiguous array viewed with another shape.
PyObject* reshaped(Array* array, std::vector<Py_ssize_t> shape) {
  const Py_ssize_t count = element_count(*array);
  Py_ssize_t known = 1;
  for (const Py_ssize_t extent : shape) known *= extent < 0 ? 1 : extent;
  if (std::ranges::count_if(shape, [](Py_ssize_t extent) { return extent < 0; }) == 1 && known != 0) {
    *std::ranges::find_if(shape, [](Py_ssize_t extent) { return extent < 0; }) = count / known;
    known *= count / known;
  }
  if (known != count) {
    PyErr_Format(PyExc_ValueError, "array %s of %zd elements cannot have a shape of %zd", name_of(array).c_str(), count,
                 known);
    return nullptr;
  }
  if (!is_contiguous(*array)) {
    PyErr_Format(PyExc_NotImplementedError, "incompatible shape for array %s: only a C-contiguous array is reshaped",
                 name_of(array).c_str());
    return nullptr;
  }
  return derived(array, array->type, array->data, shape, contiguous_strides(shape, array->type.size));
}

// Integers passed separately or as one tuple.
bool read_integers(Array* array, PyObject* arguments, std::vector<Py_ssize_t>& integers) {
  PyObject* all = arguments;
  if (PyTuple_GET_SIZE(arguments) == 1 && PyTuple_Check(PyTuple_GET_ITEM(arguments, 0))) {
    all = PyTuple_GET_ITEM(arguments, 0);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all); ++i) {
    if (!index_of(array, PyTuple_GET_ITEM(all, i), integers.emplace_back())) return false;
  }
  return true;
}

PyObject* reshape(PyObject* object, PyObject* arguments) {
  std::vector<Py_ssize_t> shape;
  return read_integers(as_array(object), arguments, shape) ? reshaped(as_array(object), shape) : nullptr;
}

PyObject* ravel(PyObject* object, PyObject*) {
  return reshaped(as_array(object), {element_count(*as_array(object))});
}

PyObject* get_flat(PyObject* object, void*) {
  return ravel(object, nullptr);
}

PyObject* transpose(PyObject* object, PyObject* arguments) {
  Array* const array = as_array(object);
  std::vector<Py_ssize_t> wanted;
  if (!read_integers(array, arguments, wanted)) return nullptr;
  if (wanted.empty()) return get_transposed(object, nullptr);
  std::vector<int> axes;
  for (const Py_ssize_t axis : wanted) axes.push_back(static_cast<int>(axis < 0 ? axis + array->ndim : axis));
  std::vector<int> sorted = axes;
  std::ranges::sort(sorted);
  for (int axis = 0; axis < static_cast<int>(sorted.size()); ++axis) {
    if (sorted[static_cast<size_t>(axis)] == axis && sorted.size() == static_cast<size_t>(array->ndim)) continue;
    PyErr_Format(PyExc_ValueError, "transpose of array %s names each of its %d axes once", name_of(array).c_str(),
                 array->ndim);
    return nullptr;
  }
  return transposed(array, axes);
}

// The same bytes viewed as another type; the length of the last axis, which is contiguous, changes.
PyObject* view(PyObject* object, PyObject* named) {
  Array* const array = as_array(object);
  ElementType type;
  if (!element_type(named, type)) return nullptr;
  std::vector<Py_ssize_t> shape(array->shape().begin(), array->shape().end());
  std::vector<Py_ssize_t> strides(array->strides().begin(), array->strides().end());
  if (type.size != array->type.size) {
    const bool contiguous = !shape.empty() && (strides.back() == array->type.size || shape.back() == 1);
    if (!contiguous || shape.back() * array->type.size % type.size != 0) {
      PyErr_Format(PyExc_ValueError,
                   "new type %R not compatible with array %s: its last axis is not contiguous, or "
                   "its bytes are not a multiple of the new size",
                   named, name_of(array).c_str());
      return nullptr;
    }
    shape.back() = shape.back() * array->type.size / type.size;
    strides.back() = type.size;
  }
  if (reinterpret_cast<uintptr_t>(array->data) % static_cast<uintptr_t>(type.alignment) != 0 &&
      engine::current != nullptr && !goes_on_misaligned(array, type)) {
    return nullptr;
  }
  return derived(array, type, array->data, shape, strides);
}

PyObject* fill(PyObject* object, PyObject* value) {
  return assign_view(as_array(object), Py_Ellipsis, value) == 0 ? Py_NewRef(Py_None) : nullptr;
}

PyObject* item(PyObject* object, PyObject* arguments) {
  Array* const array = as_array(object);
  if (PyTuple_GET_SIZE(arguments) != 0) return PyObject_GetItem(object, arguments);
  if (element_count(*array) != 1) {
    PyErr_SetString(PyExc_ValueError, "item() without an index wants an array of one element");
    return nullptr;
  }
  return read_element(array, array->data);
}

// For a debugger's prompt: no checks.
PyObject* to_numpy(PyObject* object, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"dtype", "copy", nullptr};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO", const_cast<char**>(names), &dtype, &copy) == 0) {
    return nullptr;
  }
  Object values = for_numpy(object);
  if (!values || dtype == Py_None) return values.release();
  return PyObject_CallMethod(values.get(), "astype", "O", dtype);
}

PyObject* get_interface(PyObject* object, void*) {
  const Object values = for_numpy(object);
  return values ? PyObject_GetAttrString(values.get(), "__array_interface__") : nullptr;
}

Object all_for_numpy(PyObject* tuple, AccessType type) {
  Object result(PyTuple_New(PyTuple_GET_SIZE(tuple)));
  for (Py_ssize_t i = 0; result && i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* const one = PyTuple_GET_ITEM(tuple, i);
    Object plain = check_elements(one, type) == 0 ? for_numpy(one) : Object();
    if (!plain) return Object();
    PyTuple_SET_ITEM(result.get(), i, plain.release());
  }
  return result;
}

// np.sin(x, out) and the like: in a kernel each element is checked, and an output array is required.
PyObject* array_ufunc(PyObject*, PyObject* arguments, PyObject* keywords) {
  if (PyTuple_GET_SIZE(arguments) < 2) {
    PyErr_SetString(PyExc_TypeError, "__array_ufunc__ takes a function and a method");
    return nullptr;
  }
  PyObject* const out = keywords == nullptr ? nullptr : PyDict_GetItemString(keywords, "out");
  if (out == nullptr && engine::current != nullptr && !at_prompt()) {
    PyErr_Format(PyExc_TypeError, "%R makes a new array, which a kernel cannot: name the output as its last argument",
                 PyTuple_GET_ITEM(arguments, 0));
    return nullptr;
  }
  const Object operands(PyTuple_GetSlice(arguments, 2, PyTuple_GET_SIZE(arguments)));
  const Object inputs = operands ? all_for_numpy(operands.get(), AccessType::read) : Object();
  const Object call(PyObject_GetAttr(PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_ITEM(arguments, 1)));
  const Object options(keywords == nullptr ? PyDict_New() : PyDict_Copy(keywords));
  if (!inputs || !call || !options) return nullptr;
  if (out != nullptr) {
    const Object outputs = all_for_numpy(out, AccessType::write);
    if (!outputs || PyDict_SetItemString(options.get(), "out", outputs.get()) != 0) return nullptr;
    ++engine::changes;
  }
  return PyObject_Call(call.get(), inputs.get(), options.get());
}

PyCFunction with_keywords(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace

PyMethodDef array_methods[] = {
    {"reshape", reshape, METH_VARARGS, "A view of another shape."},
    {"ravel", ravel, METH_NOARGS, "A view with one axis."},
    {"flatten", ravel, METH_NOARGS, "A view with one axis."},
    {"transpose", transpose, METH_VARARGS, "A view with its axes in another order."},
    {"view", view, METH_O, "A view of the bytes as another type."},
    {"fill", fill, METH_O, "Writes the value to each element."},
    {"copy", copied, METH_NOARGS, "The same elements in memory of the thread's own."},
    {"item", item, METH_VARARGS, "An element."},
    {"__array__", with_keywords(to_numpy), METH_VARARGS | METH_KEYWORDS, "NumPy's array, without checks."},
    {"__array_ufunc__", with_keywords(array_ufunc), METH_VARARGS | METH_KEYWORDS, "A NumPy function of arrays."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef array_attributes[] = {
    {"shape", get_shape, nullptr, "Extents of the axes.", nullptr},
    {"strides", get_strides, nullptr, "Bytes from element to element, for each axis.", nullptr},
    {"size", get_size, nullptr, "Elements.", nullptr},
    {"ndim", get_ndim, nullptr, "Axes.", nullptr},
    {"dtype", get_dtype, nullptr, "The NumPy dtype; uint16 for bfloat16.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of an element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"T", get_transposed, nullptr, "The array with its axes reversed.", nullptr},
    {"flat", get_flat, nullptr, "A view with one axis.", nullptr},
    {"real", get_part, nullptr, "The real parts.", nullptr},
    {"imag", get_part, nullptr, "The imaginary parts.", const_cast<char*>("imag")},
    {"__array_interface__", get_interface, nullptr, "NumPy's description of the data, without checks.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace trifold::simulator
