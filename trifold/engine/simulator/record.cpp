// Records: elements of a structured array, whose fields are accessed and checked separately.
#include "array.h"

namespace trifold::simulator {
namespace {

using engine::AccessType;

struct Record {
  PyObject_HEAD Array* element;  // without axes
};

Array* element_of(PyObject* object) {
  return reinterpret_cast<Record*>(object)->element;
}

void record_dealloc(PyObject* object) {
  Py_XDECREF(reinterpret_cast<PyObject*>(element_of(object)));
  PyObject_Free(object);
}

// The field as an array: without axes, unless the field itself is an array. `key`: its name, or its position.
Object field_of(PyObject* object, PyObject* key) {
  Array* const element = element_of(object);
  Object name = Object::borrow(key);
  if (PyLong_Check(key)) {
    const Object names(PyObject_GetAttrString(element->type.dtype, "names"));
    name = Object(names ? PyObject_GetItem(names.get(), key) : nullptr);
    if (!name) return name;
  }
  return Object(field_of_array(element, name.get()));
}

PyObject* value_of(const Object& field) {
  if (!field || as_array(field.get())->ndim > 0) return Py_XNewRef(field.get());
  const Object all(PyTuple_New(0));
  return PyObject_GetItem(field.get(), all.get());
}

int assign(const Object& field, PyObject* value) {
  const Object all(as_array(field.get())->ndim == 0 ? PyTuple_New(0) : Py_NewRef(Py_Ellipsis));
  return PyObject_SetItem(field.get(), all.get(), value);
}

void refuse_field(PyObject* object, PyObject* name, PyObject* error) {
  if (PyErr_Occurred() != nullptr) return;
  const Object names(PyObject_GetAttrString(element_of(object)->type.dtype, "names"));
  PyErr_Format(error, "a record of array %s has no field %R: it has %R", name_of(element_of(object)).c_str(), name,
               names.get());
}

PyObject* record_get(PyObject* object, PyObject* key) {
  const Object field = field_of(object, key);
  if (!field) refuse_field(object, key, PyExc_KeyError);
  return value_of(field);
}

int record_set(PyObject* object, PyObject* key, PyObject* value) {
  const Object field = field_of(object, key);
  if (field && value != nullptr) return assign(field, value);
  refuse_field(object, key, PyExc_KeyError);
  return -1;
}

// A field hides an attribute of the same name, as in Numba.
PyObject* record_getattr(PyObject* object, PyObject* name) {
  const Object field = field_of(object, name);
  if (field || PyErr_Occurred() != nullptr) return value_of(field);
  return PyObject_GenericGetAttr(object, name);
}

int record_setattr(PyObject* object, PyObject* name, PyObject* value) {
  const Object field = field_of(object, name);
  if (field && value != nullptr) return assign(field, value);
  refuse_field(object, name, PyExc_AttributeError);
  return -1;
}

PyObject* record_repr(PyObject* object) {
  PyObject* const base = numpy_base(element_of(object));
  return base == nullptr ? nullptr : PyObject_Repr(base);
}

PyObject* record_dtype(PyObject* object, void*) {
  return Py_NewRef(element_of(object)->type.dtype);
}

PyGetSetDef record_attributes[] = {
    {"dtype", record_dtype, nullptr, "The NumPy dtype.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMappingMethods record_mapping = {nullptr, record_get, record_set};

PyTypeObject record_type = [] {
  PyTypeObject type = blank_type("trifold._simulator.Record", "An element of a structured array in a kernel.");
  type.tp_basicsize = sizeof(Record);
  type.tp_dealloc = record_dealloc;
  type.tp_as_mapping = &record_mapping;
  type.tp_getattro = record_getattr;
  type.tp_setattro = record_setattr;
  type.tp_repr = record_repr;
  type.tp_getset = record_attributes;
  return type;
}();

}  // namespace

bool is_record(PyObject* object) {
  return Py_TYPE(object) == &record_type;
}

PyObject* new_record(Array* array, char* p) {
  Array* const root = array->root != nullptr ? array->root : array;
  PyObject* const element = new_array(array->memory, array->type, p, {}, {}, root);
  if (element == nullptr) return nullptr;
  as_array(element)->read_only = array->read_only;
  auto* const record = PyObject_New(Record, &record_type);
  if (record == nullptr) {
    Py_DECREF(element);
    return nullptr;
  }
  record->element = as_array(element);
  return reinterpret_cast<PyObject*>(record);
}

Object record_for_numpy(PyObject* object) {
  Array* const element = element_of(object);
  if (check_access(element, element->data, static_cast<size_t>(element->type.size), AccessType::read) != 0) {
    return Object();
  }
  return Object(load_element(element, element->data));
}

int add_records(PyObject* module) {
  if (PyType_Ready(&record_type) != 0) return -1;
  return PyModule_AddObjectRef(module, "Record", reinterpret_cast<PyObject*>(&record_type));
}

}  // namespace trifold::simulator
