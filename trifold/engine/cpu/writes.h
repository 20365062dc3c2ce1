// What checked launches wrote, for verification to ask (trifold/cpu/runtime.py).
#pragma once

#include <trifold/cpu.h>

#include "memory.h"

namespace trifold::host {

// The launch has ended. Does nothing while writes are not recorded.
void log_writes(const Kernel& kernel, const CheckedMemory& memory);

}  // namespace trifold::host
