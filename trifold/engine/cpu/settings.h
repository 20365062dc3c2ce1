// A process's settings for its launches: environment variables, or calls (trifold/cpu/runtime.py).
#pragma once

#include <cstddef>
#include <cstdint>

#include "../core/model.h"

namespace trifold::cpu {

// Processor time that an OS thread may spend on one launch, in seconds; 0: unlimited. TRIFOLD_KERNEL_SECONDS.
double kernel_seconds();
// The size of each CUDA thread's stack. TRIFOLD_KERNEL_STACK_KIB. Existing fibers of an OS thread keep theirs.
size_t stack_bytes();
// Limits of the device that launches must satisfy, and its compute capability.
const engine::Limits& device_limits();
const char* device_name();
// A compute capability ("9.0"), and the numbers of engine::Limits in their order. Not while a launch runs.
void set_device(const char* capability, const uint32_t (&limits)[6]);

}  // namespace trifold::cpu
