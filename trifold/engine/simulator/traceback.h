// Exceptions of a kernel as its author wants to see them: with the CUDA thread, and without the simulator's frames.
#pragma once

#include <Python.h>

#include "../core/model.h"

namespace trifold::simulator {

// Puts the thread's coordinates in front of the message of the exception that is set, as Numba's simulator does.
void name_thread(const engine::Thread& thread);

int add_traceback(PyObject* module);

}  // namespace trifold::simulator
