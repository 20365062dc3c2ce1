// Named barriers: arrivals, and findings for barriers that never complete.
#include <string>
#include <utility>

#include "checker.h"
#include "execution.h"

namespace trifold::engine {

namespace {

// Numbers after those of PTX, for the cooperative groups of several warps that a block of 1024 threads has at most: 16
// of 64 threads, 8 of 128, and so on (trifold/cpu/tiles.h).
constexpr uint32_t barriers_of_tiles = 31;

std::string named(uint32_t number, uint32_t threads) {
  return number < named_barriers ? "barrier " + std::to_string(number)
                                 : "the barrier of a tile of " + std::to_string(threads) + " threads";
}

}  // namespace

// The request's lane and clamp are its number and thread count.
void Execution::arrive_at_named_barrier(Thread& thread) {
  Block& block = *thread.block;
  const Request& request = thread.request;
  if (block.named.empty()) block.named.resize(named_barriers + barriers_of_tiles);
  NamedBarrier& barrier = block.named[request.lane];
  if (barrier.arrived == 0) {
    barrier.threads = request.clamp;
    barrier.first = &thread;
    barrier.first_site = thread.waiting_at;
  } else if (barrier.threads != request.clamp) {
    different_counts(barrier, thread);
  }
  ++barrier.arrived;
  barrier.arrived_true += request.predicate ? 1 : 0;
  if (launch_.checker != nullptr) launch_.checker->arrive(thread, barrier.clock);
  const uint32_t lane = 1u << thread.lane;
  if (static_cast<Operation>(request.operation) == Operation::named_arrive) {
    thread.warp->ready |= lane;
  } else {
    thread.warp->at_named_barrier |= lane;
    barrier.waiting.push_back(&thread);
  }
  if (barrier.arrived == barrier.threads) complete_named_barrier(block, barrier);
}

void Execution::complete_named_barrier(Block& block, NamedBarrier& barrier) {
  if (launch_.checker != nullptr) launch_.checker->pass(block, barrier.clock, barrier.waiting);
  for (Thread* const thread : barrier.waiting) {
    const uint32_t lane = 1u << thread->lane;
    thread->request.value = barrier.arrived_true;
    thread->warp->at_named_barrier &= ~lane;
    thread->warp->ready |= lane;
  }
  barrier.waiting.clear();
  barrier.arrived = barrier.arrived_true = 0;
}

void Execution::different_counts(const NamedBarrier& barrier, const Thread& thread) {
  Finding found = finding(Kind::barrier_divergence, Severity::error);
  found.accesses = {access(thread), access(*barrier.first)};
  found.accesses[1].location = front_.locate(barrier.first_site);
  const auto described = [&](const Access& at, uint32_t count) {
    return "\n  " + who(at, false) + " with " + std::to_string(count) + " at " + where(at.location);
  };
  found.message += "threads come to barrier " + std::to_string(thread.request.lane) + " with different counts." +
                   described(found.accesses[1], barrier.threads) + described(found.accesses[0], thread.request.clamp) +
                   "\nAll that come to a barrier, to wait there or only to arrive, say how many they are in all: let "
                   "them give the same count.";
  go_on_after(std::move(found), thread.waiting_at);
}

// No thread of the block can run, and some wait at named barriers.
void Execution::stuck_at_named_barriers(const Block& block) {
  Finding found = finding(Kind::deadlock, Severity::error);
  found.message += "no thread of block (" + std::to_string(block.index.x) + ", " + std::to_string(block.index.y) +
                   ", " + std::to_string(block.index.z) + ") can go on.";
  for (uint32_t number = 0; number < block.named.size(); ++number) {
    const NamedBarrier& barrier = block.named[number];
    if (barrier.waiting.empty()) continue;
    found.message += "\n  " + named(number, barrier.threads) + " waits for " + std::to_string(barrier.threads) +
                     " threads, and " + std::to_string(barrier.arrived) + (barrier.arrived == 1 ? " has" : " have") +
                     " come";
  }
  found.message += waiting(found, block) +
                   "\nA barrier with a number lets its threads go when as many have come as its count says, those "
                   "that wait and those that only arrive: let the count be the number of all of them.";
  throw Fault(std::move(found));
}

}  // namespace trifold::engine
