// Findings on their way to Python, and what Python sets for the launches of an op call (trifold/host/runtime.py).
#pragma once

#include <cstdint>

#include "../core/finding.h"

namespace trifold::host {

// Keeps a finding until Python takes it.
void record(const engine::Finding& finding);

// The seed of the checked launches' schedules.
uint64_t schedule_seed();

}  // namespace trifold::host
