#include "execution.h"

#include <algorithm>
#include <bit>

#include "checker.h"

namespace trifold::engine {

constinit thread_local Thread* current = nullptr;
constinit thread_local uint64_t changes = 0;

namespace {

// How often a block's polling threads read again before other blocks run.
constexpr int patience = 64;

// After this long without an event or a change, counted in rounds of all resident blocks and in total reads by polling
// threads, the launch is considered deadlocked. High enough for loops that give up after a number of tries.
constexpr uint64_t idle_rounds_limit = 256;
constexpr uint64_t idle_looks_limit = 1 << 18;

// With few other resident clusters, a cluster pauses after one of this many passes over its threads. Few, since each
// resident cluster has stacks.
constexpr uint32_t pause_chance = 16;
constexpr size_t most_beside_pause = 8;

}  // namespace

uint64_t resident_clusters(const Launch& launch) {
  const Limits& limits = launch.limits;
  const auto threads = static_cast<uint32_t>((launch.block.size() + warp_size - 1) / warp_size * warp_size);
  const uint32_t shared = launch.static_shared_bytes + launch.dynamic_shared_bytes + 1024;
  const uint32_t a_multiprocessor =
      std::min({limits.blocks, limits.threads / threads, limits.multiprocessor_shared_bytes / shared});
  const uint64_t blocks = uint64_t{limits.multiprocessors} * std::max(a_multiprocessor, 1u);
  return std::max<uint64_t>(blocks / launch.cluster.size(), 1);
}

Execution::Execution(Launch& launch, FrontEnd& front)
    : launch_(launch),
      front_(front),
      cluster_order_(launch.clusters(), launch.seed),
      thread_order_(static_cast<uint32_t>(launch.block.size()), launch.seed),
      async_chances_(~launch.seed),
      chances_(Random::mix(launch.seed)),
      resident_limit_(resident_clusters(launch)) {
  const uint64_t blocks = launch.grid.size(), threads = launch.block.size();
  constexpr uint64_t most = first_operation;  // larger ids are those of operations
  if (blocks > most / threads)
    throw LaunchMistake("kernel " + launch.kernel + " is launched with " + std::to_string(blocks) + " blocks of " +
                            std::to_string(threads) + " threads: more threads than the " + std::to_string(most) +
                            " that are supported",
                        "launch fewer blocks and let each loop over its part of the work");
}

void Execution::run() {
  const uint64_t total = launch_.clusters();
  if (launch_.cooperative && total > resident_limit_) too_many_blocks();
  while (finished_ < total) {
    const bool opens = started_ < total && residents_.size() < resident_limit_;
    if (opens) {
      Cluster& cluster = open_cluster();
      settle(cluster);
      if (cluster.live == 0) {
        close_cluster(cluster);
      } else {
        residents_.push_back(&cluster);
      }
    }
    // After each new cluster only one of the others polls again, so that many waiting ones at most double the cost.
    if (!residents_.empty()) visit_residents(!opens);
  }
}

// ------------------------------------------------------------------------------------------------- clusters, blocks

std::unique_ptr<Block> Execution::make_block() const {
  const auto size = static_cast<uint32_t>(launch_.block.size());
  auto made = std::make_unique<Block>();
  Block& block = *made;
  block.launch = &launch_;
  block.threads = std::vector<Thread>(size);
  block.warps = std::vector<Warp>((size + warp_size - 1) / warp_size);
  for (uint32_t index = 0; index < size; ++index) {
    Thread& thread = block.threads[index];
    thread.index = index;
    thread.place = launch_.block.at(index);
    thread.lane = static_cast<uint8_t>(index % warp_size);
    thread.warp = &block.warps[index / warp_size];
    thread.block = &block;
    thread.warp->exists |= bit(thread);
  }
  for (uint32_t index = 0; index < block.warps.size(); ++index) {
    block.warps[index].index = index;
    block.warps[index].block = &block;
    block.warps[index].lanes = &block.threads[index * warp_size];
  }
  return made;
}

Cluster& Execution::make_cluster() {
  Cluster& cluster = *clusters_.emplace_back(std::make_unique<Cluster>());
  for (uint32_t rank = 0; rank < launch_.cluster.size(); ++rank) {
    Block& block = *blocks_.emplace_back(make_block());
    block.rank = rank;
    block.cluster = &cluster;
    cluster.blocks.push_back(&block);
  }
  return cluster;
}

Cluster& Execution::open_cluster() {
  if (free_.empty()) free_.push_back(&make_cluster());
  Cluster& cluster = *free_.back();
  free_.pop_back();
  const uint64_t number = launch_.first_cluster + cluster_order_[started_++];
  cluster.live = static_cast<uint32_t>(launch_.block.size() * cluster.blocks.size());
  cluster.arrived = cluster.phase = cluster.time_outs = 0;
  cluster.clock = {};
  const BlockOrder order(cluster.blocks.size(), launch_.seed == 0 ? 0 : Random::mix(launch_.seed + number) | 1);
  cluster.turns.clear();
  for (uint32_t turn = 0; turn < cluster.blocks.size(); ++turn) cluster.turns.push_back(cluster.blocks[order[turn]]);
  for (Block* const block : cluster.blocks) open_block(*block, launch_.block_of_cluster(number, block->rank));
  return cluster;
}

void Execution::open_block(Block& block, Dim3 index) {
  const auto size = static_cast<uint32_t>(block.threads.size());
  block.id = static_cast<uint32_t>(launch_.grid.linear(index));
  block.index = index;
  block.interval = 0;
  block.phases_seen = 0;
  block.arrived_early = false;
  block.live = size;
  block.named.clear();
  block.mbarriers.clear();
  for (uint32_t i = 0; i < size; ++i) {
    block.threads[i].id = block.id * size + i;
    if (block.threads[i].groups != nullptr) *block.threads[i].groups = {};
  }
  for (Warp& warp : block.warps) {
    warp.live = warp.ready = warp.exists;
    warp.arrived = warp.may_pass = 0;
  }
  if (launch_.checker != nullptr) launch_.checker->begin_block(block);
  front_.begin_block(block);
}

void Execution::close_cluster(Cluster& cluster) {
  if (launch_.checker != nullptr)
    for (Block* const block : cluster.blocks) launch_.checker->end_block(*block);
  ++finished_;
  free_.push_back(&cluster);
}

// Runs a cluster's threads until each has exited or waits for something outside the cluster; or until the cluster
// pauses.
void Execution::settle(Cluster& cluster) {
  // Not after polling or a failed try_wait: in a kernel that hangs, this would never end.
  bool may_pause = launch_.seed != 0 && launch_.clusters() > 1 && residents_.size() <= most_beside_pause;
  do {
    if (!run_all(cluster, std::exchange(may_pause, false))) return;
    for (int round = 0; cluster.polling() != 0 && round < patience; ++round) {
      const uint64_t events = events_, changes_before = changes;
      for (Block* const block : cluster.blocks) {
        for (Warp& warp : block->warps) warp.ready |= std::exchange(warp.polling, 0);
        block->polling = 0;
      }
      run_all(cluster, false);
      if (events_ == events && changes == changes_before) break;
    }
  } while (end_try_waits(cluster));
  if (cluster.live != 0 && cluster.polling() == 0 && cluster.at_grid_barrier() != cluster.live) stuck(cluster);
}

void Execution::visit_residents(bool all) {
  const uint64_t events = events_, changes_before = changes;
  for (size_t visits = all ? residents_.size() : 1; visits > 0 && !residents_.empty(); --visits) {
    if (next_resident_ >= residents_.size()) next_resident_ = 0;
    Cluster& cluster = *residents_[next_resident_];
    settle(cluster);
    if (cluster.live == 0) {
      residents_.erase(residents_.begin() + static_cast<ptrdiff_t>(next_resident_));
      close_cluster(cluster);
    } else {
      ++next_resident_;
    }
  }
  if (events_ != events || changes != changes_before) {
    idle_rounds_ = 0;
    looks_before_idle_ = looks_;
  } else if (all) {
    count_idle_round();
  }
}

void Execution::count_idle_round() {
  ++idle_rounds_;
  const bool none_polls =
      std::ranges::all_of(residents_, [](const Cluster* cluster) { return cluster->polling() == 0; });
  const bool long_enough =
      launch_.counts_changes && idle_rounds_ >= idle_rounds_limit && looks_ - looks_before_idle_ >= idle_looks_limit;
  if (none_polls || long_enough || front_.gives_up()) deadlock();
}

// ------------------------------------------------------------------------------------------------- threads

// Runs ready threads and, when there are none, operations in flight. False: the cluster pauses.
bool Execution::run_all(Cluster& cluster, bool may_pause) {
  do {
    if (!run_ready(cluster, may_pause)) return false;
  } while (advance(cluster));
  return true;
}

// A cluster that could continue pauses at random while others run: otherwise, in a kernel whose blocks claim their
// work, the first block would do all of it, and communication between blocks would not be tested.
bool Execution::run_ready(Cluster& cluster, bool may_pause) {
  for (bool ran = true; ran;) {
    ran = false;
    for (Block* const block : cluster.turns) ran |= launch_.seed == 0 ? run_in_order(*block) : run_shuffled(*block);
    if (ran && may_pause && cluster.live != 0 && chances_.below(pause_chance) == 0) {
      ++events_;
      return false;
    }
  }
  return true;
}

// One pass over a block's warps: each runs until its lanes wait; after a barrier, the block's first warp is first
// again.
bool Execution::run_in_order(Block& block) {
  bool ran = false;
  for (Warp& warp : block.warps) {
    const uint32_t interval = block.interval;
    while (block.interval == interval && (warp.ready != 0 || answer_active_mask(warp))) {
      ran = true;
      for (uint32_t lanes = warp.ready; lanes != 0; lanes &= lanes - 1) step(warp.lanes[std::countr_zero(lanes)]);
    }
  }
  return ran;
}

bool Execution::run_shuffled(Block& block) {
  bool ran = false;
  thread_order_.pass([&](uint32_t index) {
    Thread& thread = block.threads[index];
    if ((thread.warp->ready & bit(thread)) == 0) return;
    ran = true;
    step(thread);
  });
  for (Warp& warp : block.warps) ran |= warp.ready == 0 && answer_active_mask(warp);
  return ran;
}

void Execution::step(Thread& thread) {
  current = &thread;
  if (front_.resume(thread) == Outcome::waits) {
    arrive(thread);
  } else {
    leave(thread);
  }
  if (meanwhile_ != 0) [[unlikely]]
    move_meanwhile(*thread.block->cluster);
}

void Execution::arrive_and_go_on(Thread& thread) {
  ++events_;
  arrive_at_cluster_barrier(thread);
}

void Execution::arrive(Thread& thread) {
  Warp& warp = *thread.warp;
  warp.ready &= ~bit(thread);
  const auto operation = operation_of(thread);
  if (operation == Operation::poll) {
    looks_ += thread.request.looks;
    ++thread.block->polling;
    warp.polling |= bit(thread);
    return;
  }
  if (operation != Operation::mbarrier_wait) ++events_;
  if (operation <= Operation::barrier_or) {
    arrive_at_barrier(thread);
  } else if (operation == Operation::grid_barrier) {
    arrive_at_grid_barrier(thread);
  } else if (operation == Operation::active_mask) {
    warp.at_active_mask |= bit(thread);
  } else if (operation == Operation::named_barrier || operation == Operation::named_arrive) {
    arrive_at_named_barrier(thread);
  } else if (operation == Operation::cluster_wait) {
    wait_at_cluster_barrier(thread);
  } else if (is_of_cluster(operation)) {
    (operation == Operation::cluster_barrier ? warp.at_cluster_barrier : warp.ready) |= bit(thread);
    arrive_at_cluster_barrier(thread);
  } else if (operation == Operation::mbarrier_wait) {
    wait_at_mbarrier(thread);
  } else if (operation == Operation::group_wait) {
    wait_for_groups(thread);
  } else if (is_of_mbarrier(operation) || operation == Operation::shared_address ||
             operation == Operation::async_start) {
    warp.ready |= bit(thread);  // the operation itself happens later
  } else {
    arrive_at_rendezvous(thread);
  }
}

void Execution::leave(Thread& thread) {
  ++events_;
  Warp& warp = *thread.warp;
  Block& block = *thread.block;
  warp.ready &= ~bit(thread);
  warp.live &= ~bit(thread);
  --block.live;
  --block.cluster->live;
  if (warp.at_rendezvous != 0) meet_without(warp, thread.lane);
  if (block.live != 0 && block.at_barrier == block.live) complete_barrier(block);
  if (block.live != 0 && block.at_grid_barrier == block.live) block_is_at_grid_barrier(block);
  if (block.live == 0) block_exits(block);
  if (block.cluster->arrived != 0) leave_cluster_barrier(thread);
}

// ------------------------------------------------------------------------------------------------- barriers

void Execution::arrive_at_barrier(Thread& thread) {
  Block& block = *thread.block;
  thread.warp->at_barrier |= bit(thread);
  if (block.at_barrier++ == 0) block.barrier_site = thread.waiting_at;
  block.barrier_mixed |= block.barrier_site != thread.waiting_at;
  block.arrived_true += thread.request.predicate ? 1 : 0;
  if (block.at_barrier == block.live) complete_barrier(block);
}

void Execution::complete_barrier(Block& block) {
  if (block.barrier_mixed) different_barriers(block);
  block.barrier_mixed = false;  // a GPU counts arrivals, at whichever line
  if (block.live < block.threads.size() && warned_.insert(block.barrier_site).second) warn_of_exited(block);
  if (launch_.checker != nullptr) launch_.checker->block_barrier(block);
  ++block.interval;
  block.barrier_threads = std::exchange(block.at_barrier, 0);
  block.barrier_true = std::exchange(block.arrived_true, 0);
  for (Warp& warp : block.warps) warp.ready |= std::exchange(warp.at_barrier, 0);
}

void Execution::arrive_at_grid_barrier(Thread& thread) {
  if (launch_.grid.size() / launch_.cluster.size() > resident_limit_) too_many_blocks();
  if (first_at_grid_barrier_ == nullptr) first_at_grid_barrier_ = &thread;
  if (first_at_grid_barrier_->waiting_at != thread.waiting_at) different_grid_barriers(thread);
  Block& block = *thread.block;
  thread.warp->at_grid_barrier |= bit(thread);
  if (++block.at_grid_barrier == block.live) block_is_at_grid_barrier(block);
}

void Execution::block_is_at_grid_barrier(Block& block) {
  if (block.live < block.threads.size() && warned_.insert(first_at_grid_barrier_->waiting_at).second)
    warn_of_exited(block);
  if (++blocks_at_grid_barrier_ < launch_.grid.size()) return;
  std::vector<Block*> blocks;
  for (const Cluster* const cluster : residents_)
    blocks.insert(blocks.end(), cluster->blocks.begin(), cluster->blocks.end());
  if (std::ranges::find(blocks, &block) == blocks.end())
    blocks.insert(blocks.end(), block.cluster->blocks.begin(), block.cluster->blocks.end());
  if (launch_.checker != nullptr) launch_.checker->grid_barrier(blocks);
  for (Block* member : blocks) {
    ++member->interval;
    member->at_grid_barrier = 0;
    for (Warp& warp : member->warps) warp.ready |= std::exchange(warp.at_grid_barrier, 0);
  }
  blocks_at_grid_barrier_ = 0;
  first_at_grid_barrier_ = nullptr;
}

}  // namespace trifold::engine
