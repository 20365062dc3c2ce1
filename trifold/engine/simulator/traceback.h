// Exceptions of a kernel as presented to its author: with the CUDA thread, and without the simulator's frames.
#pragma once

#include <Python.h>

#include "../core/model.h"

namespace trifold::simulator {

// Prepends the thread's coordinates to the message of the current exception, as Numba's simulator does.
void name_thread(const engine::Thread& thread);

int add_traceback(PyObject* module);

}  // namespace trifold::simulator
