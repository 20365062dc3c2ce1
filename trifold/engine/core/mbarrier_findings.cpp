// Execution's findings for barriers in shared memory: misuse, and waits that nothing ends.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "execution.h"

namespace trifold::engine {
namespace {

constexpr size_t barriers_shown = 8;

std::string bytes_text(int64_t transactions) {
  if (transactions == 0) return "";
  if (transactions > 0) return std::to_string(transactions) + " bytes are missing";
  return std::to_string(-transactions) + " bytes have come that it does not expect";
}

// "waits at", "arrives at": an operation as the verb of a sentence.
std::string verb(Operation operation) {
  switch (operation) {
    case Operation::mbarrier_init: return "initialises";
    case Operation::mbarrier_inval: return "invalidates";
    case Operation::mbarrier_arrive: return "arrives at";
    case Operation::mbarrier_expect: return "lets bytes be expected at";
    case Operation::mbarrier_complete: return "completes bytes at";
    case Operation::mbarrier_test:
    case Operation::mbarrier_wait: return "waits at";
    default: return "signals";
  }
}

}  // namespace

Access Execution::access(const Actor& by) const {
  Access made;
  made.thread = launch_.block.at(by.thread->index);
  made.block = by.thread->block->index;
  made.interval = by.thread->block->interval;
  made.operation = name(by.operation);
  made.location = front_.locate(by.site);
  return made;
}

// `what` continues a sentence that has named the barrier. other: an earlier operation on the barrier because of which
// this one is an error.
void Execution::misuse(const Actor& by, const Block& owner, uint32_t offset, std::string what, const Actor* other) {
  Finding found = finding(Kind::barrier_misuse, Severity::error);
  found.memory = name(Space::shared);
  found.accesses.push_back(access(by));
  if (other != nullptr) found.accesses.push_back(access(*other));
  const Access& at = found.accesses[0];
  found.message += who(at, false) + " " + verb(by.operation) + " the mbarrier " + front_.name_of_shared(owner, offset) +
                   " of " + (&owner == by.thread->block ? "its block" : "block " + coordinates(owner.index)) + ", at " +
                   where(at.location) + ", " + what;
  if (other != nullptr) {
    const Access& before = found.accesses[1];
    found.message +=
        " (" + who(before, false) + " " + verb(other->operation) + " it at " + where(before.location) + ")";
  }
  go_on_after(std::move(found), by.site);
}

// One line per barrier of the block at which threads wait.
std::string Execution::mbarriers(const Block& block) const {
  std::string text;
  size_t shown = 0, others = 0;
  for (const auto& [offset, barrier] : block.mbarriers) {
    if (barrier.waiting.empty()) continue;
    if (shown++ >= barriers_shown) {
      ++others;
      continue;
    }
    const uint32_t come = barrier.expected - barrier.pending;
    const std::string bytes = bytes_text(barrier.transactions);
    text += "\n  mbarrier " + front_.name_of_shared(block, offset) + ": to phase " + std::to_string(barrier.phase) +
            ", " + std::to_string(come) + " of " + std::to_string(barrier.expected) +
            (barrier.expected == 1 ? " arrival has come" : " arrivals have come") + (bytes.empty() ? "" : ", and ") +
            bytes;
  }
  if (others != 0) text += "\n  and " + std::to_string(others) + " more";
  return text;
}

// No thread of the cluster can run, and some wait at barriers in shared memory.
void Execution::stuck_at_mbarriers(const Cluster& cluster) {
  const bool alone = cluster.blocks.size() == 1;
  Finding found = finding(Kind::deadlock, Severity::error);
  found.message += alone ? "no thread of block " + coordinates(cluster.blocks[0]->index) + " can go on."
                         : "no thread of a cluster can go on.";
  for (const Block* const block : cluster.blocks) {
    if (!alone) found.message += "\n block " + coordinates(block->index) + ":";
    found.message += mbarriers(*block) + waiting(found, *block);
  }
  found.message +=
      "\nA phase of an mbarrier ends when as many arrivals have come as it was initialised for, and as many bytes as "
      "were expected: see that the count is that of the threads that arrive, that the bytes are those of the copies, "
      "and that each wait asks for the parity of the barrier's own phase.";
  throw Fault(std::move(found));
}

}  // namespace trifold::engine
