// A device's limits for launches.
#pragma once

#include <trifold/cpu/program.h>

#include <stdexcept>
#include <string>

namespace trifold::cpu {

// A launch that fails with a specific CUDA error; other std::runtime_errors are cudaErrorInvalidConfiguration.
struct FailedLaunch : std::runtime_error {
  FailedLaunch(Error why, const std::string& what) : std::runtime_error(what), error(why) {}
  Error error;
};

// Throws std::runtime_error if the device refuses the launch; the message names the kernel and the limit.
void require_launchable(const Kernel& kernel);

// The message for a launch with more threads in a block than the kernel's launch bounds allow.
std::string too_many_threads(const Kernel& kernel, unsigned launch_bounds);

}  // namespace trifold::cpu
