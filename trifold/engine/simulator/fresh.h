// Memory that torch allocated and did not write, passed to kernels (trifold/simulator/fresh.py).
#pragma once

#include <Python.h>

#include "../core/fresh_memory.h"

namespace trifold::simulator {

// The record for this OS thread.
engine::FreshMemory& fresh_memory();

// Adds note_fresh, forget_fresh, unwritten, note_launch to the extension module; -1 with an exception.
int add_fresh(PyObject* module);

}  // namespace trifold::simulator
