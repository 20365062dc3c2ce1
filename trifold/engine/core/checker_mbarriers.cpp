// The Checker's part for barriers in shared memory: what a phase transfers from the threads that arrive in it to those
// that wait for its end.
#include <algorithm>

#include "checker.h"

namespace trifold::engine {

// A relaxed arrival releases what the thread knew at its fences.
void Checker::arrive_at_mbarrier(MBarrier& barrier, Thread& thread, const Arrival& arrival) {
  if (!races_) return;
  MBarrierClock& clock_of = barrier.clock;
  const Block& block = *thread.block;
  if (arrival.relaxed) {
    const ThreadClock& own = clock(thread);
    for (const FenceScope scope : fence_scopes) {
      const Fence& fence = own.fence[scope];
      if (fence.stamp == 0) continue;
      const FenceScope narrower = std::min(scope, arrival.scope);
      const Knowledge known =
          graph_.fences(thread.id, {&fence.stamp, 1}, block.id, fence.barrier, fence.acquired, narrower);
      clock_of.present.of_cluster = graph_.merge(clock_of.present.of_cluster, known);
      if (&block == barrier.owner) clock_of.present.of_block = graph_.merge(clock_of.present.of_block, known);
    }
    return;
  }
  auto found = std::ranges::find_if(clock_of.gathering, [&](const MBarrierClock::OfBlock& each) {
    return each.block == block.id && each.scope == arrival.scope;
  });
  if (found == clock_of.gathering.end())
    found = clock_of.gathering.insert(found, {block.id, block.threads[0].id, arrival.scope, {}});
  arrive(thread, found->arrivals);
}

void Checker::release_at_mbarrier(MBarrier& barrier, Knowledge released) {
  MBarrierClock::Released& present = barrier.clock.present;
  present.of_block = graph_.merge(present.of_block, released);
  present.of_cluster = graph_.merge(present.of_cluster, released);
}

void Checker::end_phase(MBarrier& barrier) {
  if (!races_) return;
  MBarrierClock::Released released = barrier.clock.present;
  for (auto& [block, first_thread, scope, arrivals] : barrier.clock.gathering) {
    const Knowledge known = gathered(block, first_thread, arrivals, scope);
    released.of_cluster = graph_.merge(released.of_cluster, known);
    if (block == barrier.owner->id) released.of_block = graph_.merge(released.of_block, known);
    for (const FenceScope of_fence : fence_scopes)
      released.fenced[of_fence] = graph_.merge(released.fenced[of_fence], arrivals.released[of_fence]);
  }
  barrier.clock = {{}, {}, released};
}

void Checker::acquire_at_mbarrier(const MBarrier& barrier, Thread& thread, FenceScope scope) {
  if (!races_) return;
  const MBarrierClock::Released& ended = barrier.clock.ended;
  const Knowledge known = scope == block_scope ? ended.of_block : ended.of_cluster;
  ThreadClock& own = clock(thread);
  BlockClock& block = thread.block->clock;
  own.acquired = graph_.merge(own.acquired, known);
  block.acquired_now = graph_.merge(block.acquired_now, known);
  for (const FenceScope of_fence : fence_scopes)
    own.released[of_fence] = graph_.merge(own.released[of_fence], ended.fenced[of_fence]);
}

bool Checker::knows_init(const MBarrier& barrier, const Thread& thread) const {
  if (!races_ || barrier.published_in < thread.block->phases_seen) return true;
  return happened_before({barrier.initialised.thread->id, barrier.since}, thread);
}

void Checker::mark_mbarrier(Buffer& buffer, uintptr_t address, Site site) {
  for (Cell& cell : buffer.cells(address, mbarrier_bytes))
    cell = {.write = {barriers_own, launch_.now}, .write_site = site};
}

void Checker::unmark_mbarrier(Buffer& buffer, uintptr_t address) {
  for (Cell& cell : buffer.cells(address, mbarrier_bytes)) cell = {};
}

}  // namespace trifold::engine
