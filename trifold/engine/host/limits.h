// What a device lets a launch have.
#pragma once

#include <trifold/host.h>

namespace trifold::host {

// Throws std::runtime_error where the device refuses the launch; the message names the kernel and the limit.
void require_launchable(const Kernel& kernel);

}  // namespace trifold::host
