// The result of a shuffle from a lane that took no part: undefined in CUDA, so it may be copied but not used.
#pragma once

#include <Python.h>

#include "../core/model.h"

namespace trifold::simulator {

// For the lane `thread`, whose shuffle names Request::source. New reference; null with an exception.
PyObject* undefined_value(const engine::Thread& thread);

bool is_undefined(PyObject* object);

// For places that need a number: true, with the fault raised, if the object is an undefined value.
bool refuse_undefined(PyObject* object);
// As a function's result: the undefined value among its arguments, without an exception; otherwise null.
PyObject* undefined_among(PyObject* const* arguments, Py_ssize_t count);

int add_undefined(PyObject* module);

}  // namespace trifold::simulator
