// A launch as both front ends see it: coordinates, threads, warps, blocks. Plain data; execution.h runs it, checker.h
// watches it.
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
  // The coordinate of the thread or block with this linear number in a volume of these extents; x runs fastest.
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

// What a device lets a launch have; in the order of the compute capability's table. sm_90 (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability"), on a chip with the H200's multiprocessors.
struct Limits {
  uint32_t static_shared_bytes = 48 << 10;  // of a block's shared arrays of fixed shape
  uint32_t shared_bytes = 227 << 10;        // of all of a block's shared memory
  uint32_t multiprocessors = 132;
  uint32_t threads = 2048;  // resident on a multiprocessor
  uint32_t blocks = 32;
  uint32_t multiprocessor_shared_bytes = 228 << 10;  // of which each resident block takes 1 KiB more than it asks for
};

// What a waiting thread asks for and, once it is ready again, what it got.
struct Request {
  uint8_t operation = 0;  // execution.h's Operation
  // Of a reduction or a vote; then the answer of any, all, and whether a shuffle's lane is in range.
  bool predicate = false;
  bool undefined = false;  // answer of a shuffle: the source lane took no part, so CUDA does not say what it gives
  uint8_t source = 0;      // answer of a shuffle: the source lane
  bool pair = false;       // the front end's: how to hand the answer over
  uint32_t mask = 0;       // lanes named by a warp operation
  uint32_t lane = 0;       // of a shuffle: source lane, delta or xor mask
  uint32_t clamp = 0x1f;   // of a shuffle: operand c of PTX's shfl.sync
  uint32_t looks = 1;      // of a poll: how often the thread has looked at memory since its last one
  uint64_t value = 0;      // operand of a match; then the answer: a mask or a count
};

// What only a thread's next steps can tell of its last ones: bits of Thread::undecided (checker.h).
enum Undecided : uint8_t {
  undecided_write = 1,  // the front end's: whether it left other bits than it found
  undecided_reads = 2,  // the Checker's: whether a compare-and-swap follows
};

struct Thread {
  uint32_t id = 0;      // in the launch: block.id * threads a block + index
  uint32_t index = 0;   // in the block, x fastest
  Dim3 place{0, 0, 0};  // threadIdx: three divisions that a kernel would ask for again and again
  uint8_t lane = 0;
  uint8_t undecided = 0;  // bits of Undecided
  Site waiting_at = 0;    // where it waits, or waited last
  Warp* warp = nullptr;
  Block* block = nullptr;
  ThreadClock clock;
  Request request;
  std::unique_ptr<GroupsOfThread> groups;  // of asynchronous operations; null: it has started none
  void* front = nullptr;                   // the front end's: a generator, a fiber
  void* operand = nullptr;                 // the front end's: what a shuffle exchanges
};

// Each live lane is in one of the sets below it, one bit a lane.
struct Warp {
  uint32_t index = 0;           // in the block
  uint32_t exists = 0;          // lanes that were launched: fewer than 32 in a block's last warp
  uint32_t live = 0;            // lanes that have not exited
  uint32_t ready = 0;           // may run, or runs
  uint32_t polling = 0;         // reads again and again what another thread has to write
  uint32_t at_barrier = 0;      // of the block
  uint32_t at_rendezvous = 0;   // of the warp
  uint32_t at_active_mask = 0;  // waits to see which other lanes come to its line
  uint32_t at_grid_barrier = 0;
  uint32_t at_cluster_barrier = 0;
  // Live lanes that have arrived at the cluster's barrier and not waited since, whatever they do meanwhile: in its
  // present phase, or in the last one, so that the wait is over at once.
  uint32_t arrived = 0;
  uint32_t may_pass = 0;
  uint32_t at_named_barrier = 0;
  uint32_t at_group = 0;  // waits for asynchronous operations of its own
  uint32_t at_mbarrier = 0;
  Block* block = nullptr;
  Thread* lanes = nullptr;  // the first lane's thread; the others follow it
  WarpClock clock;
};

// A block that runs. Its object is used again for a later block; pointers to it and into it stay valid for the launch.
struct Block {
  uint32_t id = 0;      // in the grid, x fastest
  Dim3 index{0, 0, 0};  // blockIdx
  uint32_t rank = 0;    // in its cluster
  Cluster* cluster = nullptr;
  Stamp barrier = 0;      // of the last barrier that completed, or of the block's start
  uint32_t interval = 0;  // barriers completed so far
  uint32_t live = 0;      // threads that have not exited (0: the block has), and of these the ones that wait:
  uint32_t polling = 0;
  uint32_t at_barrier = 0;
  uint32_t at_grid_barrier = 0;
  uint32_t arrived_true = 0;     // whose predicate is true, of those at the barrier
  Site barrier_site = 0;         // of the first that came to the barrier
  bool barrier_mixed = false;    // another one came to another site
  uint32_t barrier_threads = 0;  // that came to the last complete barrier, and how many of them with a true predicate
  uint32_t barrier_true = 0;
  // In this phase of the cluster's barrier a thread has arrived without waiting at once.
  bool arrived_early = false;
  uint32_t phases_seen = 0;         // phases of the cluster's barrier whose end a thread of the block has waited for
  std::vector<NamedBarrier> named;  // by their numbers; empty: none was used
  MBarriers mbarriers;              // in its shared memory
  Launch* launch = nullptr;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  BlockClock clock;
  void* front = nullptr;  // the front end's: shared memory
};

// Blocks that run at the same time, on a GPU on neighbouring multiprocessors, and may access each other's shared
// memory. Of a launch without clusters, each block is a cluster of one.
struct Cluster {
  std::vector<Block*> blocks;  // by rank
  std::vector<Block*> turns;   // the order in which they run
  uint32_t live = 0;           // threads of all its blocks that have not exited, and of these
  uint32_t arrived = 0;        // the ones that have arrived at the barrier's present phase
  uint32_t phase = 0;          // phases of the barrier that have ended
  // Rounds in which the time of all its threads' try_waits has run out, since this count of Execution's events.
  uint32_t time_outs = 0;
  uint64_t events_at_time_out = 0;
  ClusterClock clock;
  std::unique_ptr<AsyncOperations> operations;  // that are under way; null: there was none

  bool has(uint32_t block) const {
    for (const Block* const one : blocks)
      if (one->id == block) return true;
    return false;
  }
  // Of its blocks' threads.
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
  Dim3 cluster;  // of blocks; each extent divides the grid's
  uint32_t dynamic_shared_bytes = 0, static_shared_bytes = 0;
  Limits limits;
  uint32_t checks = 0;       // bits of Check in checker.h
  uint64_t seed = 0;         // 0: the natural order
  bool cooperative = false;  // the grid may synchronise: all blocks are resident
  // The clusters that an Execution runs, where it does not run all.
  uint64_t first_cluster = 0, cluster_count = 0;
  // Every store counts in `changes`; else threads may poll for as long as the front end does not give up.
  bool counts_changes = true;
  Stamp now = 1;               // counts synchronising events; 0 is before the launch
  Checker* checker = nullptr;  // null: nothing is checked
  Tally* tally = nullptr;      // of findings after which the launch goes on; null: it ends with the first
  void* front = nullptr;

  uint64_t clusters() const { return cluster_count != 0 ? cluster_count : grid.size() / cluster.size(); }
  // blockIdx of the block with this rank in the cluster with this number.
  Dim3 block_of_cluster(uint64_t number, uint32_t rank) const {
    const Dim3 clusters{grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z};
    const Dim3 at = clusters.at(number), within = cluster.at(rank);
    return {at.x * cluster.x + within.x, at.y * cluster.y + within.y, at.z * cluster.z + within.z};
  }
  Dim3 thread_index(uint32_t thread_id) const { return block.at(thread_id % block.size()); }
  Dim3 block_index(uint32_t thread_id) const { return grid.at(thread_id / block.size()); }
};

// The CUDA thread that runs on this OS thread; null outside a kernel. Initial-exec: each access of memory reads it.
extern constinit thread_local Thread* current [[gnu::tls_model("initial-exec")]];

// Counts the stores, and the atomics that left another value: threads that only poll while it stands still make no
// progress. Each front end's stores increment it.
extern constinit thread_local uint64_t changes [[gnu::tls_model("initial-exec")]];

}  // namespace trifold::engine
