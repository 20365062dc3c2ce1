// The functions by which kernels start asynchronous operations and wait for them.
#include <trifold/cpu/asynchronous.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "../core/checker.h"
#include "faults.h"
#include "front.h"
#include "memory.h"
#include "sites.h"
#include "skip.h"

namespace trifold::cpu {
namespace {

using engine::AccessType;
using engine::Block;
using engine::Checker;
using engine::Operation;
using engine::Thread;

static_assert(global_proxy == 1 << static_cast<int>(engine::Space::global) &&
              shared_proxy == 1 << static_cast<int>(engine::Space::shared));

// The running thread, with the operation's line noted. From here on the core runs the launch.
Turn& come(Line line) {
  begin_operation(Operation::async_start, line);
  return *turn;
}

// The barrier in shared memory that an operation names, which must belong to this block; null: a finding was reported.
engine::MBarrier* mbarrier_at(void* barrier, const Block* of, Line line) {
  CpuFront& front = *turn->front;
  auto* const owner = const_cast<Block*>(front.owner_of_shared(barrier));
  if (owner != nullptr && (of == nullptr || owner == of))
    return front.execution->find_mbarrier(*engine::current, *owner, front.offset_in(*owner, barrier), false);
  const char* const why = owner == nullptr
                              ? "a barrier lies in shared memory."
                              : "the barrier that counts an operation's bytes lies in shared memory of the "
                                "block that they go to.";
  if (checked_memory == nullptr) stop_launch(why, line);
  not_for_operation(reinterpret_cast<uintptr_t>(barrier), engine::mbarrier_bytes, engine::current->waiting_at, why);
  return nullptr;
}

GroupKind kind_of(const Asynchronous& asked) {
  return is_of_copies(asked.instruction) ? GroupKind::copies : GroupKind::bulk;
}

// The thread whose next operation may read whole vectors of 16 bytes although it may not read each of their bytes.
const Thread* reads_neighbours = nullptr;

// One side of an operation, as the checks need it.
struct Accessed {
  uintptr_t address;
  size_t n;
  AccessType type;
};

// Decides whether the operation may start.
class Check {
 public:
  Check(const Asynchronous& asked, Thread& thread, engine::Site site)
      : asked_(asked),
        thread_(thread),
        checker_(*thread.block->launch->checker),
        site_(site),
        neighbours_(reads_neighbours == &thread) {}

  bool form() {
    if (asked_.bytes % asked_.unit == 0) return true;
    odd_size_of_operation(asked_.instruction, asked_.bytes, asked_.unit, site_);
    return false;
  }

  // `row`: its number, if it is to be recorded.
  bool side(const Accessed& access, uint32_t row) {
    auto [address, n, type] = access;
    if (n == 0) return true;
    const Block* owner = thread_.block;
    Region* region = checked_memory->find(address, n);
    if (region == nullptr && neighbours_ && type == AccessType::read) region = without_neighbours(address, n);
    if (region == nullptr) {
      const auto peer = peer_region_of(asked_.instruction, address, n, type, site_);
      region = peer.region;
      owner = peer.block;
      if (region == nullptr) return false;
    }
    const size_t alignment = region->shared ? std::max(asked_.alignment, asked_.shared_alignment) : asked_.alignment;
    if (access.address % alignment != 0) {
      misaligned_operation(asked_.instruction, region, address, alignment, type, site_);
      return false;
    }
    if (region->buffer == nullptr) return true;
    if (type != AccessType::read && region->space() == engine::Space::constant) {
      constant_written(*region, address, usual_element, type, site_);
      end_skipping();
      return false;
    }
    const Checker::Issue issue{row, type, site_, type == AccessType::atomic};
    const auto check = [&] { return checker_.issue(*region->buffer, address, n, thread_, issue); };
    if (!check()) [[unlikely]]
      refused(*region, usual_element, site_, check);
    if (checker_.late_fence) [[unlikely]]
      fenced_late(*region, site_);
    if (region->shared)
      checker_.note_use({row, type == AccessType::read ? engine::reads_side : engine::writes_side, owner, site_});
    return true;
  }

 private:
  // The region of the access without some of its first and last 16 bytes, and the rest; null: there is none.
  static Region* without_neighbours(uintptr_t& address, size_t& n) {
    constexpr uintptr_t vector_bytes = 16;
    const uintptr_t end = address + n;
    for (const uintptr_t inside : {address + n / 2, address, end - 1}) {
      Region* const region = checked_memory->find(inside, 1);
      if (region == nullptr || region->begin >= address + vector_bytes || end >= region->end + vector_bytes) continue;
      address = std::max(address, region->begin);
      n = std::min(end, region->end) - address;
      return region;
    }
    return nullptr;
  }

  const Asynchronous& asked_;
  Thread& thread_;
  Checker& checker_;
  engine::Site site_;
  bool neighbours_;
};

// All operations of one kind in a group share a number.
uint32_t row_of(const Asynchronous& asked, engine::Execution& execution, Thread& thread, engine::Site site) {
  Checker& checker = *thread.block->launch->checker;
  const auto begin = [&] { return checker.begin_operation(thread, asked.instruction, site); };
  if (asked.barrier != nullptr) return begin();
  engine::AsyncGroup& group = execution.groups_of(thread, kind_of(asked)).open();
  if (!group.shares_row || group.instruction != asked.instruction) {
    group.rows.push_back(begin());
    group.shares_row = true;
    group.instruction = asked.instruction;
  }
  return group.rows.back();
}

// Starts the operation for one target, with this target's barrier.
void start_one(const Asynchronous& asked, size_t read_bytes, Turn& now, char* to, void* barrier, Line line) {
  Thread& thread = *engine::current;
  const engine::Site site = thread.waiting_at;
  engine::Execution& execution = *now.front->execution;
  engine::AsyncOperation operation;
  if (barrier != nullptr) {
    operation.barrier = mbarrier_at(barrier, now.front->owner_of_shared(to), line);
    if (operation.barrier == nullptr) return;
  }
  bool right = true;
  if (thread.block->launch->checker != nullptr) {
    Check check(asked, thread, site);
    const AccessType writes = asked.combine != nullptr ? AccessType::atomic : AccessType::write;
    operation.row = row_of(asked, execution, thread, site);
    right = check.form() &&
            (asked.from == nullptr ||
             check.side({reinterpret_cast<uintptr_t>(asked.from), read_bytes, AccessType::read}, operation.row)) &&
            check.side({reinterpret_cast<uintptr_t>(to), asked.bytes, writes}, operation.row);
  }
  operation.issuer = &thread;
  operation.moves = right;
  operation.to = to;
  operation.from = static_cast<const char*>(asked.from);
  operation.bytes = static_cast<uint32_t>(asked.bytes);
  operation.read_bytes = static_cast<uint32_t>(read_bytes);
  operation.combine = asked.combine;
  if (asked.from == nullptr) std::memcpy(operation.value.data(), asked.value, sizeof asked.value);
  operation.kind = kind_of(asked);
  operation.site = site;
  operation.reads_apart = barrier == nullptr && !is_of_copies(asked.instruction);
  now.front->interrupt();  // the thread's own code does not run while the engine copies
  execution.start(std::move(operation));
  now.front->proceed();
}

void require_shared(bool is_to_be, const void* address, const Turn& now, Line line) {
  const bool is = now.front->owner_of_shared(address) != nullptr;
  if (is_to_be && !is) stop_launch("an asynchronous operation of shared memory with another address", line);
  if (!is_to_be && is) stop_launch("an asynchronous operation of global memory with an address of shared memory", line);
}

void start_everywhere(const Asynchronous& asked, Line line) {
  Turn& now = come(line);
  CpuFront& front = *now.front;
  if (engine::current->block->launch->checker == nullptr) {
    require_shared(asked.to_shared, asked.to, now, line);
    if (asked.from != nullptr) require_shared(asked.from_shared, asked.from, now, line);
  }
  if (asked.ranks == 0) {
    start_one(asked, asked.bytes - asked.zeros, now, static_cast<char*>(asked.to), asked.barrier, line);
    return;
  }
  const Block& own = *engine::current->block;
  const auto blocks = static_cast<uint32_t>(own.cluster->blocks.size());
  if (const uint32_t outside = blocks < 32 ? asked.ranks >> blocks << blocks : 0; outside != 0) {
    if (own.launch->checker == nullptr) stop_launch("a multicast to a rank that no block of the cluster has", line);
    ranks_outside_cluster(asked.instruction, outside, blocks, engine::current->waiting_at);
  }
  for (const Block* const block : own.cluster->blocks) {
    if ((asked.ranks >> block->rank & 1) == 0) continue;
    start_one(asked, asked.bytes - asked.zeros, now, front.in_block(asked.to, own, *block),
              front.in_block(asked.barrier, own, *block), line);
  }
}

}  // namespace

void start_copy(void* to, const void* from, size_t bytes, size_t read_bytes, Line line, Instruction instruction) {
  const Asynchronous asked{.instruction = instruction, .to = to, .from = from, .bytes = bytes, .alignment = bytes};
  Turn& now = come(line);
  if (engine::current->block->launch->checker == nullptr) require_shared(true, to, now, line);
  start_one(asked, std::min(bytes, read_bytes), now, static_cast<char*>(to), nullptr, line);
}

void start(const Asynchronous& asked, Line line) {
  start_everywhere(asked, line);
  reads_neighbours = nullptr;
}

void allow_neighbours() {
  reads_neighbours = engine::current;
}

void commit_group(GroupKind kind, Line line) {
  if (turn != nullptr && turn->plain) return;  // nothing has been started
  Turn& now = come(line);
  now.front->execution->commit_group(*engine::current, kind);
}

void wait_for_groups(GroupKind kind, unsigned pending, bool reads_only, Line line) {
  if (turn != nullptr && turn->plain) return;
  Turn& now = come(line);
  Thread& thread = *engine::current;
  engine::Execution& execution = *now.front->execution;
  const engine::GroupWait wait{kind, pending, reads_only};
  if (!execution.is_over(thread, wait)) {
    engine::Request& request = thread.request;
    request.operation = static_cast<uint8_t>(Operation::group_wait);
    request.lane = static_cast<uint32_t>(kind);
    request.clamp = pending;
    request.predicate = reads_only;
    now.front->wait();
  }
  execution.pass_groups(thread, wait);
}

void arrive_after_copies(void* barrier, bool counted, Line line) {
  Turn& now = come(line);
  if (engine::MBarrier* const found = mbarrier_at(barrier, engine::current->block, line); found != nullptr)
    now.front->execution->arrive_after_copies(*engine::current, *found, counted);
}

void fence_proxy(unsigned spaces) {
  if (engine::current == nullptr || engine::current->block->launch->checker == nullptr) return;
  engine::current->block->launch->checker->fence_proxy(*engine::current, static_cast<uint8_t>(spaces));
}

void prefetch_bulk(const void* from, size_t bytes, Line line) {
  if (turn == nullptr || turn->plain || engine::current->block->launch->checker == nullptr) return;
  come(line);
  const engine::Site site = engine::current->waiting_at;
  const auto address = reinterpret_cast<uintptr_t>(from);
  if (address % 16 != 0)
    misaligned_operation(Instruction::cp_async_bulk, checked_memory->find(address, 1), address, 16, AccessType::read,
                         site);
  if (bytes % 16 != 0) odd_size_of_operation(Instruction::cp_async_bulk, bytes, 16, site);
}

}  // namespace trifold::cpu
