// Gets and sets the current exception as one object: Python 3.12 changed the API.
#pragma once

#include <Python.h>

namespace trifold::simulator {

// Clears it; new reference to an instance that holds its traceback, null if none is set.
inline PyObject* take_exception() {
#if PY_VERSION_HEX >= 0x030c0000
  return PyErr_GetRaisedException();
#else
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
#endif
}

// Steals the reference; null clears.
inline void set_exception(PyObject* exception) {
#if PY_VERSION_HEX >= 0x030c0000
  PyErr_SetRaisedException(exception);
#else
  if (exception == nullptr) return PyErr_Clear();
  PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception, PyException_GetTraceback(exception));
#endif
}

}  // namespace trifold::simulator
