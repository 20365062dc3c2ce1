#include "front.h"

#include <bit>
#include <utility>

#include "memory.h"
#include "report.h"
#include "sites.h"

namespace trifold::host {

using engine::Outcome;
using engine::Thread;

HostFront::HostFront(const Kernel& kernel, Registers registers, FiberPool& pool)
    : kernel_(kernel), registers_(registers), pool_(pool), flat_(kernel.threads.y == 1 && kernel.threads.z == 1) {}

void HostFront::hand_over(Fiber& fiber, uint32_t thread, const engine::Request& request, engine::Site site) {
  handed_over_ = {&fiber, thread, request, site};
}

// Makes it the running thread; on its fiber.
Fiber& HostFront::enter(Thread& thread) {
  const uint32_t index = thread.index;
  if (flat_) {
    registers_.thread->x = index;
  } else {
    const dim3& threads = kernel_.threads;
    *registers_.thread = {index % threads.x, index / threads.x % threads.y, index / threads.x / threads.y};
  }
  if (thread.front == nullptr) thread.front = &pool_.take();
  running = static_cast<Fiber*>(thread.front);
  engine::current = &thread;
  return *running;
}

Outcome HostFront::resume(Thread& thread) {
  auto* const fiber = static_cast<Fiber*>(thread.front);
  if (fiber == nullptr || !fiber->ahead || fiber->ended) return run(thread);
  fiber->ahead = false;
  return Outcome::waits;
}

Outcome HostFront::run(Thread& thread) {
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
    if (fault_) [[unlikely]]
      throw engine::Fault(*std::exchange(fault_, std::nullopt));
  }
  fiber->ahead = false;
  if (!fiber->ended) return Outcome::waits;
  thread.front = nullptr;
  if (fiber->error) std::rethrow_exception(std::exchange(fiber->error, nullptr));
  pool_.give(*fiber);
  return Outcome::exited;
}

// The core would resume that thread next, or soon. Going there at once, it costs no wrong prediction of a return.
Fiber* HostFront::run_ahead() {
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

void HostFront::wait() {
  Fiber& fiber = *running;
  const bool barrier = engine::current->request.operation <= static_cast<uint8_t>(Wait::barrier_or);
  if (Fiber* const next = barrier ? run_ahead() : nullptr; next != nullptr) {
    fiber.pass_to(*next);
  } else {
    fiber.yield();
  }
}

void HostFront::begin_block(engine::Block& block) {
  *registers_.block = {block.index.x, block.index.y, block.index.z};
  registers_.thread->y = registers_.thread->z = 0;
  if (checked_memory != nullptr) checked_memory->begin_block(*block.launch);
}

void HostFront::shuffle(engine::Warp& warp, uint32_t lanes) {
  uint64_t values[engine::warp_size];
  const auto for_lanes = [&](auto&& visit) {
    for (uint32_t left = lanes; left != 0; left &= left - 1) visit(warp.lanes[std::countr_zero(left)]);
  };
  for_lanes([&](Thread& thread) { values[thread.lane] = thread.request.value; });
  for_lanes([&](Thread& thread) {
    if (!thread.request.undefined) thread.request.value = values[thread.request.source];
  });
}

engine::Location HostFront::locate(engine::Site site) {
  return location_of(site);
}

void HostFront::warn(const engine::Finding& finding) {
  if (checked_memory != nullptr) record(finding);
}

void HostFront::abandon(engine::Finding finding) {
  fault_ = std::move(finding);
  interrupted_->leave();
}

}  // namespace trifold::host
