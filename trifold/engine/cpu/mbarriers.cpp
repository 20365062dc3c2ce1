// The functions by which kernels use barriers in shared memory, and 32-bit addresses of shared memory.
#include <string>

#include "../core/checker.h"
#include "../core/execution.h"
#include "faults.h"
#include "front.h"
#include "memory.h"
#include "sites.h"

namespace trifold::cpu {

using engine::AccessType;
using engine::Block;
using engine::Operation;
using engine::Thread;

namespace {

// The upper byte of an address is the rank of the block whose window it is in.
constexpr uint32_t rank_shift = 24;
constexpr uint32_t offset_mask = (uint32_t{1} << rank_shift) - 1;

engine::Checker* checker() {
  return engine::current->block->launch->checker;
}

}  // namespace

// ------------------------------------------------------------------------------------------------- addresses

uint32_t shared_address(const void* memory, Line line) {
  begin_operation(Operation::shared_address, line);
  const Block& own = *engine::current->block;
  if (const uint32_t offset = turn->front->offset_in(own, memory); offset != 0) return offset;
  for (const Block* const block : own.cluster->blocks)
    if (const uint32_t offset = turn->front->offset_in(*block, memory); offset != 0)
      return (block->rank + 1) << rank_shift | offset;
  if (checker() == nullptr) stop_launch("a pointer to other memory, converted to an address of shared memory,", line);
  wrong_shared_address(
      engine::current->waiting_at,
      "a pointer that leads to no shared memory of its block or cluster, and converts it to an address "
      "of shared memory.");
  return 0;
}

void* shared_memory(uint32_t address, bool own_only, Line line) {
  begin_operation(Operation::shared_address, line);
  const Block& own = *engine::current->block;
  const uint32_t rank = address >> rank_shift;
  if (rank == 0) return turn->front->at_offset(own, address);
  if (rank > own.cluster->blocks.size()) {
    if (checker() == nullptr) stop_launch("an address of shared memory of a rank that no block has", line);
    wrong_shared_address(engine::current->waiting_at,
                         "an address of block " + std::to_string(rank - 1) + " of its cluster, which has " +
                             std::to_string(own.cluster->blocks.size()) + ": mapa makes such addresses.");
    return nullptr;
  }
  const Block& owner = *own.cluster->blocks[rank - 1];
  if (own_only && &owner != &own) {
    if (checker() == nullptr)
      stop_launch("an address of shared memory of another block, in an instruction for its own only,", line);
    wrong_shared_address(engine::current->waiting_at,
                         "the address of shared memory of block " + std::to_string(rank - 1) +
                             " of its cluster, in an instruction for its own block's only (.shared is .shared::cta): "
                             "write .shared::cluster, for what mapa gives.");
  }
  return turn->front->at_offset(owner, address & offset_mask);
}

uint32_t map_shared_address(uint32_t address, unsigned rank, Line line) {
  begin_operation(Operation::shared_address, line);
  if (rank >= engine::current->block->cluster->blocks.size())
    stop_launch("a rank that no block of the cluster has, for mapa,", line);
  return (rank + 1) << rank_shift | (address & offset_mask);
}

unsigned rank_of_shared_address(uint32_t address, Line line) {
  begin_operation(Operation::shared_address, line);
  const uint32_t rank = address >> rank_shift;
  return rank == 0 ? engine::current->block->rank : rank - 1;
}

bool is_shared(const void* memory, bool of_cluster, Line line) {
  begin_operation(Operation::shared_address, line);
  const Block* const owner = turn->front->owner_of_shared(memory);
  return owner != nullptr && (of_cluster || owner == engine::current->block);
}

bool is_in_window(uint32_t address, Line line) {
  constexpr uint32_t most_shared_bytes = 256 << 10, most_blocks = 16;  // of a cluster
  const bool may_be = address >> rank_shift <= most_blocks && (address & offset_mask) < most_shared_bytes;
  return may_be && !is_shared(reinterpret_cast<const void*>(uintptr_t{address}), true, line);
}

bool is_local(const void* memory) {
  return turn != nullptr && turn->running() != nullptr && turn->running()->holds(reinterpret_cast<uintptr_t>(memory));
}

// ------------------------------------------------------------------------------------------------- barriers

namespace {

// A barrier that the running thread names; owner null: it is invalid, which has been reported. `awaited`: the operation
// releases nothing, but a thread that waits for the phase knows that it has happened.
struct Named {
  Block* owner = nullptr;
  uint32_t offset = 0;
  Region* region = nullptr;  // null: nothing is checked
};

Named named(void* barrier, Operation operation, Line line, bool awaited = false) {
  begin_operation(operation, line);
  Thread& thread = *engine::current;
  const engine::Block* const owner = turn->front->owner_of_shared(barrier);
  constexpr std::string_view where = "a barrier lies in shared memory.";
  if (checker() == nullptr) {
    if (owner == nullptr) stop_launch("an mbarrier that is not in shared memory", line);
    return {const_cast<Block*>(owner), turn->front->offset_in(*owner, barrier), nullptr};
  }
  const auto address = reinterpret_cast<uintptr_t>(barrier);
  constexpr size_t n = engine::mbarrier_bytes;
  Region* region = turn->front->running->holds(address) ? nullptr : checked_memory->find(address, n);
  if (region == nullptr && owner != nullptr)
    region = peer_region(address, n, AccessType::atomic, thread.waiting_at, awaited);
  if (region != nullptr && region->shared)
    return {const_cast<Block*>(owner), turn->front->offset_in(*owner, barrier), region};
  if (owner == nullptr) not_for_operation(address, n, thread.waiting_at, where);
  return {};
}

// The core's accesses are not the kernel's, although the linker may make it use the kernel's copy of a template.
template <class Work>
auto by_core(Work work) {
  struct Back {
    ~Back() { turn->front->proceed(); }
  } back;
  turn->front->interrupt();
  return work(*turn->front->execution);
}

engine::MBarrier* live_at(const Named& place) {
  const auto found = place.owner->mbarriers.find(place.offset);
  return found != place.owner->mbarriers.end() && found->second.live ? &found->second : nullptr;
}

}  // namespace

void init_mbarrier(void* barrier, unsigned count, Line line) {
  const Named place = named(barrier, Operation::mbarrier_init, line);
  if (place.owner == nullptr) return;
  Thread& thread = *engine::current;
  const auto address = reinterpret_cast<uintptr_t>(barrier);
  if (place.region != nullptr && live_at(place) == nullptr) {
    // Checked as a write: other accesses of these bytes must not race with it.
    const auto check = [&] {
      return checker()->write(*place.region->buffer, address, engine::mbarrier_bytes, thread, thread.waiting_at);
    };
    if (!check()) [[unlikely]]
      refused(*place.region, engine::mbarrier_bytes, thread.waiting_at, check);
  }
  by_core([&](engine::Execution& core) { core.init_mbarrier(thread, *place.owner, place.offset, count); });
  if (place.region != nullptr && live_at(place) != nullptr)
    checker()->mark_mbarrier(*place.region->buffer, address, thread.waiting_at);
}

void invalidate_mbarrier(void* barrier, Line line) {
  const Named place = named(barrier, Operation::mbarrier_inval, line);
  if (place.owner == nullptr) return;
  const bool was = live_at(place) != nullptr;
  by_core([&](engine::Execution& core) { core.invalidate_mbarrier(*engine::current, *place.owner, place.offset); });
  if (was && place.region != nullptr)
    checker()->unmark_mbarrier(*place.region->buffer, reinterpret_cast<uintptr_t>(barrier));
}

uint64_t arrive_at_mbarrier(void* barrier, const MBarrierArrival& arrival, Line line) {
  const Named place = named(barrier, Operation::mbarrier_arrive, line, arrival.relaxed);
  if (place.owner == nullptr) return 0;
  const engine::Arrival made{.count = arrival.count,
                             .bytes = arrival.bytes,
                             .expects = arrival.expects,
                             .drops = arrival.drops,
                             .must_not_complete = arrival.must_not_complete,
                             .relaxed = arrival.relaxed,
                             .scope = arrival.of_cluster ? engine::cluster_scope : engine::block_scope,
                             .own_only = arrival.own_only};
  return by_core([&](engine::Execution& core) {
    return core.arrive_at_mbarrier(*engine::current, *place.owner, place.offset, made).bits();
  });
}

void expect_at_mbarrier(void* barrier, unsigned bytes, bool own_only, Line line) {
  const Named place = named(barrier, Operation::mbarrier_expect, line, true);
  if (place.owner == nullptr) return;
  by_core([&](engine::Execution& core) {
    core.expect_at_mbarrier(*engine::current, *place.owner, place.offset, bytes, own_only);
  });
}

void complete_at_mbarrier(void* barrier, unsigned bytes, bool own_only, Line line) {
  const Named place = named(barrier, Operation::mbarrier_complete, line, true);
  if (place.owner == nullptr) return;
  by_core([&](engine::Execution& core) {
    core.complete_at_mbarrier(*engine::current, *place.owner, place.offset, bytes, own_only);
  });
}

bool wait_at_mbarrier(void* barrier, const MBarrierPhase& phase, Line line) {
  const Named place = named(barrier, Operation::mbarrier_test, line);
  if (place.owner == nullptr) return true;
  Thread& thread = *engine::current;
  const bool tries = phase.patience == Patience::tries;
  engine::MBarrierWait wait{.owner = place.owner,
                            .offset = place.offset,
                            .phase = 0,
                            .scope = phase.of_cluster ? engine::cluster_scope : engine::block_scope,
                            .may_fail = tries};
  bool ended = by_core([&](engine::Execution& core) {
    return phase.by_parity ? core.has_ended(thread, wait, static_cast<uint32_t>(phase.of))
                           : core.has_ended(thread, wait, engine::MBarrierState::of(phase.of));
  });
  if (!ended) {
    if (phase.patience == Patience::none) {
      look(__builtin_return_address(0));
      return false;
    }
    if (tries && turn->front->execution->fails_try_wait()) return false;
    ended = wait_for_phase(wait, line);
  }
  if (ended) turn->front->execution->saw_end(wait);
  return ended;
}

void fence_mbarrier_inits(Line line) {
  begin_operation(Operation::shared_address, line);
  by_core([](engine::Execution& core) { core.fence_mbarrier_inits(*engine::current); });
}

}  // namespace trifold::cpu
