// A kernel's built-in variables and functions (threadIdx, grid(), …), waiting and fences.
#pragma once

#include <Python.h>

#include "../core/model.h"

namespace trifold::simulator {

// The running CUDA thread; outside a kernel null with an exception that names cuda.`name`.
const engine::Thread* running(const char* name);

int add_builtins(PyObject* module);
int add_waiting(PyObject* module);

}  // namespace trifold::simulator
