// The barrier of a cluster (PTX ISA, "barrier.cluster"): a phase ends when all threads of the cluster that have not
// exited have arrived. Each thread arrives once per phase and waits for its end, at once or later.
#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "checker.h"
#include "execution.h"
#include "thread_ranges.h"
#include "tolerance.h"

namespace trifold::engine {
namespace {

// Whether all threads of the block that have not exited arrived and waited in one step.
bool came_whole(const Block& block) {
  return !block.arrived_early &&
         std::ranges::all_of(block.warps, [](const Warp& warp) { return warp.at_cluster_barrier == warp.live; });
}

}  // namespace

// The sets of lanes already record whether the thread then waits or continues.
void Execution::arrive_at_cluster_barrier(Thread& thread) {
  Warp& warp = *thread.warp;
  Block& block = *thread.block;
  const auto operation = operation_of(thread);
  if (((warp.arrived | warp.may_pass) & bit(thread)) != 0) arrived_twice(thread);
  block.arrived_early |= operation != Operation::cluster_barrier;
  if (launch_.checker != nullptr)
    launch_.checker->arrive_at_cluster_barrier(thread, operation != Operation::cluster_arrive_relaxed);
  warp.may_pass &= ~bit(thread);
  if ((warp.arrived & bit(thread)) == 0) ++block.cluster->arrived;
  warp.arrived |= bit(thread);
  if (block.cluster->arrived == block.cluster->live) complete_cluster_barrier(*block.cluster);
}

void Execution::wait_at_cluster_barrier(Thread& thread) {
  Warp& warp = *thread.warp;
  if ((warp.arrived & bit(thread)) != 0) {
    warp.at_cluster_barrier |= bit(thread);
    return;
  }
  if ((warp.may_pass & bit(thread)) == 0) waits_without_arrival(thread);
  warp.may_pass &= ~bit(thread);
  warp.ready |= bit(thread);
  thread.block->phases_seen = thread.block->cluster->phase;
  if (launch_.checker != nullptr) launch_.checker->pass_cluster_barrier(thread);
}

void Execution::complete_cluster_barrier(Cluster& cluster) {
  std::vector<Block*> whole;
  for (Block* const block : cluster.blocks)
    if (came_whole(*block)) whole.push_back(block);
  if (launch_.checker != nullptr) launch_.checker->complete_cluster_barrier(cluster, whole);
  for (Block* const block : whole) ++block->interval;
  ++cluster.phase;
  cluster.arrived = 0;
  for (Block* const block : cluster.blocks) {
    block->arrived_early = false;
    for (Warp& warp : block->warps) {
      const uint32_t waited = std::exchange(warp.at_cluster_barrier, 0);
      if (waited != 0) block->phases_seen = cluster.phase;
      warp.ready |= waited;
      warp.may_pass |= std::exchange(warp.arrived, 0) & ~waited;
    }
  }
}

// A thread that has exited is not waited for.
void Execution::leave_cluster_barrier(Thread& thread) {
  Cluster& cluster = *thread.block->cluster;
  if ((thread.warp->arrived & bit(thread)) != 0) --cluster.arrived;
  thread.warp->arrived &= ~bit(thread);
  if (cluster.arrived != 0 && cluster.arrived == cluster.live) complete_cluster_barrier(cluster);
}

// ------------------------------------------------------------------------------------------------- findings

void Execution::arrived_twice(const Thread& thread) {
  Finding found = finding(Kind::barrier_divergence, Severity::error);
  found.accesses.push_back(access(thread));
  found.message += who(found.accesses[0], false) + " arrives at the barrier of its cluster a second time, at " +
                   where(found.accesses[0].location) +
                   ", without having waited for the phase that it arrived at before."
                   "\nEach barrier_arrive() wants its barrier_wait() before the next one.";
  go_on_after(std::move(found), thread.waiting_at);
}

void Execution::waits_without_arrival(const Thread& thread) {
  Finding found = finding(Kind::barrier_divergence, Severity::error);
  found.accesses.push_back(access(thread));
  found.message += who(found.accesses[0], false) + " waits at the barrier of its cluster without having arrived, at " +
                   where(found.accesses[0].location) +
                   ": on a GPU it may wait for ever."
                   "\nCall barrier_arrive() before barrier_wait(), or sync(), which does both.";
  go_on_after(std::move(found), thread.waiting_at);
}

// No thread of the cluster can run, and no other cluster can change that.
void Execution::stuck(const Cluster& cluster) {
  for (const Block* const block : cluster.blocks)
    for (const Warp& warp : block->warps)
      if (warp.at_mbarrier != 0) stuck_at_mbarriers(cluster);
  if (cluster.arrived == 0)
    for (const Block* const block : cluster.blocks)
      if (block->live != 0 && block->at_grid_barrier != block->live) stuck(*block);
  Finding found = finding(Kind::deadlock, Severity::error);
  found.message += "the threads of a cluster wait for each other in vain.";
  for (const Block* const block : cluster.blocks) {
    found.message += "\n block (" + std::to_string(block->index.x) + ", " + std::to_string(block->index.y) + ", " +
                     std::to_string(block->index.z) + "):" + waiting(found, *block);
    std::vector<uint32_t> missing;
    for (const Thread& thread : block->threads)
      if ((thread.warp->live & ~thread.warp->arrived & bit(thread)) != 0) missing.push_back(thread.index);
    if (!missing.empty())
      found.message += "\n  " + thread_ranges(missing, launch_.block) + (missing.size() == 1 ? " has" : " have") +
                       " not arrived at the barrier of the cluster";
  }
  found.message +=
      "\nThe barrier of a cluster waits for every thread of all its blocks that has not exited: let each come to it, "
      "and "
      "move it out of the branch.";
  throw Fault(std::move(found));
}

// Shared memory ends with its block: accesses by other blocks of the cluster must precede that.
void Execution::block_exits(Block& block) {
  if (launch_.checker == nullptr) return;
  find_unawaited(block);
  if (block.cluster->blocks.size() == 1) return;
  const std::optional<Visit> visit = launch_.checker->visit_not_awaited(block);
  if (!visit) return;
  Finding found = finding(Kind::lifetime, Severity::error);
  found.memory = name(Space::shared);
  found.accesses.push_back({launch_.thread_index(visit->thread), launch_.block_index(visit->thread), -1,
                            std::string(name(static_cast<AccessType>(visit->type))), front_.locate(visit->site)});
  describe_exit_before_access(found, block.index);
  go_on_after(std::move(found), visit->site);
}

}  // namespace trifold::engine
