// Parts of arrays: rows, slices, fields; assignments to them, element by element.
#include <vector>

#include "array.h"

namespace trifold::simulator {
namespace {

using engine::AccessType;

// A part of an array under construction.
struct Part {
  char* data;
  ElementType type;
  std::vector<Py_ssize_t> shape, strides;
  bool outside = false;  // an index was out of bounds, and the launch continues
};

std::span<PyObject* const> keys_of(PyObject*& key) {
  if (!PyTuple_Check(key)) return {&key, 1};
  return {&PyTuple_GET_ITEM(key, 0), static_cast<size_t>(PyTuple_GET_SIZE(key))};
}

bool take_slice(Array* array, PyObject* key, int axis, Part& part) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(key, &start, &stop, &step) != 0) return false;
  const Py_ssize_t extent = array->extents[axis], stride = array->extents[array->ndim + axis];
  part.shape.push_back(PySlice_AdjustIndices(extent, &start, &stop, step));
  part.strides.push_back(stride * step);
  part.data += part.shape.back() == 0 ? 0 : start * stride;
  return true;
}

// `before`: the indices of earlier axes, for the message.
bool take_index(Array* array, PyObject* key, int axis, AccessType type, std::vector<Py_ssize_t>& before, Part& part) {
  Py_ssize_t index = 0;
  if (!index_of(array, key, index)) return false;
  before.push_back(index);
  const Py_ssize_t extent = array->extents[axis];
  if (index >= extent || index < -extent) {
    part.outside = true;
    return goes_on_outside(array, type, before, axis);
  }
  if (index < 0 && note_negative_index(array, type, before, axis) != 0) return false;
  part.data += (index < 0 ? index + extent : index) * array->extents[array->ndim + axis];
  return true;
}

void take_whole(const Array& array, int axis, Part& part) {
  part.shape.push_back(array.extents[axis]);
  part.strides.push_back(array.extents[array.ndim + axis]);
}

bool refuse_count(Array* array, size_t named) {
  const std::string name = name_of(array);
  PyErr_Format(PyExc_IndexError, "array %s has %d %s, but is indexed with %zu", name.c_str(), array->ndim,
               array->ndim == 1 ? "axis" : "axes", named);
  return false;
}

bool take(Array* array, PyObject* key, AccessType type, Part& part) {
  part.data = array->data;
  part.type = array->type;
  const std::span<PyObject* const> keys = keys_of(key);
  size_t named = 0, ellipses = 0;
  for (PyObject* const one : keys) {
    if (one == Py_Ellipsis) {
      ++ellipses;
    } else if (one != Py_None) {
      ++named;
    }
  }
  if (named > static_cast<size_t>(array->ndim) || ellipses > 1) return refuse_count(array, named);
  int axis = 0;
  std::vector<Py_ssize_t> before;
  for (PyObject* const one : keys) {
    if (one == Py_None) {
      part.shape.push_back(1);
      part.strides.push_back(0);
    } else if (one == Py_Ellipsis) {
      for (const int end = axis + array->ndim - static_cast<int>(named); axis < end; ++axis) {
        before.push_back(0);
        take_whole(*array, axis, part);
      }
    } else if (PySlice_Check(one)) {
      before.push_back(0);
      if (!take_slice(array, one, axis++, part)) return false;
    } else if (!take_index(array, one, axis++, type, before, part)) {
      return false;
    }
  }
  for (; axis < array->ndim; ++axis) take_whole(*array, axis, part);
  return true;
}

PyObject* array_of(Array* array, const Part& part) {
  Array* const root = array->root != nullptr ? array->root : array;
  PyObject* const object = new_array(array->memory, part.type, part.data, part.shape, part.strides, root);
  if (object != nullptr) as_array(object)->read_only = array->read_only;
  return object;
}

// Appends a subarray field's extents to the array's own.
bool append_subarray(PyObject* dtype, Part& part) {
  const Object subdtype(PyObject_GetAttrString(dtype, "subdtype"));
  if (!subdtype) return false;
  if (subdtype.get() == Py_None) return element_type(dtype, part.type);
  if (!element_type(PyTuple_GET_ITEM(subdtype.get(), 0), part.type)) return false;
  PyObject* const shape = PyTuple_GET_ITEM(subdtype.get(), 1);
  const size_t first = part.shape.size();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
    part.shape.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i)));
  }
  part.strides.resize(part.shape.size());
  Py_ssize_t step = part.type.size;
  for (size_t axis = part.shape.size(); axis-- > first;) {
    part.strides[axis] = step;
    step *= part.shape[axis];
  }
  return true;
}

// The assigned elements, as an Array.
Object source_array(PyObject* value) {
  if (is_array(value)) return Object::borrow(value);
  const Object numpy(PyImport_ImportModule("numpy"));
  const Object source(numpy ? PyObject_CallMethod(numpy.get(), "asarray", "O", value) : nullptr);
  return Object(source ? constant_array(source.get()) : nullptr);
}

std::string text(std::span<const Py_ssize_t> shape) {
  std::string result = "(";
  for (size_t i = 0; i < shape.size(); ++i) result += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return result + (shape.size() == 1 ? ",)" : ")");
}

// The source's strides broadcast to the assigned shape; false with an exception.
bool broadcast(const Array& source, std::span<const Py_ssize_t> shape, std::vector<Py_ssize_t>& strides) {
  strides.assign(shape.size(), 0);
  bool fits = true;
  for (int axis = 0; axis < source.ndim; ++axis) {
    const Py_ssize_t extent = source.extents[axis];
    const auto place = static_cast<Py_ssize_t>(shape.size()) - source.ndim + axis;
    if (extent == 1) continue;
    fits = fits && place >= 0 && shape[static_cast<size_t>(place)] == extent;
    if (fits) strides[static_cast<size_t>(place)] = source.extents[source.ndim + axis];
  }
  if (fits) return true;
  PyErr_Format(PyExc_ValueError, "cannot assign slice of shape %s from input of shape %s", text(shape).c_str(),
               text(source.shape()).c_str());
  return false;
}

bool is_sequence_of_elements(PyObject* value) {
  if (is_array(value)) return as_array(value)->ndim > 0;
  if (PyUnicode_Check(value) || PyBytes_Check(value) || is_record(value)) return false;
  return PySequence_Check(value) && PyObject_HasAttrString(value, "__len__");
}

int fill(Array* target, PyObject* value) {
  Object element = Object::borrow(value);
  if (is_array(value)) {
    const Object all(PyTuple_New(0));
    element = Object(PyObject_GetItem(value, all.get()));
    if (!element) return -1;
  }
  return for_each_element(target->data, target->shape(), target->strides(),
                          [&](char* p) { return write_element(target, p, element.get()); });
}

// All elements are read before the first is written: source and target may overlap.
int copy(Array* target, PyObject* value) {
  const Object object = source_array(value);
  std::vector<Py_ssize_t> strides;
  if (!object || !broadcast(*as_array(object.get()), target->shape(), strides)) return -1;
  Array* const source = as_array(object.get());
  std::vector<Object> elements;
  const int read = for_each_element(source->data, target->shape(), strides, [&](char* p) {
    if (check_access(source, p, static_cast<size_t>(source->type.size), AccessType::read) != 0) return -1;
    elements.emplace_back(source->type.record ? new_record(source, p) : load_element(source, p));
    return elements.back() ? 0 : -1;
  });
  if (read != 0) return -1;
  size_t next = 0;
  return for_each_element(target->data, target->shape(), target->strides(),
                          [&](char* p) { return write_element(target, p, elements[next++].get()); });
}

}  // namespace

PyObject* view_of(Array* array, PyObject* key) {
  if (PyUnicode_Check(key)) {
    PyObject* const field = field_of_array(array, key);
    if (field == nullptr && PyErr_Occurred() == nullptr) {
      PyErr_Format(PyExc_KeyError, "array %s has no field %R", name_of(array).c_str(), key);
    }
    return field;
  }
  Part part;
  if (!take(array, key, AccessType::read, part)) return nullptr;
  if (part.outside) return part.shape.empty() ? read_outside(array) : elements_outside(part.type, part.shape).release();
  if (part.shape.empty()) return read_element(array, part.data);  // x[...] and the like are elements, as in Numba
  return array_of(array, part);
}

int assign_view(Array* array, PyObject* key, PyObject* value) {
  if (array->read_only) return refuse_write(array);
  const Object target(PyUnicode_Check(key) ? view_of(array, key) : nullptr);
  Part part;
  if (PyUnicode_Check(key) ? !target : !take(array, key, AccessType::write, part)) return -1;
  if (part.outside) return 0;
  const Object view(target ? Py_NewRef(target.get()) : array_of(array, part));
  if (!view) return -1;
  return is_sequence_of_elements(value) ? copy(as_array(view.get()), value) : fill(as_array(view.get()), value);
}

PyObject* field_of_array(Array* array, PyObject* name) {
  if (!array->type.record) return nullptr;
  const Object fields(PyObject_GetAttrString(array->type.dtype, "fields"));
  const Object field(fields ? PyObject_GetItem(fields.get(), name) : nullptr);
  if (!field) {
    PyErr_Clear();
    return nullptr;
  }
  Part part{array->data + PyLong_AsSsize_t(PyTuple_GET_ITEM(field.get(), 1)),
            {},
            {array->shape().begin(), array->shape().end()},
            {array->strides().begin(), array->strides().end()}};
  return append_subarray(PyTuple_GET_ITEM(field.get(), 0), part) ? array_of(array, part) : nullptr;
}

}  // namespace trifold::simulator
