// The Checker's records of asynchronous operations: copies and stores that run concurrently with the thread that starts
// them.
//
// An operation acts as a thread, or rather two: its reads and its writes may complete at different times. Both are
// checked against memory's shadow and noted there when it starts, so that the order in which its bytes move does not
// matter. Its accesses are ordered before those of a thread that has waited for it:
//   - Those of a group count as made by its own thread when that waited for the group, and are ordered before other
//     threads' accesses as that thread's are.
//   - Those that a barrier in shared memory counts are a node of the graph, which the barrier's phase releases.
//
// Bulk operations use the async proxy. They may access what a thread has accessed by ordinary instructions, through the
// generic proxy, only after a proxy fence: one of that thread, after its access; or one of another thread, after what
// orders the access before it. (PTX ISA, "Proxies", "Async proxy".)
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../include/trifold/cpu/instructions.h"
#include "model.h"
#include "shadow.h"

namespace trifold::engine {

using cpu::Instruction;

std::string_view name(Instruction instruction);  // PTX's or libcu++'s name

constexpr bool is_of_async_proxy(Instruction instruction) {
  return instruction >= Instruction::cp_async_bulk && instruction <= Instruction::cp_reduce_async_bulk_tensor;
}
// Whether accesses after an operation of the async proxy need a fence. cuda::memcpy_async chooses between cp.async and
// cp.async.bulk itself, so that a program need not know which.
constexpr bool is_of_generic_proxy(Instruction instruction) {
  return !is_of_async_proxy(instruction) && instruction != Instruction::memcpy_async;
}

// The sides of an operation.
enum Side : uint8_t { reads_side, writes_side };

// A thread's operations with a common wait share a row: those of a group, or a single one.
struct OperationRow {
  uint32_t thread = 0;  // that started them
  uint32_t interval = 0;
  Stamp first = 0, last = 0;      // when they were started
  std::array<Stamp, 2> waited{};  // when the thread had waited for each side; 0: not yet
  Knowledge complete = 0;         // the node that releases their completion
  Knowledge issued = 0;           // what they release of the issuer's knowledge
  Stamp complete_at = 0;          // when `complete` was made
  bool awaited = false;           // a barrier of the cluster followed a wait for it
  Instruction instruction = Instruction::cp_async;
  Site site = 0;
};

// Shared memory that an operation reads, writes or signals in; its block must not end before.
struct Use {
  uint32_t row;
  Side side;
  const Block* owner;
  Site site;
};

// A thread's knowledge at a fence between the proxies.
struct ProxyFence {
  Stamp stamp = 0;    // up to which it knew its own accesses
  Stamp barrier = 0;  // its block's
  Stamp cluster = 0;  // its cluster's
  Knowledge acquired = 0;
  uint8_t spaces = 0;        // bits of Space
  std::vector<Stamp> mates;  // those of its warp's lanes; empty: no more than the block's
};

struct ProxyFences {
  static constexpr size_t kept = 16;

  Stamp dropped = 0;  // the last discarded one
  std::vector<ProxyFence> fences;
};

class OperationClocks {
 public:
  static constexpr uint32_t rows_kept = 1 << 16;  // before one is reused

  static uint32_t id(uint32_t row, Side side) { return first_operation + 2 * row + side; }

  uint32_t add(const Thread& issuer, Instruction instruction, Site site, Stamp now);
  // Stamps restart: everything until now gets this stamp.
  void start_again(Stamp past);
  OperationRow& operator[](uint32_t row) { return rows_[row]; }
  const OperationRow& of(uint32_t id) const { return rows_[(id - first_operation) / 2]; }

  // A thread's known completion of an operation that a barrier counted, cached since its memory is accessed repeatedly.
  struct Known {
    uint32_t thread = nobody, operation = 0;
    Stamp stamp = 0;
  };
  Known& known(uint32_t thread, uint32_t operation) {
    return known_[(thread * 4 + (operation >> 1) % 4) % known_.size()];
  }

  std::vector<Use> uses;
  size_t uses_checked_at = 256;                                   // at this size, those waited for are removed
  std::unordered_map<uint32_t, std::vector<ProxyFences>> fences;  // of a block's threads, by Block::id
  Stamp fences_since = 0;                                         // earlier accesses count as fenced
  // The lines of operations and of earlier accesses that only the issuer's fence separates.
  std::set<std::pair<Site, Site>> late_fences;

 private:
  std::vector<OperationRow> rows_;
  uint32_t next_ = 0;
  std::array<Known, 4096> known_{};
};

}  // namespace trifold::engine
