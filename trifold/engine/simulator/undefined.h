// What a shuffle gives from a lane that took no part: CUDA leaves it undefined, so it may be passed on but not used.
#pragma once

#include <Python.h>

#include "../core/model.h"

namespace trifold::simulator {

// For the lane `thread`, whose shuffle names Request::source. New reference; null with an exception.
PyObject* undefined_value(const engine::Thread& thread);

bool is_undefined(PyObject* object);

int add_undefined(PyObject* module);

}  // namespace trifold::simulator
