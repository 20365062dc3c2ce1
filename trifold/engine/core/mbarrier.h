// A barrier in shared memory (PTX ISA, "mbarrier"). A phase of it ends when as many arrivals have come as it was
// initialised for, and as many bytes as were expected have been written; then the next one begins.
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
// Of arrivals in a phase, and of bytes that are expected or too many.
inline constexpr uint32_t most_arrivals = (1 << 20) - 1;
inline constexpr int64_t most_transactions = (1 << 20) - 1;

// Who does something to a barrier, and where: a thread, or what it has started.
struct Actor {
  const Thread* thread = nullptr;
  Site site = 0;
  Operation operation{};
};

// An operation that arrives.
struct Arrival {
  uint32_t count = 1;
  uint32_t bytes = 0;              // that it expects before it arrives
  bool expects = false;            // bytes, or none
  bool drops = false;              // these arrivals come no more, in later phases either
  bool must_not_complete = false;  // .noComplete
  bool relaxed = false;            // it releases nothing but what fences before it have
  FenceScope scope = block_scope;  // of its release
  // Asks for the phase's state, or is one for the block's own memory in another way.
  bool own_only = false;
};

// What a thread waits for at a barrier: the end of a phase.
struct MBarrierWait {
  Block* owner;
  uint32_t offset;
  uint32_t phase;
  FenceScope scope = block_scope;  // of its acquire
  bool may_fail = false;           // a try_wait, of which the time may run out
};

struct MBarrier {
  Block* owner = nullptr;
  uint32_t offset = 0;       // in its shared memory's window
  bool live = false;         // initialised, and not invalidated since
  uint32_t expected = 0;     // arrivals that each phase waits for
  uint32_t pending = 0;      // those that the present phase still does
  int64_t transactions = 0;  // bytes that are expected, less those that have come
  uint32_t phase = 0;        // phases that have ended
  uint32_t seen = 0;         // those whose end some wait has seen
  Actor initialised, invalidated;
  Stamp since = 0;  // of the initialisation
  // The initialising thread has made it known by fence.mbarrier_init; and then by arriving, relaxed, at this phase of
  // the cluster's barrier.
  bool fenced = false;
  uint32_t published_in = ~uint32_t{0};
  std::vector<Thread*> waiting;
  MBarrierClock clock;

  bool is_complete() const { return pending == 0 && transactions == 0; }
};

// Those of a block, by the offsets of their addresses. They stay where they are until the block ends.
using MBarriers = std::map<uint32_t, MBarrier>;

// What `mbarrier.arrive` returns: the phase in which it arrived, and the arrivals that were pending before.
struct MBarrierState {
  uint32_t phase, pending;

  static MBarrierState of(uint64_t bits) { return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}; }
  uint64_t bits() const { return uint64_t{pending} << 32 | phase; }
};

}  // namespace trifold::engine
