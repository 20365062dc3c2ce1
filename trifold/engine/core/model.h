// A launch as both front ends see it: coordinates, threads, warps, blocks. Plain data; execution.h runs it, checker.h
// watches it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clock.h"

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
  bool operator==(const Dim3&) const = default;
};

// A line of source, as an index into the launch's table of sites; 0 is unknown.
using Site = uint16_t;

struct Block;
struct Checker;
struct Launch;
struct Warp;

enum class State : uint8_t {
  ready,            // may run, or runs
  polling,          // reads again and again what another thread has to write
  at_barrier,       // of its block
  at_rendezvous,    // of its warp
  at_active_mask,   // of its warp: waits to see which other lanes come to this line
  at_grid_barrier,  // of its launch
  exited,
};

// What a waiting thread asks for and, once it is ready again, what it got. Payloads are bit patterns of 64 bits.
struct Request {
  uint8_t operation = 0;   // execution.h's Operation
  bool predicate = false;  // barrier reductions and votes; match_all's answer
  uint32_t mask = 0;       // lanes named by a warp operation
  int32_t lane = 0;        // a shuffle's source lane, delta or xor mask
  uint32_t width = warp_size;
  uint64_t value = 0;  // operand (match), then the answer: a mask, a count, a shuffle's source lane
};

struct Thread {
  uint32_t id = 0;     // in the launch: block.id * threads a block + index
  uint32_t index = 0;  // in the block, x fastest
  uint8_t lane = 0;
  State state = State::ready;
  Site waiting_at = 0;  // where it waits, or waited last
  Warp* warp = nullptr;
  Block* block = nullptr;
  ThreadClock clock;
  Request request;
  void* front = nullptr;  // the front end's: a generator, a fiber
};

struct Warp {
  uint32_t index = 0;   // in the block
  uint32_t exists = 0;  // lanes that were launched: fewer than 32 in a block's last warp
  uint32_t live = 0;    // lanes that have not exited
  Block* block = nullptr;
  Thread* lanes = nullptr;  // the first lane's thread; the others follow it
  WarpClock clock;
};

// A block that runs. Its object is used again for a later block; pointers to it and into it stay valid for the launch.
struct Block {
  uint32_t id = 0;        // in the grid, x fastest
  Dim3 index{0, 0, 0};    // blockIdx
  Stamp barrier = 0;      // of the last barrier that completed, or of the block's start
  uint32_t interval = 0;  // barriers completed so far
  uint32_t live = 0;      // threads that have not exited
  Launch* launch = nullptr;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  BlockClock clock;
  void* front = nullptr;  // the front end's: shared memory
};

struct Launch {
  std::string kernel;
  Dim3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
  uint32_t checks = 0;         // bits of Check in checker.h
  uint64_t seed = 0;           // 0: the natural order
  bool cooperative = false;    // the grid may synchronise: all blocks are resident
  Stamp now = 1;               // counts synchronising events; 0 is before the launch
  Checker* checker = nullptr;  // null: nothing is checked
  void* front = nullptr;

  Dim3 thread_index(uint32_t thread_id) const { return block.at(thread_id % block.size()); }
  Dim3 block_index(uint32_t thread_id) const { return grid.at(thread_id / block.size()); }
};

// The CUDA thread that runs on this OS thread; null outside a kernel. Initial-exec: each access of memory reads it.
extern constinit thread_local Thread* current [[gnu::tls_model("initial-exec")]];

}  // namespace trifold::engine
