// What a device lets a launch have.
#pragma once

#include <trifold/cpu/program.h>

#include <stdexcept>
#include <string>

namespace trifold::host {

// A launch that fails with an error of CUDA's; other std::runtime_errors are cudaErrorInvalidConfiguration.
struct FailedLaunch : std::runtime_error {
  FailedLaunch(Error why, const std::string& what) : std::runtime_error(what), error(why) {}
  Error error;
};

// Throws std::runtime_error where the device refuses the launch; the message names the kernel and the limit.
void require_launchable(const Kernel& kernel);

// What it says of a launch with more threads in a block than the kernel's bounds allow.
std::string too_many_threads(const Kernel& kernel, unsigned launch_bounds);

}  // namespace trifold::host
