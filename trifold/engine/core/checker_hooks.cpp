// The Checker's hooks for synchronising events.
#include <algorithm>
#include <array>
#include <limits>

#include "checker.h"

namespace trifold::engine {
namespace {

// Among the stamps of all threads of a block, those of the lanes that a thread knows.
void add_mates(std::vector<Stamp>& stamps, const Thread& thread, const std::array<Stamp, warp_size>& mates) {
  for (uint32_t lane = 0; lane < warp_size; ++lane) {
    if (mates[lane] == 0) continue;
    Stamp& mate = stamps[thread.index - thread.lane + lane];
    mate = std::max(mate, mates[lane]);
  }
}

}  // namespace

Stamp Checker::tick() {
  if (launch_.now == std::numeric_limits<Stamp>::max()) start_again();
  if (graph_.full()) forget(launch_.now++);
  return launch_.now++;
}

// Everything up to this stamp counts as ordered from now on.
void Checker::forget(Stamp mark) {
  graph_.clear();
  grid_ = mark;
  earlier_ended_ = 0;
  if (operations_ != nullptr) forget_proxy_fences();
  for (Block* const block : blocks_) {
    BlockClock& clock = block->clock;
    block->barrier = clock.begin = mark;
    clock.fenced = {};
    clock.acquired = clock.acquired_now = 0;
    clock.released = clock.fenced_acquired = {};
    clock.arrivals.acquired = 0;
    block->cluster->clock.phase_end = 0;
    for (Warp& warp : block->warps) warp.clock.fenced = {};
    for (NamedBarrier& barrier : block->named) barrier.clock = {};
    for (auto& [offset, barrier] : block->mbarriers) {
      for (MBarrierClock::OfBlock& each : barrier.clock.gathering) each.arrivals = {};
      barrier.clock.present = barrier.clock.ended = {};
      barrier.since = before_launch;
    }
  }
}

// Stamps have run out: they restart, and earlier events become indistinguishable.
void Checker::start_again() {
  constexpr Stamp past = before_launch;
  Buffer::forget_all(past);
  all_barriers_ = false;
  launch_.now = past + 1;
  if (operations_ != nullptr) operations_->start_again(past);
  forget(past);
  for (Block* const block : blocks_) {
    for (std::vector<Stamp>& fences : block->clock.fences) fences.assign(fences.size(), 0);
    block->clock.arrivals = {};
    block->clock.visits.clear();
    block->cluster->clock.barrier = past;
    for (Thread& thread : block->threads) thread.clock = {};
    for (Warp& warp : block->warps) warp.clock = {.joined = past, .lanes = nullptr};
  }
}

void Checker::begin_block(Block& block) {
  blocks_.push_back(&block);
  BlockClock& clock = block.clock;
  block.barrier = clock.begin = tick();
  clock.fenced = {};
  clock.acquired = clock.acquired_now = 0;
  clock.released = clock.fenced_acquired = {};
  clock.arrivals = {};
  clock.visits.clear();
  for (Warp& warp : block.warps) {
    warp.clock.left = 0;
    warp.clock.fenced = {};
  }
}

void Checker::end_block(Block& block) {
  const auto place = std::find(blocks_.rbegin(), blocks_.rend(), &block);
  if (place == blocks_.rend()) return;
  *place = blocks_.back();
  blocks_.pop_back();
  if (operations_ != nullptr) std::erase_if(operations_->uses, [&](const Use& use) { return use.owner == &block; });
}

// A thread's clock, cleared if it is older than its block.
ThreadClock& Checker::clock(Thread& thread) {
  ThreadClock& clock = thread.clock;
  const Stamp begin = thread.block->clock.begin;
  if (clock.since < begin) clock = {.since = begin};
  return clock;
}

void Checker::block_barrier(Block& block) {
  const Stamp mark = tick();
  BlockClock& clock = block.clock;
  for (const FenceScope scope : fence_scopes) {
    if (clock.fenced[scope] <= block.barrier) continue;
    const Knowledge known = graph_.fences(block.threads[0].id, clock.fences[scope], block.id, block.barrier,
                                          clock.fenced_acquired[scope], scope);
    clock.released[scope] = graph_.merge(clock.released[scope], known);
  }
  clock.acquired = clock.acquired_now;
  block.barrier = mark;
  passed_barrier(block.id, mark);
}

void Checker::passed_barrier(uint32_t block, Stamp mark) {
  constexpr size_t remembered = size_t{1} << 20;  // 8 MB
  all_barriers_ = all_barriers_ && barriers_.size() < remembered;
  if (all_barriers_) barriers_.push_back({mark, block});
}

void Checker::grid_barrier(std::span<Block* const> blocks) {
  const Stamp mark = tick();
  forget(mark);
  for (const Block* const block : blocks) passed_barrier(block->id, mark);
}

void Checker::fence(Thread& thread, Scope of) {
  if (!races_) return;
  const Stamp mark = tick();
  const FenceScope scope = of == Scope::block ? block_scope : of == Scope::cluster ? cluster_scope : device_scope;
  Block& block = *thread.block;
  ThreadClock& own = clock(thread);
  for (auto& [offset, barrier] : block.mbarriers) barrier.fenced |= barrier.initialised.thread == &thread;
  const Knowledge known = graph_.merge(own.acquired, block.clock.acquired);
  Fence& fence = own.fence[scope];
  const Stamp before = fence.stamp;
  fence = {mark, block.barrier, graph_.merge(fence.acquired, known)};

  BlockClock& shared = block.clock;
  std::vector<Stamp>& fences = shared.fences[scope];
  fences.resize(block.threads.size());
  fences[thread.index] = mark;
  WarpClock& warp = thread.warp->clock;
  if (const Stamp met = std::max(warp.joined, warp.partial); met > block.barrier) {
    const std::array<Stamp, warp_size> mates = known_mates(thread);
    add_mates(fences, thread, mates);
    if (met > before)
      fence.acquired = graph_.fences(thread.id - thread.lane, mates, block.id, block.barrier, fence.acquired, scope);
  }
  shared.fenced_acquired[scope] = graph_.merge(shared.fenced_acquired[scope], known);
  shared.fenced[scope] = warp.fenced[scope] = mark;
}

// The earlier grid's writes are then visible to the whole grid: to every thread that is ordered after this one.
void Checker::wait_for_earlier_grid(Thread& thread) {
  if (!races_ || grid_ >= end_of_earlier_grid) return;
  if (earlier_ended_ == 0)
    earlier_ended_ = graph_.fences(earlier_grid, {&end_of_earlier_grid, 1}, block_of(earlier_grid), 0, 0, device_scope);
  ThreadClock& own = clock(thread);
  BlockClock& block = thread.block->clock;
  own.acquired = graph_.merge(own.acquired, earlier_ended_);
  block.acquired_now = graph_.merge(block.acquired_now, earlier_ended_);
}

void Checker::arrive(Thread& thread, ArrivalClock& barrier) {
  if (!races_) return;
  const Stamp mark = tick();
  const Block& block = *thread.block;
  const ThreadClock& own = clock(thread);
  const std::array<Stamp, warp_size> mates = known_mates(thread);
  barrier.barrier = block.barrier;
  barrier.stamps.resize(block.threads.size());
  barrier.stamps[thread.index] = mark;
  add_mates(barrier.stamps, thread, mates);
  barrier.acquired = graph_.merge(barrier.acquired, graph_.merge(own.acquired, block.clock.acquired));
  for (const FenceScope scope : fence_scopes) {
    barrier.released[scope] = graph_.merge(barrier.released[scope], own.released[scope]);
    if (own.fence[scope].stamp <= block.barrier) continue;
    barrier.fences[scope].resize(block.threads.size());
    Stamp& fence = barrier.fences[scope][thread.index];
    fence = std::max(fence, block.clock.fences[scope][thread.index]);
    barrier.fenced_acquired[scope] = graph_.merge(barrier.fenced_acquired[scope], own.fence[scope].acquired);
  }
}

// What the arriving threads of a block knew; what they knew at fences is added to what others released.
Knowledge Checker::gathered(uint32_t block, uint32_t first_thread, ArrivalClock& arrivals, FenceScope scope) {
  for (const FenceScope of_fence : fence_scopes) {
    if (arrivals.fences[of_fence].empty()) continue;
    const Knowledge fenced = graph_.fences(first_thread, arrivals.fences[of_fence], block, arrivals.barrier,
                                           arrivals.fenced_acquired[of_fence], of_fence);
    arrivals.released[of_fence] = graph_.merge(arrivals.released[of_fence], fenced);
  }
  return graph_.fences(first_thread, arrivals.stamps, block, arrivals.barrier, arrivals.acquired, scope);
}

void Checker::pass(Block& block, ArrivalClock& barrier, std::span<Thread* const> waiting) {
  if (!races_) return;
  const Knowledge known = gathered(block.id, block.threads[0].id, barrier, block_scope);
  for (Thread* const thread : waiting) {
    ThreadClock& own = clock(*thread);
    own.acquired = graph_.merge(own.acquired, known);
    for (const FenceScope scope : fence_scopes)
      own.released[scope] = graph_.merge(own.released[scope], barrier.released[scope]);
  }
  block.clock.acquired_now = graph_.merge(block.clock.acquired_now, known);
  barrier = {};
}

// What a thread's atomic releases: what it knew at its fences, and what others knew at fences before a barrier or
// rendezvous that it took part in.
void Checker::release(uintptr_t address, Thread& thread) {
  const PerScope<Knowledge>& of_block = thread.block->clock.released;
  const auto silent = [&](FenceScope scope) {
    const ThreadClock& own = clock(thread);
    return own.fence[scope].stamp == 0 && own.released[scope] == 0 && of_block[scope] == 0;
  };
  if (std::ranges::all_of(fence_scopes, silent)) return;
  const Stamp stamp = tick();
  ThreadClock& own = clock(thread);  // after the tick, which may have cleared it
  for (const FenceScope scope : fence_scopes) {
    if (silent(scope)) continue;
    Fence& fence = own.fence[scope];
    own.released[scope] = graph_.merge(own.released[scope], of_block[scope]);
    const auto covers = [&](FenceScope wider) { return wider > scope && fence.stamp < own.fence[wider].stamp; };
    if (own.released[scope] == 0 && std::ranges::any_of(fence_scopes, covers)) continue;
    fence.acquired = graph_.merge(fence.acquired, own.released[scope]);
    own.said[scope] = graph_.release(address, thread, fence, scope, stamp, own.said[scope]);
  }
}

// The stamp up to which a lane knows another one through rendezvous.
Stamp Checker::known_lane(const Warp& warp, uint32_t lane, uint32_t other) {
  const WarpClock& clock = warp.clock;
  const bool left = (clock.left >> other & 1) != 0;
  const Stamp together = left ? clock.lanes->left[other] : clock.joined;
  return clock.partial > clock.joined ? std::max(together, clock.lanes->seen[lane][other]) : together;
}

// For each other lane of a thread's warp, the stamp up to which it is known.
std::array<Stamp, warp_size> Checker::known_mates(const Thread& thread) {
  std::array<Stamp, warp_size> mates{};
  for (uint32_t lane = 0; lane < warp_size; ++lane) {
    if (lane == thread.lane || (thread.warp->exists >> lane & 1) == 0) continue;
    mates[lane] = known_lane(*thread.warp, thread.lane, lane);
  }
  return mates;
}

void Checker::rendezvous(Warp& warp, uint32_t lanes) {
  if (!races_) return;
  const Stamp mark = tick();
  const Block& block = *warp.block;
  if (block.clock.acquired_now != block.clock.acquired) share_acquired(warp, lanes);
  if (std::ranges::max(warp.clock.fenced) > block.barrier) {
    share_fences(warp, lanes);
  }
  const bool all = lanes == warp.live;
  const uint32_t newly_left = warp.exists & ~warp.live & ~warp.clock.left;
  if (all && newly_left == 0) {
    warp.clock.joined = mark;
  } else {
    join_lanes(warp, lanes, mark);
  }
}

void Checker::share_acquired(Warp& warp, uint32_t lanes) {
  Knowledge all = 0;
  for (uint32_t lane = 0; lane < warp_size; ++lane) {
    if (lanes >> lane & 1) all = graph_.merge(all, clock(warp.lanes[lane]).acquired);
  }
  for (uint32_t lane = 0; lane < warp_size; ++lane) {
    if (lanes >> lane & 1) clock(warp.lanes[lane]).acquired = all;
  }
}

void Checker::share_fences(Warp& warp, uint32_t lanes) {
  for (const FenceScope scope : fence_scopes) {
    if (warp.clock.fenced[scope] <= warp.block->barrier) continue;
    std::array<Stamp, warp_size> stamps{};
    Knowledge acquired = 0;
    for (uint32_t lane = 0; lane < warp_size; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const Fence& fence = clock(warp.lanes[lane]).fence[scope];
      if (fence.stamp <= warp.block->barrier) continue;
      stamps[lane] = warp.block->clock.fences[scope][warp.index * warp_size + lane];
      acquired = graph_.merge(acquired, fence.acquired);
    }
    const Block& block = *warp.block;
    const Knowledge known = graph_.fences(warp.lanes[0].id, stamps, block.id, block.barrier, acquired, scope);
    for (uint32_t lane = 0; lane < warp_size; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      Knowledge& released = clock(warp.lanes[lane]).released[scope];
      released = graph_.merge(released, known);
    }
    if (lanes == warp.live) warp.clock.fenced[scope] = 0;
  }
}

// A rendezvous of part of the warp, or the first one after lanes have exited.
void Checker::join_lanes(Warp& warp, uint32_t lanes, Stamp mark) {
  WarpClock& clock = warp.clock;
  if (clock.lanes == nullptr) clock.lanes = std::make_unique<LaneClocks>();
  std::array<Stamp, warp_size> known{};
  for (uint32_t lane = 0; lane < warp_size; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    for (uint32_t other = 0; other < warp_size; ++other) {
      known[other] = std::max(known[other], known_lane(warp, lane, other));
    }
  }
  if (lanes == warp.live) {
    for (uint32_t lane = 0; lane < warp_size; ++lane) {
      if ((warp.exists & ~warp.live) >> lane & 1) clock.lanes->left[lane] = known[lane];
    }
    clock.left = warp.exists & ~warp.live;
    clock.joined = mark;
    return;
  }
  for (uint32_t lane = 0; lane < warp_size; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    clock.lanes->seen[lane] = known;
    for (uint32_t other = 0; other < warp_size; ++other) {
      if (lanes >> other & 1) clock.lanes->seen[lane][other] = mark;
    }
  }
  clock.partial = mark;
}

}  // namespace trifold::engine
