// What a kernel asks about itself and its place (threadIdx, grid(), …), and how it waits and fences.
#pragma once

#include <Python.h>

#include "../core/model.h"

namespace trifold::simulator {

// The CUDA thread that runs; null with an exception, which names cuda.`name`, outside a kernel.
const engine::Thread* running(const char* name);

int add_builtins(PyObject* module);
int add_waiting(PyObject* module);

}  // namespace trifold::simulator
