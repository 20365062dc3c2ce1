#include "fresh.h"

#include <cstring>
#include <new>

#include "array.h"

namespace trifold::simulator {

engine::FreshMemory& fresh_memory() {
  static thread_local engine::FreshMemory memory;
  return memory;
}

namespace {

// Parses an address and a number of bytes; false with an exception.
bool read_bytes(PyObject* address, Py_ssize_t size, uintptr_t& begin) {
  begin = reinterpret_cast<uintptr_t>(PyLong_AsVoidPtr(address));
  if (PyErr_Occurred() != nullptr) return false;
  if (size >= 0) return true;
  PyErr_Format(PyExc_ValueError, "size must not be negative, but is %zd", size);
  return false;
}

PyObject* note_fresh(PyObject*, PyObject* arguments) {
  PyObject* address = nullptr;
  Py_ssize_t size = 0, element_bytes = 0;
  uintptr_t begin = 0;
  if (PyArg_ParseTuple(arguments, "Onn:note_fresh", &address, &size, &element_bytes) == 0) return nullptr;
  if (!read_bytes(address, size, begin)) return nullptr;
  try {
    fresh_memory().add(begin, static_cast<size_t>(size), static_cast<size_t>(element_bytes));
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  Py_RETURN_NONE;
}

PyObject* forget_fresh(PyObject*, PyObject*) {
  fresh_memory().forget_all();
  Py_RETURN_NONE;
}

PyObject* unwritten(PyObject*, PyObject* arguments) {
  PyObject* address = nullptr;
  Py_ssize_t size = 0;
  uintptr_t begin = 0;
  if (PyArg_ParseTuple(arguments, "On:unwritten", &address, &size) == 0) return nullptr;
  if (!read_bytes(address, size, begin)) return nullptr;
  const auto parts = fresh_memory().unwritten(begin, begin + static_cast<size_t>(size));
  if (parts.empty()) Py_RETURN_NONE;
  PyObject* const found = PyBytes_FromStringAndSize(nullptr, size);
  if (found == nullptr) return nullptr;
  char* const bytes = PyBytes_AS_STRING(found);
  std::memset(bytes, 0, static_cast<size_t>(size));
  for (const engine::ByteRange part : parts) std::memset(bytes + (part.begin - begin), 1, part.end - part.begin);
  return found;
}

PyObject* note_launch(PyObject*, PyObject* arguments) {
  if (PyTuple_Check(arguments) == 0) {
    PyErr_SetString(PyExc_TypeError, "the arguments must be a tuple, of wrap_arguments");
    return nullptr;
  }
  for (const engine::Buffer* const buffer : buffers_of(arguments)) fresh_memory().note_launch(*buffer);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"note_fresh", note_fresh, METH_VARARGS, "Nobody has written these bytes: see trifold/_simulator.pyi."},
    {"forget_fresh", forget_fresh, METH_NOARGS, "No bytes are known as unwritten: see trifold/_simulator.pyi."},
    {"unwritten", unwritten, METH_VARARGS, "Which bytes nobody has written: see trifold/_simulator.pyi."},
    {"note_launch", note_launch, METH_O, "A launch with these arguments has ended: see trifold/_simulator.pyi."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_fresh(PyObject* module) {
  return PyModule_AddFunctions(module, functions);
}

}  // namespace trifold::simulator
