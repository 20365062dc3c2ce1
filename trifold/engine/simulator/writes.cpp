#include "writes.h"

#include <cstdint>
#include <new>

#include "../core/writes.h"
#include "array.h"

namespace trifold::simulator {
namespace {

engine::WriteLog writes;

PyObject* record_writes(PyObject*, PyObject* on) {
  const int starts = PyObject_IsTrue(on);
  if (starts < 0) return nullptr;
  if (starts != 0) {
    writes.start();
  } else {
    writes.stop();
  }
  Py_RETURN_NONE;
}

PyObject* add_launch(PyObject*, PyObject* arguments) {
  if (PyTuple_Check(arguments) == 0) {
    PyErr_SetString(PyExc_TypeError, "the arguments must be a tuple, of wrap_arguments");
    return nullptr;
  }
  if (!writes.on()) Py_RETURN_NONE;
  try {
    for (const engine::Buffer* const buffer : buffers_of(arguments)) writes.add(*buffer, true);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  Py_RETURN_NONE;
}

PyObject* note_copy(PyObject*, PyObject* arguments) {
  PyObject* address = nullptr;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(arguments, "On:note_copy", &address, &size) == 0) return nullptr;
  void* const begin = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (size < 0) return PyErr_Format(PyExc_ValueError, "size must not be negative, but is %zd", size);
  try {
    if (writes.on()) writes.note_copy(reinterpret_cast<uintptr_t>(begin), static_cast<size_t>(size));
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  Py_RETURN_NONE;
}

PyObject* recording(PyObject*, PyObject*) {
  return PyBool_FromLong(writes.on());
}

PyObject* written(PyObject*, PyObject* arguments) {
  PyObject* address = nullptr;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(arguments, "On:written", &address, &size) == 0) return nullptr;
  void* const begin = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (size < 0) return PyErr_Format(PyExc_ValueError, "size must not be negative, but is %zd", size);
  PyObject* const found = PyBytes_FromStringAndSize(nullptr, size);
  if (found == nullptr) return nullptr;
  writes.find(reinterpret_cast<uintptr_t>(begin), static_cast<size_t>(size), PyBytes_AS_STRING(found));
  return found;
}

PyMethodDef functions[] = {
    {"record_writes", record_writes, METH_O, "Notes what launches write, or no more: see trifold/_simulator.pyi."},
    {"add_writes", add_launch, METH_O, "A launch with these arguments has ended: see trifold/_simulator.pyi."},
    {"recording", recording, METH_NOARGS, "Whether writes are noted: see trifold/_simulator.pyi."},
    {"note_copy", note_copy, METH_VARARGS, "Counts as written from now on: see trifold/_simulator.pyi."},
    {"written", written, METH_VARARGS, "Which bytes a kernel was the last to write: see trifold/_simulator.pyi."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool records_writes() {
  return writes.on();
}

int add_writes(PyObject* module) {
  return PyModule_AddFunctions(module, functions);
}

}  // namespace trifold::simulator
