// A barrier of a block's that has a number and counts (PTX's bar.sync and bar.arrive with two operands). It lets its
// threads go once as many have come as they say; those that only arrive do not wait.
#pragma once

#include <cstdint>
#include <vector>

#include "clock.h"

namespace trifold::engine {

struct Thread;

// A line of source, as an index into the launch's table of sites; 0 is unknown.
using Site = uint16_t;

inline constexpr uint32_t named_barriers = 16;  // of a block, with the one that syncthreads() waits at

struct NamedBarrier {
  uint32_t threads = 0;  // that it waits for
  uint32_t arrived = 0;
  uint32_t arrived_true = 0;      // whose predicate is true
  const Thread* first = nullptr;  // that came, and where
  Site first_site = 0;
  std::vector<Thread*> waiting;  // of those that came
  ArrivalClock clock;
};

}  // namespace trifold::engine
