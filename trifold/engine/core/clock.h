// What threads, warps and blocks know of each other's accesses. Plain data, kept by the Checker's hooks (checker.h).
//
// Time is a Stamp: the number of synchronising events (barriers, rendezvous, fences, releases) that the launch has
// seen. It orders all events, because all threads of a launch run on one OS thread. An access carries the stamp at
// which it happened; to know a thread up to stamp s is to know all of its accesses with stamps up to s.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

namespace trifold::engine {

using Stamp = uint32_t;

// A node in the Checker's graph of what was released and acquired; 0 knows nothing.
using Knowledge = uint32_t;

// What a thread, or a group of them, knew when it fenced.
struct Fence {
  Stamp stamp = 0;          // 0: none; older than the block: another block's, in the same object
  Stamp barrier = 0;        // the block was known up to here
  Stamp joined = 0;         // the warp was known up to here
  Knowledge acquired = 0;
};

struct ThreadClock {
  Knowledge acquired = 0;     // through atomics
  Knowledge released = 0;     // by other lanes' fences before a rendezvous; the thread's next atomic passes it on
  Knowledge block_released = 0;  // the same for fences of block scope
  Stamp since = 0;            // when the fields above were last right; older than the block: all are empty
  Fence device_fence;
  Fence block_fence;
};

// seen[i][j]: lane i knows lane j up to this stamp through rendezvous of part of the warp.
using Seen = std::array<std::array<Stamp, 32>, 32>;

struct WarpClock {
  Stamp joined = 0;            // the last rendezvous of all live lanes: each knows all of them up to it
  Stamp partial = 0;           // the last rendezvous of some; seen is worth a look if it is after the barrier
  std::unique_ptr<Seen> seen;  // made by the first partial rendezvous
};

struct BlockClock {
  Stamp begin = 0;               // of the block
  Knowledge acquired = 0;        // by any of its threads before the last barrier
  Knowledge acquired_now = 0;    // and by any of them since, which the next barrier shares
  Knowledge released = 0;        // by fences before the last barrier: an atomic of any of its threads passes it on
  Knowledge released_now = 0;
  Knowledge block_released = 0;  // the same for fences of block scope
  Knowledge block_released_now = 0;
};

}  // namespace trifold::engine
