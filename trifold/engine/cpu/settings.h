// What a process sets for its launches: by environment variables, or by calls (trifold/cpu/runtime.py).
#pragma once

#include <cstddef>
#include <cstdint>

#include "../core/model.h"

namespace trifold::host {

// Processor time that an OS thread may spend on one launch; 0: any. TRIFOLD_KERNEL_SECONDS.
double kernel_seconds();
// Of each CUDA thread's stack. TRIFOLD_KERNEL_STACK_KIB. The fibers that an OS thread has keep theirs.
size_t stack_bytes();
// Of the device that launches have to fit, and its compute capability.
const engine::Limits& device_limits();
const char* device_name();
// A compute capability ("9.0"), and the numbers of engine::Limits in their order. Not while a launch runs.
void set_device(const char* capability, const uint32_t (&limits)[6]);

}  // namespace trifold::host
