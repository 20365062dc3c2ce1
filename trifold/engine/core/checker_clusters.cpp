// The Checker's part for clusters: the order made by their barrier, and the lifetime of a block's shared memory.
#include <algorithm>

#include "checker.h"

namespace trifold::engine {

void Checker::arrive_at_cluster_barrier(Thread& thread, bool releases) {
  for (auto& [offset, barrier] : thread.block->mbarriers)
    if (barrier.fenced && barrier.initialised.thread == &thread)
      barrier.published_in = std::min(barrier.published_in, thread.block->cluster->phase);
  if (!races_ || !releases) return;
  const Stamp mark = tick();
  Block& block = *thread.block;
  Arrivals& arrivals = block.clock.arrivals;
  arrivals.stamps.resize(block.threads.size());
  arrivals.stamps[thread.index] = mark;
  arrivals.barrier = block.barrier;
  const Knowledge own = graph_.merge(clock(thread).acquired, block.clock.acquired);
  arrivals.acquired = graph_.merge(arrivals.acquired, own);
}

// If all threads of a block wait, it passes a barrier of its own too. For other blocks, each arrival is known up to its
// thread, and the block's begin in any case.
void Checker::complete_cluster_barrier(Cluster& cluster, std::span<Block* const> whole) {
  for (Block* const block : whole) block_barrier(*block);  // first, since it may clear the graph
  Knowledge known = 0;
  for (Block* const block : cluster.blocks) {
    Arrivals& arrivals = block->clock.arrivals;
    const bool is_whole = std::ranges::find(whole, block) != whole.end();
    if (is_whole) {
      arrivals = {{}, block->barrier, block->clock.acquired};
    } else {
      arrivals.barrier = std::max(arrivals.barrier, block->clock.begin);
      for (const Thread& thread : block->threads)  // a thread that has exited accesses nothing more
        if ((thread.warp->live >> thread.lane & 1) == 0 && !arrivals.stamps.empty())
          arrivals.stamps[thread.index] = launch_.now;
    }
    known = graph_.merge(known, graph_.fences(block->threads[0].id, arrivals.stamps, block->id, arrivals.barrier,
                                              arrivals.acquired, device_scope));
    arrivals = {};
  }
  cluster.clock.phase_end = known;
  for (Block* const block : cluster.blocks) {
    BlockClock& clock = block->clock;
    if (std::ranges::find(whole, block) != whole.end()) {
      clock.acquired = clock.acquired_now = graph_.merge(clock.acquired, known);
      continue;
    }
    for (Thread& thread : block->threads)
      if ((thread.warp->at_cluster_barrier >> thread.lane & 1) != 0) pass_cluster_barrier(thread);
  }
  if (whole.size() == cluster.blocks.size()) cluster.clock.barrier = launch_.now - 1;
  if (operations_ != nullptr) note_awaited(cluster);
}

void Checker::pass_cluster_barrier(Thread& thread) {
  const Knowledge known = thread.block->cluster->clock.phase_end;
  ThreadClock& own = clock(thread);
  BlockClock& block = thread.block->clock;
  own.acquired = graph_.merge(own.acquired, known);
  block.acquired_now = graph_.merge(block.acquired_now, known);
}

// ------------------------------------------------------------------------------------------------- lifetime

// A relaxed arrival also shows that its block has begun, as does each node of the graph that belongs to a block.
bool Checker::knows_begin(const Block& owner, const Thread& thread) const {
  const Stamp begin = owner.clock.begin;
  if (begin <= grid_ || begin <= thread.block->cluster->clock.barrier) return true;
  return acquired(thread, {owner.threads[0].id, begin}, 0);
}

void Checker::note_visit(Block& owner, const Thread& thread, AccessType type, Site site) {
  std::vector<Visit>& visits = owner.clock.visits;
  visits.resize(owner.cluster->blocks.size());
  const bool has_arrived = (thread.warp->arrived >> thread.lane & 1) != 0;
  visits[thread.block->rank] = {thread.id, launch_.now, owner.cluster->phase + (has_arrived ? 1 : 0), site,
                                static_cast<uint8_t>(type)};
}

std::optional<Visit> Checker::visit_not_awaited(const Block& owner) const {
  for (const Visit& visit : owner.clock.visits) {
    // A thread of the owner has waited for a phase at which the visitor arrived after its access.
    if (visit.stamp == 0 || visit.stamp <= grid_ || visit.phase < owner.phases_seen) continue;
    const KnowledgeGraph::Query query{visit.thread, visit.thread / block_size_, visit.stamp, 0};
    if (!graph_.knows(owner.clock.acquired_now, owner.id, query)) return visit;
  }
  return {};
}

}  // namespace trifold::engine
