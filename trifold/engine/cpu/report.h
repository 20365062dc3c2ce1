// Findings on their way to Python, and what Python sets for the launches of an op call (trifold/cpu/runtime.py).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "../core/finding.h"
#include "../core/tolerance.h"

namespace trifold::host {

// Keeps a finding until Python takes it.
void record(const engine::Finding& finding);

// A call begins: its launches follow this schedule, and know only the tensors that are noted from here on.
void begin_call(uint64_t seed);
// What was found since, as JSON objects, a line each.
std::string take_findings();

// The seed of the checked launches' schedules.
uint64_t schedule_seed();

// Which findings end no checked launch. Not to be changed while one runs.
engine::Policy& policy();

// A finding has ended a launch; it is recorded.
struct LaunchEnded : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace trifold::host
