// A launch as the core sees it.
#pragma once

#include <trifold/cpu.h>

#include "../core/model.h"

namespace trifold::cpu {

engine::Launch launch_of(const Kernel& kernel);

}  // namespace trifold::cpu
