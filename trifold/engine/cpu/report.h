// Findings for Python to collect, and the settings that Python makes for the launches of an op's call
// (trifold/cpu/runtime.py).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "../core/finding.h"
#include "../core/tolerance.h"

namespace trifold::cpu {

// Keeps a finding until Python collects it.
void record(const engine::Finding& finding);

// A call begins: its launches use this schedule, and know only tensors that are noted from here on.
void begin_call(uint64_t seed);
// The findings since then, as JSON objects, a line each.
std::string take_findings();

// The seed of the checked launches' schedules.
uint64_t schedule_seed();

// Which findings do not end a checked launch. Must not be changed while one runs.
engine::Policy& policy();

// Thrown when a finding has ended a launch; the finding is recorded.
struct LaunchEnded : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace trifold::cpu
