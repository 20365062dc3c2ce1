// The Array type: elements, and NumPy's operations on it.
#include "array.h"

#include <algorithm>

#include "complex.h"
#include "exception.h"

namespace trifold::simulator {
namespace {

using engine::AccessType;

void array_dealloc(PyObject* object) {
  Array* const array = as_array(object);
  Py_XDECREF(array->base);
  Py_XDECREF(reinterpret_cast<PyObject*>(array->root));
  Py_XDECREF(array->name);
  Py_XDECREF(array->shape_tuple);
  Py_XDECREF(reinterpret_cast<PyObject*>(array->memory));
  PyObject_Free(object);
}

PyObject* array_get(PyObject* object, PyObject* key) {
  Array* const array = as_array(object);
  char* p = nullptr;
  switch (find_element(array, key, AccessType::read, p)) {
    case Found::element: break;
    case Found::view: return view_of(array, key);
    case Found::outside: return read_outside(array);
    case Found::error: return nullptr;
  }
  return read_element(array, p);
}

int array_set(PyObject* object, PyObject* key, PyObject* value) {
  Array* const array = as_array(object);
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "an element of an array cannot be deleted");
    return -1;
  }
  if (array->read_only) return refuse_write(array);
  char* p = nullptr;
  switch (find_element(array, key, AccessType::write, p)) {
    case Found::element: break;
    case Found::view: return assign_view(array, key, value);
    case Found::outside: return 0;
    case Found::error: return -1;
  }
  return write_element(array, p, value);
}

Py_ssize_t array_length(PyObject* object) {
  const Array* const array = as_array(object);
  if (array->ndim > 0) return array->extents[0];
  PyErr_SetString(PyExc_TypeError, "an array without axes has no len()");
  return -1;
}

PyObject* array_item(PyObject* object, Py_ssize_t index) {
  if (as_array(object)->ndim == 0 || index >= as_array(object)->extents[0]) {
    PyErr_SetNone(PyExc_IndexError);  // ends an iteration
    return nullptr;
  }
  const Object key(PyLong_FromSsize_t(index));
  return key ? array_get(object, key.get()) : nullptr;
}

PyObject* array_iterate(PyObject* object) {
  if (array_length(object) < 0) return nullptr;
  return PySeqIter_New(object);
}

PyObject* array_repr(PyObject* object) {
  const Object values = for_numpy(object);
  return values ? PyObject_Repr(values.get()) : nullptr;
}

PyObject* array_str(PyObject* object) {
  const Object values = for_numpy(object);
  return values ? PyObject_Str(values.get()) : nullptr;
}

// Falls back to a field of a record array and, at a debugger's prompt, to all attributes of NumPy's arrays.
PyObject* array_getattr(PyObject* object, PyObject* name) {
  PyObject* const attribute = PyObject_GenericGetAttr(object, name);
  if (attribute != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return attribute;
  Object missing(take_exception());
  Object found(field_of_array(as_array(object), name));
  if (!found && PyErr_Occurred() == nullptr && at_prompt()) {
    const Object values = for_numpy(object);
    found = Object(values ? PyObject_GetAttr(values.get(), name) : nullptr);
    PyErr_Clear();
  }
  if (!found && PyErr_Occurred() == nullptr) set_exception(missing.release());
  return found.release();
}

PySequenceMethods sequence = [] {
  PySequenceMethods methods{};
  methods.sq_item = array_item;
  return methods;
}();

PyMappingMethods mapping = {array_length, array_get, array_set};

// A NumPy array of these bytes, kept alive by the Memory.
Object numpy_array(const Memory* memory, const ElementType& type, const char* p, PyObject* shape, PyObject* strides) {
  static PyObject* const ndarray = [] {
    const Object numpy(PyImport_ImportModule("numpy"));
    return numpy ? PyObject_GetAttrString(numpy.get(), "ndarray") : nullptr;
  }();
  if (ndarray == nullptr) return Object();
  const Object offset(PyLong_FromSsize_t(p - memory->begin));
  if (!offset) return Object();
  PyObject* const buffer = reinterpret_cast<PyObject*>(const_cast<Memory*>(memory));
  return Object(PyObject_CallFunctionObjArgs(ndarray, shape, type.dtype, memory->size == 0 ? Py_None : buffer,
                                             offset.get(), strides, nullptr));
}

Object tuple_of(std::span<const Py_ssize_t> values) {
  Object tuple(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; tuple && i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromSsize_t(values[i]));
  }
  return tuple;
}

// The element as a NumPy array without axes.
Object numpy_element(Array* array, char* p) {
  const Object shape(PyTuple_New(0));
  return numpy_array(array->memory, array->type, p, shape.get(), Py_None);
}

}  // namespace

PyTypeObject array_type = [] {
  PyTypeObject type = blank_type("trifold._simulator.Array",
                                 "An array in a kernel: each access is checked, elements have the types of the GPU. "
                                 "NumPy functions at a debugger's prompt see its data, without checks.");
  type.tp_basicsize = offsetof(Array, extents);
  type.tp_itemsize = sizeof(Py_ssize_t);
  type.tp_dealloc = array_dealloc;
  type.tp_repr = array_repr;
  type.tp_str = array_str;
  type.tp_as_sequence = &sequence;
  type.tp_as_mapping = &mapping;
  type.tp_getattro = array_getattr;
  type.tp_iter = array_iterate;
  type.tp_methods = array_methods;
  type.tp_getset = array_attributes;
  return type;
}();

PyObject* new_array(Memory* memory, const ElementType& type, char* data, std::span<const Py_ssize_t> shape,
                    std::span<const Py_ssize_t> strides, Array* root) {
  const auto ndim = static_cast<Py_ssize_t>(shape.size());
  Array* const array = PyObject_NewVar(Array, &array_type, 2 * ndim);
  if (array == nullptr) return nullptr;
  array->data = data;
  array->buffer = memory->buffer;
  array->type = type;
  array->ndim = static_cast<int>(ndim);
  array->read_only = memory->read_only;
  array->memory = memory;
  Py_INCREF(reinterpret_cast<PyObject*>(memory));
  array->base = nullptr;
  array->root = root;
  Py_XINCREF(reinterpret_cast<PyObject*>(root));
  array->name = nullptr;
  array->shape_tuple = nullptr;
  std::copy(shape.begin(), shape.end(), array->extents);
  std::copy(strides.begin(), strides.end(), array->extents + ndim);
  return reinterpret_cast<PyObject*>(array);
}

PyObject* numpy_base(Array* array) {
  if (array->base != nullptr) return array->base;
  const Object shape = tuple_of(array->shape());
  const Object strides = tuple_of(array->strides());
  if (!shape || !strides) return nullptr;
  array->base = numpy_array(array->memory, array->type, array->data, shape.get(), strides.get()).release();
  return array->base;
}

Py_ssize_t element_count(const Array& array) {
  Py_ssize_t count = 1;
  for (const Py_ssize_t extent : array.shape()) count *= extent;
  return count;
}

bool is_contiguous(const Array& array) {
  Py_ssize_t step = array.type.size;
  for (int axis = array.ndim - 1; axis >= 0; --axis) {
    if (array.extents[axis] != 1 && array.extents[array.ndim + axis] != step) return false;
    step *= array.extents[axis];
  }
  return true;
}

int refuse_write(Array* array) {
  const char* const what = array->memory->space == engine::Space::constant ? "constant array" : "array";
  PyErr_Format(PyExc_TypeError, "%s %s is read-only: write to an output argument instead", what,
               name_of(array).c_str());
  return -1;
}

Object for_numpy(PyObject* value) {
  if (is_array(value)) {
    Array* const array = as_array(value);
    PyObject* const base = numpy_base(array);
    if (base == nullptr || array->type.kind != Kind::bfloat16) return Object::borrow(base);
    const Object wide(PyObject_CallMethod(base, "astype", "s", "uint32"));
    const Object shift(PyLong_FromLong(16));
    const Object bits(wide ? PyNumber_Lshift(wide.get(), shift.get()) : nullptr);
    return Object(bits ? PyObject_CallMethod(bits.get(), "view", "s", "float32") : nullptr);
  }
  if (is_record(value)) return record_for_numpy(value);
  Value number;
  const bool plain = PyLong_Check(value) || PyFloat_Check(value) || PyNumber_Check(value) == 0;
  if (plain || !read(value, number)) return Object::borrow(value);
  if (is_floating(number.kind)) return Object(PyFloat_FromDouble(convert(number, Kind::float64).d));
  return Object(is_unsigned(number.kind) ? PyLong_FromUnsignedLongLong(number.u) : PyLong_FromLongLong(number.i));
}

PyObject* read_element(Array* array, char* p) {
  if (array->type.record) return new_record(array, p);
  if (check_access(array, p, static_cast<size_t>(array->type.size), AccessType::read) != 0) return nullptr;
  return load_element(array, p);
}

PyObject* read_outside(Array* array) {
  const Object element = elements_outside(array->type, {});
  return element ? read_element(as_array(element.get()), as_array(element.get())->data) : nullptr;
}

PyObject* load_element(Array* array, char* p) {
  if (array->type.kind != Kind::other) [[likely]]
    return load(array->type.kind, p);
  const Object element = numpy_element(array, p);
  const Object all(PyTuple_New(0));
  Object value(element && all ? PyObject_GetItem(element.get(), all.get()) : nullptr);
  return value && is_complex64(value.get()) ? as_complex64(value.get()) : value.release();
}

int store_element(Array* array, char* p, PyObject* value) {
  ++engine::changes;
  if (array->type.kind != Kind::other) [[likely]]
    return store(array->type.kind, p, value);
  const Object element = numpy_element(array, p);
  const Object all(PyTuple_New(0));
  const Object plain = element && all ? for_numpy(value) : Object();
  return plain ? PyObject_SetItem(element.get(), all.get(), plain.get()) : -1;
}

int add_arrays(PyObject* module) {
  static PyMethodDef functions[] = {
      {"wrap_arguments", wrap_arguments, METH_VARARGS,
       "wrap_arguments(names, values, flags, checks): NumPy arrays become Arrays, those that overlap of one memory."},
      {nullptr, nullptr, 0, nullptr},
  };
  if (PyType_Ready(&memory_type) != 0 || PyType_Ready(&array_type) != 0) return -1;
  if (PyModule_AddObjectRef(module, "Array", reinterpret_cast<PyObject*>(&array_type)) != 0) return -1;
  for (const auto& [name, value] : {std::pair{"CHECK_RACE", engine::check_race},
                                    {"CHECK_UNINITIALISED", engine::check_uninitialised},
                                    {"CHECK_BOUNDS", engine::check_bounds},
                                    {"CHECK_LINT", engine::check_lint},
                                    {"CHECK_ALL", engine::check_all}}) {
    if (PyModule_AddIntConstant(module, name, value) != 0) return -1;
  }
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  if (add_records(module) != 0 || add_allocation(module) != 0 || add_atomic(module) != 0) return -1;
  return 0;
}

}  // namespace trifold::simulator
