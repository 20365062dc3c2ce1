// What a kernel asks about itself and its place: threadIdx, grid(), barriers, fences.
#pragma once

#include <Python.h>

namespace trifold::simulator {

int add_builtins(PyObject* module);

}  // namespace trifold::simulator
