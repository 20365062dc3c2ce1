// What threads, warps and blocks know of each other's accesses. Plain data, kept by the Checker's hooks (checker.h).
//
// Time is a Stamp: the number of synchronising events (barriers, rendezvous, fences, releases) that the launch has
// seen. It orders all events, because all threads of a launch run on one OS thread. An access carries the stamp at
// which it happened; to know a thread up to stamp s is to know all of its accesses with stamps up to s.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace trifold::engine {

using Stamp = uint32_t;

// A node in the graph of what was released and acquired (knowledge.h); 0 knows nothing.
using Knowledge = uint32_t;

// A fence of block scope orders threads of its block only, and one of a cluster's those of its cluster. Index of what
// follows, from the narrowest on.
enum FenceScope : uint8_t { block_scope, cluster_scope, device_scope };
inline constexpr std::array fence_scopes{block_scope, cluster_scope, device_scope};

template <typename T>
using PerScope = std::array<T, fence_scopes.size()>;

// Who made an access: a thread, or from here on one side of an asynchronous operation, of which an even number reads
// and the odd one behind it writes (operation_clocks.h).
inline constexpr uint32_t first_operation = 0xff000000, last_operation = 0xffffffef;

constexpr bool is_operation(uint32_t thread) {
  return thread >= first_operation && thread <= last_operation;
}

// What a thread knew when it fenced.
struct Fence {
  Stamp stamp = 0;         // its own accesses up to here; 0: no fence
  Stamp barrier = 0;       // those of its block
  Knowledge acquired = 0;  // those that it had acquired
};

struct ThreadClock {
  Stamp since = 0;                 // the fields below are of this time; older than the block: they are all empty
  Knowledge acquired = 0;          // through atomics, its own and, by rendezvous, those of other lanes
  PerScope<Fence> fence{};         // its last ones
  PerScope<Knowledge> released{};  // by fences of other lanes before a rendezvous: its next atomic passes it on
  PerScope<Knowledge> said{};      // what its last atomic released
};

// What the lanes of a warp know of each other, where that is not the same for all of them.
struct LaneClocks {
  std::array<std::array<Stamp, 32>, 32> seen{};  // seen[i][j]: lane i knows lane j up to here
  std::array<Stamp, 32> left{};                  // an exited lane's accesses are known to the others up to here
};

struct WarpClock {
  Stamp joined = 0;                   // the last rendezvous of all live lanes: they know each other up to it
  Stamp partial = 0;                  // the last rendezvous of some of them
  PerScope<Stamp> fenced{};           // a lane's last fence that no rendezvous has shared; 0: none
  uint32_t left = 0;                  // exited lanes that LaneClocks::left tells of
  std::unique_ptr<LaneClocks> lanes;  // made when first needed
};

// What the threads of a block have released by arriving at the present phase of their cluster's barrier.
struct Arrivals {
  std::vector<Stamp> stamps;  // each thread's accesses up to here; 0: it has not arrived, or relaxed
  Stamp barrier = 0;          // the block's accesses up to here, or its begin
  Knowledge acquired = 0;     // what those threads had acquired
};

// The last access to a block's shared memory from another block of its cluster.
struct Visit {
  uint32_t thread = 0;
  Stamp stamp = 0;     // 0: there was none
  uint32_t phase = 0;  // of the cluster's barrier: phases that its thread had arrived at
  uint16_t site = 0;
  uint8_t type = 0;  // checker.h's AccessType
};

struct BlockClock {
  Stamp begin = 0;                        // of the block
  PerScope<Stamp> fenced{};               // the last fence of any thread
  Knowledge acquired = 0;                 // by any thread before the last barrier
  Knowledge acquired_now = 0;             // and since: the next barrier shares it
  PerScope<Knowledge> released{};         // by fences before the last barrier: an atomic of any thread passes it on
  PerScope<Knowledge> fenced_acquired{};  // what those threads had acquired that fenced since
  PerScope<std::vector<Stamp>> fences;    // per thread: released by its, or its warp mates', last fence
  Arrivals arrivals;
  std::vector<Visit> visits;  // by the rank of the other block; empty: there was none
};

struct ClusterClock {
  Stamp barrier = 0;        // of the last phase in which each block came whole and released: all know all up to it
  Knowledge phase_end = 0;  // what the arrivals at the last phase released
};

// What the threads of a block knew that have come to a named barrier, or to one in shared memory, as they came.
struct ArrivalClock {
  Stamp barrier = 0;                      // the block's accesses up to here
  std::vector<Stamp> stamps;              // each thread of the block up to here
  Knowledge acquired = 0;                 // and what they had acquired
  PerScope<std::vector<Stamp>> fences{};  // each thread up to here, by fences before
  PerScope<Knowledge> fenced_acquired{};  // and what had been acquired at these
  PerScope<Knowledge> released{};         // by other threads' fences: an atomic of any that waited passes it on
};

// What those knew that have come to a barrier in shared memory, and what asynchronous operations wrote before they
// signalled it.
struct MBarrierClock {
  struct OfBlock {
    uint32_t block, first_thread;
    FenceScope scope;
    ArrivalClock arrivals;
  };
  struct Released {
    Knowledge of_block = 0;           // by threads of its own block, and by operations
    Knowledge of_cluster = 0;         // by all
    PerScope<Knowledge> fenced = {};  // by other threads' fences: an atomic of any that waited passes it on
  };

  std::vector<OfBlock> gathering;  // in the present phase
  Released present;                // the same, of relaxed arrivals behind a fence, and of operations
  Released ended;                  // by all of the phase before it
};

}  // namespace trifold::engine
