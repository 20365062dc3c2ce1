// Runs a kernel: each CUDA thread is a call of its function, or a generator.
#pragma once

#include <Python.h>

namespace trifold::simulator {

// launch() of trifold/_simulator.pyi.
PyObject* launch(PyObject*, PyObject* arguments);

int add_launch(PyObject* module);

}  // namespace trifold::simulator
