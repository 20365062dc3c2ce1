// What threads, warps and blocks know of each other's accesses. Plain data, updated by the Checker's hooks (checker.h).
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

// A fence of block scope orders only threads of its block, one of cluster scope those of its cluster. An index,
// narrowest scope first.
enum FenceScope : uint8_t { block_scope, cluster_scope, device_scope };
inline constexpr std::array fence_scopes{block_scope, cluster_scope, device_scope};

template <typename T>
using PerScope = std::array<T, fence_scopes.size()>;

// The maker of an access: a thread, or from this number on one side of an asynchronous operation: an even number reads,
// the odd one after it writes (operation_clocks.h).
inline constexpr uint32_t first_operation = 0xff000000, last_operation = 0xffffffef;

constexpr bool is_operation(uint32_t thread) {
  return thread >= first_operation && thread <= last_operation;
}

// A thread's knowledge at its fence.
struct Fence {
  Stamp stamp = 0;         // of its own accesses; 0: no fence
  Stamp barrier = 0;       // of its block's accesses
  Knowledge acquired = 0;  // what it had acquired
};

struct ThreadClock {
  Stamp since = 0;                 // the fields below are valid since then; if older than the block, they are empty
  Knowledge acquired = 0;          // through atomics: its own and, by rendezvous, those of other lanes
  PerScope<Fence> fence{};         // its last fences
  PerScope<Knowledge> released{};  // by fences of other lanes before a rendezvous: released by its next atomic
  PerScope<Knowledge> said{};      // what its last atomic released
};

// What the lanes of a warp know of each other, if it is not the same for all lanes.
struct LaneClocks {
  std::array<std::array<Stamp, 32>, 32> seen{};  // seen[i][j]: lane i knows lane j's accesses up to this stamp
  std::array<Stamp, 32> left{};                  // the others know an exited lane's accesses up to this stamp
};

struct WarpClock {
  Stamp joined = 0;                   // the last rendezvous of all live lanes: they know each other up to it
  Stamp partial = 0;                  // the last rendezvous of some lanes
  PerScope<Stamp> fenced{};           // a lane's last fence not yet shared by a rendezvous; 0: none
  uint32_t left = 0;                  // exited lanes that LaneClocks::left includes
  std::unique_ptr<LaneClocks> lanes;  // allocated when first needed
};

// What the threads of a block have released by arriving in the current phase of their cluster's barrier.
struct Arrivals {
  std::vector<Stamp> stamps;  // each thread's accesses up to this stamp; 0: not arrived, or relaxed
  Stamp barrier = 0;          // the block's accesses up to this stamp, or its begin
  Knowledge acquired = 0;     // what those threads had acquired
};

// The last access to a block's shared memory from another block of its cluster.
struct Visit {
  uint32_t thread = 0;
  Stamp stamp = 0;     // 0: none
  uint32_t phase = 0;  // phases of the cluster's barrier at which its thread had arrived
  uint16_t site = 0;
  uint8_t type = 0;  // checker.h's AccessType
};

struct BlockClock {
  Stamp begin = 0;                        // start of the block
  PerScope<Stamp> fenced{};               // the last fence of any thread
  Knowledge acquired = 0;                 // by any thread before the last barrier
  Knowledge acquired_now = 0;             // by any thread until now: shared by the next barrier
  PerScope<Knowledge> released{};         // by fences before the last barrier: released by an atomic of any thread
  PerScope<Knowledge> fenced_acquired{};  // what threads that have fenced since had acquired
  PerScope<std::vector<Stamp>> fences;    // per thread: released by its, or its warp mates', last fence
  Arrivals arrivals;
  std::vector<Visit> visits;  // by the rank of the other block; empty: none
};

struct ClusterClock {
  Stamp barrier = 0;  // the last phase at which all threads of each block waited, and released: all know all up to it
  Knowledge phase_end = 0;  // what the arrivals at the last phase released
};

// What the arriving threads of a block knew at a named barrier, or at one in shared memory.
struct ArrivalClock {
  Stamp barrier = 0;                      // the block's accesses up to this stamp
  std::vector<Stamp> stamps;              // each thread's accesses up to this stamp
  Knowledge acquired = 0;                 // what they had acquired
  PerScope<std::vector<Stamp>> fences{};  // each thread's accesses up to its last fence
  PerScope<Knowledge> fenced_acquired{};  // what they had acquired at these fences
  PerScope<Knowledge> released{};         // by other threads' fences: released by an atomic of any thread that waited
};

// What the threads that arrived at a barrier in shared memory knew, and what asynchronous operations wrote before they
// signalled it.
struct MBarrierClock {
  struct OfBlock {
    uint32_t block, first_thread;
    FenceScope scope;
    ArrivalClock arrivals;
  };
  struct Released {
    Knowledge of_block = 0;           // to threads of its own block, by threads of that block and by operations
    Knowledge of_cluster = 0;         // to all, by all
    PerScope<Knowledge> fenced = {};  // by other threads' fences: released by an atomic of any thread that waited
  };

  std::vector<OfBlock> gathering;  // in the current phase
  Released present;                // in the current phase, by operations and by relaxed arrivals after a fence
  Released ended;                  // in the previous phase, by all
};

}  // namespace trifold::engine
