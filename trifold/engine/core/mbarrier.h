// A barrier in shared memory (PTX ISA, "mbarrier"). A phase ends when as many arrivals have occurred as it was
// initialised for, and as many bytes as were expected have been written; then the next phase begins.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "clock.h"
#include "named_barrier.h"

namespace trifold::engine {

enum class Operation : uint8_t;
struct Block;

inline constexpr uint32_t mbarrier_bytes = 8;
// The limits of arrivals in a phase, and of expected or excess bytes.
inline constexpr uint32_t most_arrivals = (1 << 20) - 1;
inline constexpr int64_t most_transactions = (1 << 20) - 1;

// The originator of an operation on a barrier, and where it is: a thread, or an operation that it started.
struct Actor {
  const Thread* thread = nullptr;
  Site site = 0;
  Operation operation{};
};

// The operands of an arrival.
struct Arrival {
  uint32_t count = 1;
  uint32_t bytes = 0;              // expected bytes, added before it arrives
  bool expects = false;            // whether it states expected bytes, even 0
  bool drops = false;              // these arrivals are dropped from later phases too
  bool must_not_complete = false;  // .noComplete
  bool relaxed = false;            // releases only what precedes the thread's fences
  FenceScope scope = block_scope;  // scope of its release
  // Returns the phase's state, or is otherwise restricted to the block's own barriers.
  bool own_only = false;
};

// A thread's wait at a barrier, for the end of a phase.
struct MBarrierWait {
  Block* owner;
  uint32_t offset;
  uint32_t phase;
  FenceScope scope = block_scope;  // scope of its acquire
  bool may_fail = false;           // a try_wait, which may time out
};

struct MBarrier {
  Block* owner = nullptr;
  uint32_t offset = 0;       // in the shared memory window
  bool live = false;         // initialised, and not invalidated since
  uint32_t expected = 0;     // arrivals per phase
  uint32_t pending = 0;      // arrivals still missing in the current phase
  int64_t transactions = 0;  // bytes expected minus bytes written
  uint32_t phase = 0;        // completed phases
  uint32_t seen = 0;         // phases whose end some wait has seen
  Actor initialised, invalidated;
  Stamp since = 0;  // stamp of the initialisation
  // Whether the initialising thread has called fence.mbarrier_init; and the phase of the cluster's barrier at which it
  // then arrived, relaxed, which publishes the initialisation.
  bool fenced = false;
  uint32_t published_in = ~uint32_t{0};
  std::vector<Thread*> waiting;
  MBarrierClock clock;

  bool is_complete() const { return pending == 0 && transactions == 0; }
};

// A block's barriers, by the offsets of their addresses. They do not move until the block ends.
using MBarriers = std::map<uint32_t, MBarrier>;

// The result of `mbarrier.arrive`: the phase in which it arrived, and the arrivals that were pending before.
struct MBarrierState {
  uint32_t phase, pending;

  static MBarrierState of(uint64_t bits) { return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}; }
  uint64_t bits() const { return uint64_t{pending} << 32 | phase; }
};

}  // namespace trifold::engine
