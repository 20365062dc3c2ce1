// The bytes that kernels wrote, queried by verification (trifold/simulator/writes.py).
#pragma once

#include <Python.h>

namespace trifold::simulator {

// While writes are recorded, all launches have shadow memory, whatever they check.
bool records_writes();

// Adds record_writes, add_writes, written to the extension module; -1 with an exception.
int add_writes(PyObject* module);

}  // namespace trifold::simulator
