// What a shuffle gives from a lane that took no part: CUDA leaves it undefined, so it may be passed on but not used.
#pragma once

#include <Python.h>

#include "../core/model.h"

namespace trifold::simulator {

// For the lane `thread`, whose shuffle names Request::source. New reference; null with an exception.
PyObject* undefined_value(const engine::Thread& thread);

bool is_undefined(PyObject* object);

// Where a number is needed: true, with the fault raised, if there is an undefined value instead.
bool refuse_undefined(PyObject* object);
// In the place of a function's result: the undefined value among its arguments, and no exception; else null.
PyObject* undefined_among(PyObject* const* arguments, Py_ssize_t count);

int add_undefined(PyObject* module);

}  // namespace trifold::simulator
