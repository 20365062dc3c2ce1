// Records what checked launches wrote, for the verification (trifold/cpu/runtime.py).
#pragma once

#include <trifold/cpu.h>

#include "memory.h"

namespace trifold::cpu {

// Called at the end of a launch. Does nothing while writes are not recorded.
void log_writes(const Kernel& kernel, const CheckedMemory& memory);

}  // namespace trifold::cpu
