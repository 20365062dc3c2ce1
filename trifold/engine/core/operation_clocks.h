// What the Checker knows of asynchronous operations: copies and stores that go on beside the thread that starts them.
//
// An operation is a thread of its own, or rather two: what it reads and what it writes may be complete at different
// times. Both are checked against memory's shadow when it starts and noted there, so that the order in which its bytes
// move does not matter. From then on, its accesses are ordered before those of a thread that has waited for it:
//   - Those of a group are as if its own thread had made them when it waited for the group, and are then ordered before
//     others as that thread's are.
//   - Those that a barrier in shared memory counts are a node of the graph, which the barrier's phase hands on.
//
// Bulk operations go through the async proxy. What a thread has accessed by ordinary instructions, through the generic
// proxy, they may touch if besides a proxy fence lies between: of that thread, behind its access; or of another one,
// behind what orders the access before it. (PTX ISA, "Proxies", "Async proxy".)
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model.h"
#include "shadow.h"

namespace trifold::engine {

enum class Instruction : uint8_t {
  cp_async,
  cp_async_bulk,
  cp_reduce_async_bulk,
  st_async,
  red_async,
  memcpy_async,
};

std::string_view name(Instruction instruction);  // as PTX or libcu++ calls it

constexpr bool is_of_async_proxy(Instruction instruction) {
  return instruction == Instruction::cp_async_bulk || instruction == Instruction::cp_reduce_async_bulk;
}
// Whether what follows an operation through the async proxy needs a fence. cuda::memcpy_async makes its own choice
// between cp.async and cp.async.bulk, of which a program need not know.
constexpr bool is_of_generic_proxy(Instruction instruction) {
  return !is_of_async_proxy(instruction) && instruction != Instruction::memcpy_async;
}

// The sides of an operation.
enum Side : uint8_t { reads_side, writes_side };

// The operations of a thread that one wait is for share a row: a group's, or a single one.
struct OperationRow {
  uint32_t thread = 0;  // that started them
  uint32_t interval = 0;
  Stamp first = 0, last = 0;      // when it did
  std::array<Stamp, 2> waited{};  // when it had waited for each side; 0: not yet
  Knowledge complete = 0;         // the node that says so to others
  Knowledge issued = 0;           // what it passes on of its issuer's knowledge
  Stamp complete_at = 0;          // when that was made
  bool awaited = false;           // a barrier of the cluster lies behind a wait for it
  Instruction instruction = Instruction::cp_async;
  Site site = 0;
};

// Shared memory that an operation reads or writes, or where it will signal; its block must not end before.
struct Use {
  uint32_t row;
  Side side;
  const Block* owner;
  Site site;
};

// What a thread knew when it fenced between the proxies.
struct ProxyFence {
  Stamp stamp = 0;    // its own accesses up to here
  Stamp barrier = 0;  // those of its block
  Stamp cluster = 0;  // those of its cluster
  Knowledge acquired = 0;
  uint8_t spaces = 0;        // bits of Space
  std::vector<Stamp> mates;  // those of its warp's lanes; empty: nothing beyond the block's
};

struct ProxyFences {
  static constexpr size_t kept = 16;

  Stamp dropped = 0;  // the last that is not there any more
  std::vector<ProxyFence> fences;
};

class OperationClocks {
 public:
  static constexpr uint32_t rows_kept = 1 << 16;  // before one is used again

  static uint32_t id(uint32_t row, Side side) { return first_operation + 2 * row + side; }

  uint32_t add(const Thread& issuer, Instruction instruction, Site site, Stamp now);
  // Stamps count from the start: all that was until now was then.
  void start_again(Stamp past);
  OperationRow& operator[](uint32_t row) { return rows_[row]; }
  const OperationRow& of(uint32_t id) const { return rows_[(id - first_operation) / 2]; }

  // What a thread was found to know of an operation that a barrier counted: its memory is accessed again and again.
  struct Known {
    uint32_t thread = nobody, operation = 0;
    Stamp stamp = 0;
  };
  Known& known(uint32_t thread, uint32_t operation) {
    return known_[(thread * 4 + (operation >> 1) % 4) % known_.size()];
  }

  std::vector<Use> uses;
  size_t uses_checked_at = 256;                                   // so many: those that have been waited for go
  std::unordered_map<uint32_t, std::vector<ProxyFences>> fences;  // by Block::id, of its threads
  Stamp fences_since = 0;                                         // earlier accesses count as fenced
  // The lines of operations and of earlier accesses that only the issuer's fence keeps apart.
  std::set<std::pair<Site, Site>> late_fences;

 private:
  std::vector<OperationRow> rows_;
  uint32_t next_ = 0;
  std::array<Known, 4096> known_{};
};

}  // namespace trifold::engine
