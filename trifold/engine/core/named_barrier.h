// A numbered barrier of a block, with a thread count (PTX's bar.sync and bar.arrive with two operands). It completes
// when the count of threads has arrived; threads that only arrive do not wait.
#pragma once

#include <cstdint>
#include <vector>

#include "clock.h"

namespace trifold::engine {

struct Thread;

// A source line, as an index into the launch's table of sites; 0 is unknown.
using Site = uint16_t;

inline constexpr uint32_t named_barriers = 16;  // per block, including the one of syncthreads()

struct NamedBarrier {
  uint32_t threads = 0;  // thread count
  uint32_t arrived = 0;
  uint32_t arrived_true = 0;      // with a true predicate
  const Thread* first = nullptr;  // first arrival
  Site first_site = 0;
  std::vector<Thread*> waiting;  // threads that wait
  ArrivalClock clock;
};

}  // namespace trifold::engine
