#include "front.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <sstream>
#include <string>
#include <utility>

#include "../core/tolerance.h"
#include "faults.h"
#include "memory.h"
#include "module.h"
#include "report.h"
#include "settings.h"
#include "sites.h"
#include "skip.h"
#include "undecided.h"
#include "watchdog.h"

namespace trifold::cpu {

using engine::Operation;
using engine::Outcome;
using engine::Thread;

CpuFront::CpuFront(Turn& turn, FiberPool& pool)
    : turn_(turn),
      kernel_(turn.kernel),
      pool_(pool),
      slots_(turn.kernel, turn.registers, turn.shared),
      flat_(turn.kernel.threads.y == 1 && turn.kernel.threads.z == 1),
      text_(checked_memory != nullptr ? text_of(turn.kernel.code) : Range{}) {}

void CpuFront::hand_over(Fiber& fiber, uint32_t thread, const engine::Request& request, engine::Site site) {
  handed_over_ = {&fiber, thread, request, site};
}

// Makes it the running block.
void CpuFront::enter(engine::Block& block) {
  const Slot& slot = *static_cast<const Slot*>(block.front);
  slots_.enter(slot);
  turn_.registers = slot.registers;
  turn_.shared = slot.shared;
  place_ = slot.registers.thread;
  if (block.launch->checker != nullptr) checked_memory->enter(slot);
  entered_ = &block;
}

// Makes it the running thread; returns its fiber.
Fiber& CpuFront::enter(Thread& thread) {
  if (thread.block != entered_) [[unlikely]]
    enter(*thread.block);
  const uint32_t index = thread.index;
  if (flat_) {
    place_->x = index;
  } else {
    const dim3& threads = kernel_.threads;
    *place_ = {index % threads.x, index / threads.x % threads.y, index / threads.x / threads.y};
  }
  if (thread.front == nullptr) thread.front = &pool_.take();
  runs(*static_cast<Fiber*>(thread.front));
  engine::current = &thread;
  return *running;
}

Outcome CpuFront::resume(Thread& thread) {
  auto* const fiber = static_cast<Fiber*>(thread.front);
  if (fiber == nullptr || !fiber->ahead || fiber->ended) return run(thread);
  fiber->ahead = false;
  return Outcome::waits;
}

Outcome CpuFront::run(Thread& thread) {
  if (handed_over_) [[unlikely]] {
    const HandedOver& first = *handed_over_;
    if (thread.index < first.thread) return Outcome::exited;
    thread.front = first.fiber;
    thread.request = first.request;
    thread.waiting_at = first.site;
    handed_over_.reset();
    return Outcome::waits;
  }
  auto* fiber = static_cast<Fiber*>(thread.front);
  if (fiber == nullptr || !fiber->ahead) {
    fiber = &enter(thread);
    fiber->resume();
    running = nullptr;
    if (skipping) [[unlikely]]
      end_skipping();
    if (turn_.stop != Stop::none) [[unlikely]]
      end_launch();
  }
  fiber->ahead = false;
  if (!fiber->ended) return Outcome::waits;
  thread.front = nullptr;
  if (fiber->error) std::rethrow_exception(std::exchange(fiber->error, nullptr));
  pool_.give(*fiber);
  return Outcome::exited;
}

// The core would resume that thread next, or soon. Switching directly avoids a mispredicted return.
Fiber* CpuFront::run_ahead() {
  const Thread& thread = *engine::current;
  const engine::Block& block = *thread.block;
  if (block.launch->seed != 0 || thread.index + 1 == block.threads.size()) return nullptr;
  Thread& next = engine::current[1];
  if ((next.warp->ready >> next.lane & 1) == 0) return nullptr;
  if (next.front != nullptr && static_cast<Fiber*>(next.front)->ahead) return nullptr;
  Fiber& fiber = enter(next);
  fiber.ahead = true;
  return &fiber;
}

void CpuFront::wait() {
  end_access();
  Fiber& fiber = *running;
  const auto operation = engine::operation_of(*engine::current);
  if (!ring_.empty()) {
    leave_ring();
  } else if ((operation == Operation::barrier || operation == Operation::cluster_barrier) && start_ring(operation)) {
    return pass_in_ring();
  }
  const bool barrier = operation <= Operation::barrier_or || engine::is_of_cluster(operation);
  if (Fiber* const next = barrier ? run_ahead() : nullptr; next != nullptr) {
    fiber.pass_to(*next);
  } else {
    fiber.yield();
  }
}

void CpuFront::end_access() {
  if (skipping) [[unlikely]]
    end_skipping();
  if (engine::current->undecided != 0) [[unlikely]]
    decide_before_wait(*engine::current);
}

void CpuFront::arrive() {
  end_access();
  execution->arrive_and_go_on(*engine::current);
}

bool CpuFront::wait_in_ring(Operation operation, Line line) {
  if (ring_.empty() || operation != ring_operation_) return false;
  if (ring_at_ == 0) {
    if (overdue != 0) return false;
    ring_line_ = line;
  } else if (line.file != ring_line_.file || line.line != ring_line_.line) {
    return false;
  }
  pass_in_ring();
  return true;
}

// Switches from the running thread, which waits at the barrier, to the next thread; from the last one, past the
// barrier.
inline void CpuFront::pass_in_ring() {
  Fiber& fiber = *running;
  if (++ring_at_ == ring_edge_) {
    engine::current = &next_block_of_ring().threads[0];
  } else {
    ++engine::current;
    uint3& place = *place_;
    if (++place.x == kernel_.threads.x) {
      place.x = 0;
      if (++place.y == kernel_.threads.y) {
        place.y = 0;
        ++place.z;
      }
    }
  }
  runs(*ring_[ring_at_]);
  fiber.pass_to(*running);
}

// Called after the last thread of a block.
engine::Block& CpuFront::next_block_of_ring() {
  if (ring_at_ == ring_.size()) {
    ring_at_ = 0;
    ++ring_rounds_;
    engine::Cluster& cluster = *ring_blocks_[0]->cluster;
    if (ring_operation_ == Operation::cluster_barrier) ++cluster.phase;
    for (engine::Block* const block : ring_blocks_) {
      ++block->interval;
      if (ring_operation_ == Operation::cluster_barrier) block->phases_seen = cluster.phase;
    }
  }
  const auto threads = static_cast<uint32_t>(entered_->threads.size());
  ring_edge_ = ring_at_ + threads;
  engine::Block& next = *ring_blocks_[ring_at_ / threads];
  if (&next != entered_) enter(next);
  *place_ = {0, 0, 0};
  return next;
}

// The first thread of the block, or of the cluster, waits at its barrier, and all others can run. False: a ring is not
// possible here.
bool CpuFront::start_ring(Operation operation) {
  constexpr int most_short_rings = 8;
  engine::Block& first = *engine::current->block;
  const engine::Launch& launch = *first.launch;
  if (engine::current->index != 0 || (operation == Operation::cluster_barrier && first.rank != 0)) return false;
  if (launch.seed != 0 || launch.checker != nullptr || short_rings_ == most_short_rings) return false;
  ring_blocks_.assign(1, &first);
  if (operation == Operation::cluster_barrier) ring_blocks_ = first.cluster->blocks;
  if (ring_blocks_.size() * first.threads.size() == 1) return false;
  for (engine::Block* const block : ring_blocks_) {
    for (const engine::Warp& warp : block->warps)
      if (warp.ready != warp.exists || (warp.arrived | warp.may_pass) != 0) return false;
    for (Thread& thread : block->threads) {
      if (thread.front == nullptr) thread.front = &pool_.take();
      if (static_cast<Fiber*>(thread.front)->ahead) return false;
    }
  }
  for (const engine::Block* const block : ring_blocks_)
    for (const Thread& thread : block->threads) ring_.push_back(static_cast<Fiber*>(thread.front));
  ring_operation_ = operation;
  ring_at_ = 0;
  ring_edge_ = static_cast<uint32_t>(first.threads.size());
  ring_line_ = turn_.last_line;
  ring_rounds_ = 0;
  return true;
}

// The threads before the running one wait at the barrier. They are marked as after run_ahead(): the core has not
// resumed them yet.
void CpuFront::leave_ring() {
  if (ring_.empty()) return;
  if (ring_rounds_ == 0) ++short_rings_;
  for (uint32_t at = 0; at <= ring_at_; ++at) {
    std::vector<Thread>& threads = ring_blocks_[at / entered_->threads.size()]->threads;
    Thread& thread = threads[at % threads.size()];
    ring_[at]->ahead = true;
    if (at == ring_at_) break;
    thread.request.operation = static_cast<uint8_t>(ring_operation_);
    thread.request.predicate = false;
    thread.waiting_at = site_of_line(ring_line_);
  }
  ring_.clear();
}

void CpuFront::begin_block(engine::Block& block) {
  if (block.front == nullptr) block.front = &slots_.make(block);
  const Slot& slot = *static_cast<const Slot*>(block.front);
  *slot.registers.block = {block.index.x, block.index.y, block.index.z};
  slot.registers.thread->y = slot.registers.thread->z = 0;
  if (block.launch->checker != nullptr) checked_memory->begin_block(slot, *block.launch);
}

char* CpuFront::in_block(const void* address, const engine::Block& from, const engine::Block& to) const {
  return slots_.moved(address, *static_cast<const Slot*>(from.front), *static_cast<const Slot*>(to.front));
}

const engine::Block* CpuFront::owner_of_shared(const void* address) const {
  const engine::Block& own = *engine::current->block;
  if (in_block(address, own, own) != nullptr) return &own;
  for (const engine::Block* const block : own.cluster->blocks)
    if (in_block(address, *block, *block) != nullptr) return block;
  return nullptr;
}

uint32_t CpuFront::offset_in(const engine::Block& owner, const void* address) const {
  return slots_.offset_of(address, *static_cast<const Slot*>(owner.front));
}

char* CpuFront::at_offset(const engine::Block& owner, uint32_t offset) const {
  return slots_.at(offset, *static_cast<const Slot*>(owner.front));
}

std::string CpuFront::name_of_shared(const engine::Block& owner, uint32_t offset) const {
  if (owner.launch->checker == nullptr) return FrontEnd::name_of_shared(owner, offset);
  const auto address = reinterpret_cast<uintptr_t>(at_offset(owner, offset));
  const Region* const region = checked_memory->shared_at(*static_cast<const Slot*>(owner.front), address);
  if (region == nullptr) return FrontEnd::name_of_shared(owner, offset);
  const size_t index = (address - region->begin) / engine::mbarrier_bytes;
  const bool whole = region->end - region->begin == engine::mbarrier_bytes;
  return region->array + (whole ? "" : "[" + std::to_string(index) + "]");
}

void CpuFront::shuffle(engine::Warp& warp, uint32_t lanes) {
  uint64_t values[engine::warp_size];
  const auto for_lanes = [&](auto&& visit) {
    for (uint32_t left = lanes; left != 0; left &= left - 1) visit(warp.lanes[std::countr_zero(left)]);
  };
  for_lanes([&](Thread& thread) { values[thread.lane] = thread.request.value; });
  bool gives_nothing = true;
  for_lanes([&](Thread& thread) {
    if (thread.request.undefined) return;
    thread.request.value = values[thread.request.source];
    gives_nothing = false;
  });
  if (!gives_nothing || checked_memory == nullptr) [[likely]]
    return;
  const Thread& first = warp.lanes[std::countr_zero(lanes)];
  if (warned_at_.insert(first.waiting_at).second) shuffled_nothing(first);
}

void CpuFront::work_together(engine::Warp& warp) {
  Together* lanes[engine::warp_size];
  for (uint32_t lane = 0; lane < engine::warp_size; ++lane)
    lanes[lane] = reinterpret_cast<Together*>(warp.lanes[lane].request.value);
  lanes[0]->run(lanes);
}

engine::Location CpuFront::locate(engine::Site site) {
  return location_of(site);
}

void CpuFront::warn(const engine::Finding& finding) {
  if (checked_memory != nullptr && !engine::current->block->launch->tally->accepts(finding)) record(finding);
}

void Turn::stop_thread(Stop why, const void* at) {
  stop = why;
  stopped_at = at;
  running()->leave();
}

void Turn::leave_full_stack(Interrupted where) {
  full_stack = {where.instruction, std::max(where.stack, running()->begin())};
  stop_thread(Stop::stack, nullptr);
}

// If a function that the kernel called overflowed the stack, its return address is near the stack's end.
engine::Site Turn::stopped_site() const {
  if (stop != Stop::stack) return stopped_at != nullptr ? site_of_address(stopped_at) : last_site;
  constexpr int words = 64;
  const Range text = text_of(kernel.code);
  uintptr_t at = full_stack.instruction + 1;
  const auto* const stack = reinterpret_cast<const uintptr_t*>(full_stack.stack & ~(sizeof(uintptr_t) - 1));
  for (int i = 0; i < words && (at < text.begin || at >= text.end); ++i) at = stack[i];
  return site_of_address(reinterpret_cast<const void*>(at));
}

void Turn::throw_stopped() const {
  const engine::Dim3 grid{kernel.grid.x, kernel.grid.y, kernel.grid.z};
  const uint3& at = *registers.thread;
  engine::Access access;
  access.thread = front != nullptr ? engine::current->place : engine::Dim3{at.x, at.y, at.z};
  access.block = front != nullptr ? engine::current->block->index : grid.at(static_cast<uint64_t>(block));
  std::string who = std::string("kernel ") + kernel.name + ": " + engine::who(access, false);
  engine::Location location = location_of(stopped_site());
  if (location.file.empty()) location = location_of(last_site);  // within a barrier: the last place where it waited
  const std::string where = location.file.empty() ? "" : ", at " + engine::where(location);
  if (stop == Stop::stack) {
    const std::string kibibytes = std::to_string(stack_bytes() >> 10);
    throw engine::LaunchMistake(
        who + " has used up its stack of " + kibibytes + " KiB" + where,
        "let it recurse less deep, or keep large arrays out of its frames (in shared memory, or in a tensor); or give "
        "each thread more by the environment variable TRIFOLD_KERNEL_STACK_KIB");
  }
  std::ostringstream seconds;
  seconds << kernel_seconds();
  throw engine::LaunchMistake(
      who + " still runs after the launch has taken " + seconds.str() + " s" + where,
      "see that its loops end; a loop that waits for another thread has to look at memory by an atomic, or to call "
      "__nanosleep() or __threadfence(), for other threads to run; and where the kernel only has much to do, set the "
      "environment variable TRIFOLD_KERNEL_SECONDS to more (0: no limit)");
}

void CpuFront::abandon(engine::Finding finding) {
  fault_ = std::move(finding);
  turn_.stop = Stop::finding;
  interrupted_->leave();
}

void CpuFront::end_launch() {
  if (fault_) throw engine::Fault(std::move(*fault_));
  turn_.throw_stopped();
}

bool CpuFront::gives_up() {
  // What they wait for may be done by a block on another OS thread.
  sched_yield();
  return overdue != 0;
}

}  // namespace trifold::cpu
