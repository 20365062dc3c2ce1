// A launch as both front ends see it: coordinates, threads, warps, blocks. Plain data; execution.h runs it, checker.h
// checks it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "async.h"
#include "clock.h"
#include "mbarrier.h"
#include "named_barrier.h"

namespace trifold::engine {

inline constexpr uint32_t warp_size = 32;

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;

  uint64_t size() const { return uint64_t{x} * y * z; }
  // The coordinate of the thread or block with this linear index in a volume of these extents; x varies fastest.
  Dim3 at(uint64_t linear) const {
    return {static_cast<uint32_t>(linear % x), static_cast<uint32_t>(linear / x % y),
            static_cast<uint32_t>(linear / x / y)};
  }
  // The inverse of at().
  uint64_t linear(Dim3 place) const { return place.x + uint64_t{x} * (place.y + uint64_t{y} * place.z); }
  bool operator==(const Dim3&) const = default;
};

struct Block;
struct Checker;
struct Cluster;
class Tally;
struct Launch;
struct Warp;

// A device's limits, in the order of the table of compute capabilities. Those of sm_90 (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability"), with the H200's number of multiprocessors.
struct Limits {
  uint32_t static_shared_bytes = 48 << 10;  // per block, for shared arrays of fixed shape
  uint32_t shared_bytes = 227 << 10;        // per block, for all of its shared memory
  uint32_t multiprocessors = 132;
  uint32_t threads = 2048;  // per multiprocessor
  uint32_t blocks = 32;
  uint32_t multiprocessor_shared_bytes = 228 << 10;  // each resident block uses 1 KiB more than it requests
};

// The operands of a waiting thread and, once it is ready again, the result.
struct Request {
  uint8_t operation = 0;  // execution.h's Operation
  // Operand of a reduction or vote; result of any, all, and whether a shuffle's source lane is in range.
  bool predicate = false;
  bool undefined = false;  // result of a shuffle: the source lane took no part, so the value is undefined in CUDA
  uint8_t source = 0;      // result of a shuffle: the source lane
  bool pair = false;       // the front end's: the result is a pair
  uint32_t mask = 0;       // lanes named by a warp operation
  uint32_t lane = 0;       // of a shuffle: source lane, delta or xor mask
  uint32_t clamp = 0x1f;   // of a shuffle: operand c of PTX's shfl.sync
  uint32_t looks = 1;      // of a poll: reads of memory since the thread's last poll
  uint64_t value = 0;      // operand of a match; then the result: a mask or a count
};

// Questions about a thread's last accesses that only its next ones decide: bits of Thread::undecided (checker.h).
enum Undecided : uint8_t {
  undecided_write = 1,  // the front end's: whether the write changed memory
  undecided_reads = 2,  // the Checker's: whether a compare-and-swap follows
};

struct Thread {
  uint32_t id = 0;      // in the launch: block.id * threads per block + index
  uint32_t index = 0;   // in the block, x fastest
  Dim3 place{0, 0, 0};  // threadIdx, cached: computing it takes three divisions
  uint8_t lane = 0;
  uint8_t undecided = 0;  // bits of Undecided
  Site waiting_at = 0;    // where it waits, or waited last
  Warp* warp = nullptr;
  Block* block = nullptr;
  ThreadClock clock;
  Request request;
  std::unique_ptr<GroupsOfThread> groups;  // of asynchronous operations; null: none started
  void* front = nullptr;                   // the front end's: a generator, a fiber
  void* operand = nullptr;                 // the front end's: operand of a shuffle
};

// Each live lane is in one of the sets after `live`, one bit per lane.
struct Warp {
  uint32_t index = 0;           // in the block
  uint32_t exists = 0;          // lanes that were launched: fewer than 32 in a block's last warp
  uint32_t live = 0;            // lanes that have not exited
  uint32_t ready = 0;           // may run, or runs
  uint32_t polling = 0;         // repeatedly reads memory that another thread is to write
  uint32_t at_barrier = 0;      // of the block
  uint32_t at_rendezvous = 0;   // of the warp
  uint32_t at_active_mask = 0;  // waits to see which other lanes reach its line
  uint32_t at_grid_barrier = 0;
  uint32_t at_cluster_barrier = 0;
  // Live lanes that have arrived at the cluster's barrier without waiting since, in whichever set they are. arrived: in
  // the current phase; may_pass: in the last one, so that waiting ends at once.
  uint32_t arrived = 0;
  uint32_t may_pass = 0;
  uint32_t at_named_barrier = 0;
  uint32_t at_group = 0;  // waits for its own asynchronous operations
  uint32_t at_mbarrier = 0;
  Block* block = nullptr;
  Thread* lanes = nullptr;  // the first lane's thread; the others follow it
  WarpClock clock;
};

// A running block. Its object is reused for later blocks; pointers to it and into it stay valid for the launch.
struct Block {
  uint32_t id = 0;      // in the grid, x fastest
  Dim3 index{0, 0, 0};  // blockIdx
  uint32_t rank = 0;    // in its cluster
  Cluster* cluster = nullptr;
  Stamp barrier = 0;      // stamp of the last completed barrier, or of the block's start
  uint32_t interval = 0;  // completed barriers
  uint32_t live = 0;      // threads that have not exited (0: the block has); of these, those in each kind of wait:
  uint32_t polling = 0;
  uint32_t at_barrier = 0;
  uint32_t at_grid_barrier = 0;
  uint32_t arrived_true = 0;     // threads at the barrier whose predicate is true
  Site barrier_site = 0;         // of the first thread at the barrier
  bool barrier_mixed = false;    // some thread is at a different site
  uint32_t barrier_threads = 0;  // threads at the last completed barrier, and how many of them with a true predicate
  uint32_t barrier_true = 0;
  // A thread has arrived at the current phase of the cluster's barrier without waiting at once.
  bool arrived_early = false;
  uint32_t phases_seen = 0;         // phases of the cluster's barrier that a thread of the block has waited for
  std::vector<NamedBarrier> named;  // by number; empty: none was used
  MBarriers mbarriers;              // in its shared memory
  Launch* launch = nullptr;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  BlockClock clock;
  void* front = nullptr;  // the front end's: shared memory
};

// Blocks that run at the same time, on a GPU in one group of multiprocessors, and may access each other's shared
// memory. In a launch without clusters, each block is a cluster of one.
struct Cluster {
  std::vector<Block*> blocks;  // by rank
  std::vector<Block*> turns;   // in the order in which they run
  uint32_t live = 0;           // threads of all its blocks that have not exited
  uint32_t arrived = 0;        // of these, threads that have arrived in the current phase of the barrier
  uint32_t phase = 0;          // completed phases of the barrier
  // Rounds in which all its threads' try_waits have timed out, since this count of Execution's events.
  uint32_t time_outs = 0;
  uint64_t events_at_time_out = 0;
  ClusterClock clock;
  std::unique_ptr<AsyncOperations> operations;  // in flight; null: there were none

  bool has(uint32_t block) const {
    for (const Block* const one : blocks)
      if (one->id == block) return true;
    return false;
  }
  // Threads of its blocks.
  uint32_t polling() const { return sum(&Block::polling); }
  uint32_t at_grid_barrier() const { return sum(&Block::at_grid_barrier); }

 private:
  uint32_t sum(uint32_t Block::* threads) const {
    uint32_t all = 0;
    for (const Block* const block : blocks) all += block->*threads;
    return all;
  }
};

struct Launch {
  std::string kernel;
  Dim3 grid, block;
  Dim3 cluster;  // in blocks; each extent divides the grid's
  uint32_t dynamic_shared_bytes = 0, static_shared_bytes = 0;
  Limits limits;
  uint32_t checks = 0;       // bits of Check in checker.h
  uint64_t seed = 0;         // 0: the natural order
  bool cooperative = false;  // the grid may synchronise: all blocks are resident
  // The clusters that an Execution runs, unless it runs all.
  uint64_t first_cluster = 0, cluster_count = 0;
  // Every store increments `changes`; if not, threads may poll until the front end gives up.
  bool counts_changes = true;
  Stamp now = 1;               // counts synchronising events; 0 is before the launch
  Checker* checker = nullptr;  // null: nothing is checked
  Tally* tally = nullptr;      // findings after which the launch continues; null: it ends with the first
  void* front = nullptr;

  uint64_t clusters() const { return cluster_count != 0 ? cluster_count : grid.size() / cluster.size(); }
  // blockIdx of the block with this rank in cluster number `number`.
  Dim3 block_of_cluster(uint64_t number, uint32_t rank) const {
    const Dim3 clusters{grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z};
    const Dim3 at = clusters.at(number), within = cluster.at(rank);
    return {at.x * cluster.x + within.x, at.y * cluster.y + within.y, at.z * cluster.z + within.z};
  }
  Dim3 thread_index(uint32_t thread_id) const { return block.at(thread_id % block.size()); }
  Dim3 block_index(uint32_t thread_id) const { return grid.at(thread_id / block.size()); }
};

// The CUDA thread that runs on this OS thread; null outside a kernel. Initial-exec, since each memory access reads it.
extern constinit thread_local Thread* current [[gnu::tls_model("initial-exec")]];

// Counts stores, and atomics that changed memory, by both front ends: while it is constant, threads that only poll make
// no progress.
extern constinit thread_local uint64_t changes [[gnu::tls_model("initial-exec")]];

}  // namespace trifold::engine
