// A launch as the core sees it.
#pragma once

#include <trifold/host.h>

#include "../core/model.h"

namespace trifold::host {

engine::Launch launch_of(const Kernel& kernel);

}  // namespace trifold::host
