// Execution's findings for threads that wait for each other forever; each text is complete without context.
#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "execution.h"
#include "thread_ranges.h"
#include "tolerance.h"

namespace trifold::engine {

namespace {

// The most groups of threads that a report lists, and the most blocks in a deadlock: longer lists are not read.
constexpr size_t groups_shown = 8;
constexpr size_t blocks_shown = 8;

std::string hexadecimal(uint32_t mask) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += digits[mask >> shift & 15];
  return text;
}

bool waits_with_mask(const Thread& thread) {
  return (thread.warp->at_rendezvous >> thread.lane & 1) != 0 && !is_of_whole_warp(operation_of(thread));
}

// The remedy for lanes that call this with others that never do.
std::string remedy(const Thread& caller, std::string_view of_masks) {
  if (!is_of_whole_warp(operation_of(caller))) return "\n" + std::string(of_masks);
  return "\n" + std::string(name(operation_of(caller))) +
         " is an instruction of the whole warp: let all 32 lanes come to it, by a condition that is the same for all "
         "of them, and before any of them exits.";
}

// For a thread that waits at a barrier in shared memory.
const MBarrierWait& wait_of(const Thread& thread) {
  return *reinterpret_cast<const MBarrierWait*>(thread.request.value);
}

// "wait in syncthreads()", "poll memory"; for one thread "waits", "polls".
std::string activity(const Thread& thread, bool one, const std::string& barrier = {}) {
  const Operation operation = operation_of(thread);
  if (operation == Operation::named_barrier && thread.request.lane >= named_barriers)
    return std::string(one ? "waits" : "wait") + " in sync() of a tile of " + std::to_string(thread.request.clamp) +
           " threads";
  if (operation == Operation::poll) return one ? "polls memory" : "poll memory";
  std::string text = (one ? "waits in " : "wait in ") + std::string(name(operation));
  if (operation == Operation::mbarrier_wait)
    return text + "() for the end of phase " + std::to_string(wait_of(thread).phase) + " of " + barrier;
  text += operation == Operation::named_barrier
              ? " " + std::to_string(thread.request.lane) + ", " + std::to_string(thread.request.clamp)
              : "()";
  if (waits_with_mask(thread)) text += " with mask " + hexadecimal(thread.request.mask);
  return text;
}

std::string lanes_text(uint32_t lanes) {
  std::vector<uint32_t> numbers;
  for (; lanes != 0; lanes &= lanes - 1) numbers.push_back(static_cast<uint32_t>(std::countr_zero(lanes)));
  return (numbers.size() == 1 ? "lane " : "lanes ") + number_ranges(numbers);
}

const Thread* first_that_lives(const Block& block) {
  for (const Warp& warp : block.warps)
    if (warp.live != 0) return &warp.lanes[std::countr_zero(warp.live)];
  return nullptr;
}

std::vector<uint32_t> exited(const Block& block) {
  std::vector<uint32_t> indices;
  for (const Thread& thread : block.threads)
    if ((thread.warp->live >> thread.lane & 1) == 0) indices.push_back(thread.index);
  return indices;
}

}  // namespace

std::string_view name(Operation operation) {
  constexpr std::string_view names[] = {
      "syncthreads",
      "syncthreads_count",
      "syncthreads_and",
      "syncthreads_or",
      "grid.sync",
      "syncwarp",
      "shfl_sync",
      "shfl_up_sync",
      "shfl_down_sync",
      "shfl_xor_sync",
      "all_sync",
      "any_sync",
      "eq_sync",
      "ballot_sync",
      "match_any_sync",
      "match_all_sync",
      "activemask",
      "poll",
      "bar.sync",
      "bar.arrive",
      "cluster.sync",
      "cluster.barrier_arrive",
      "barrier.cluster.arrive.relaxed",
      "cluster.barrier_wait",
      "mbarrier.init",
      "mbarrier.inval",
      "mbarrier.arrive",
      "mbarrier.expect_tx",
      "mbarrier.complete_tx",
      "mbarrier.test_wait",
      "mbarrier.try_wait",
      "cvta",
      "an asynchronous operation",
      "cp.async.wait_group",
      "mma.sync",
      "ldmatrix",
      "stmatrix",
      "movmatrix",
      "load_matrix_sync",
      "store_matrix_sync",
      "mma_sync",
  };
  return names[static_cast<size_t>(operation)];
}

Finding Execution::finding(Kind kind, Severity severity) const {
  Finding found;
  found.kind = kind;
  found.severity = severity;
  found.kernel = launch_.kernel;
  found.seed = launch_.seed;
  found.message = std::string(name(kind)) + " in kernel " + launch_.kernel + ": ";
  return found;
}

Access Execution::access(const Thread& thread) const {
  Access made;
  made.thread = launch_.block.at(thread.index);
  made.block = thread.block->index;
  made.interval = thread.block->interval;
  made.operation = name(operation_of(thread));
  made.location = front_.locate(thread.waiting_at);
  return made;
}

// The launch ends, unless the user accepts the finding or has asked to continue.
void Execution::go_on_after(Finding found, Site site) {
  const Tally::Place place{.kind = found.kind, .site = site};
  if (launch_.tally == nullptr || !launch_.tally->goes_on(place, found)) throw Fault(std::move(found));
}

// One line per group of the block's threads that wait for the same thing at the same place; each group's first thread
// becomes one of the finding's accesses.
std::string Execution::waiting(Finding& finding, const Block& block) const {
  using Group = std::pair<const Thread*, std::vector<uint32_t>>;
  std::map<std::tuple<Site, uint8_t, uint32_t, uint64_t>, size_t> number;
  std::vector<Group> groups;
  for (const Thread& thread : block.threads) {
    if ((thread.warp->live >> thread.lane & 1) == 0) continue;
    const uint32_t mask = waits_with_mask(thread) ? thread.request.mask : 0;
    const bool at_mbarrier = (thread.warp->at_mbarrier >> thread.lane & 1) != 0;
    const uint64_t phase = at_mbarrier ? uint64_t{wait_of(thread).offset} << 32 | wait_of(thread).phase : 0;
    const auto [at, fresh] =
        number.try_emplace({thread.waiting_at, thread.request.operation, mask, phase}, groups.size());
    if (fresh) groups.push_back({&thread, {}});
    groups[at->second].second.push_back(thread.index);
  }
  std::string text;
  for (size_t i = 0; i < std::min(groups.size(), groups_shown); ++i) {
    const auto& [thread, indices] = groups[i];
    finding.accesses.push_back(access(*thread));
    const bool at_mbarrier = (thread->warp->at_mbarrier >> thread->lane & 1) != 0;
    const std::string barrier = at_mbarrier ? front_.name_of_shared(block, wait_of(*thread).offset) : "";
    text += "\n  " + thread_ranges(indices, launch_.block) + " " + activity(*thread, indices.size() == 1, barrier) +
            " at " + where(finding.accesses.back().location);
  }
  if (groups.size() > groups_shown) text += "\n  and " + std::to_string(groups.size() - groups_shown) + " more groups";
  if (const std::vector<uint32_t> gone = exited(block); !gone.empty())
    text += "\n  " + thread_ranges(gone, launch_.block) + (gone.size() == 1 ? " has exited" : " have exited");
  return text;
}

// ------------------------------------------------------------------------------------------------- barriers

void Execution::different_barriers(const Block& block) {
  Finding found = finding(Kind::barrier_divergence, Severity::error);
  found.message += "the threads of block " + coordinates(block.index) + " wait at different barriers." +
                   waiting(found, block) +
                   "\nEvery thread of a block has to come to the same barrier: make the condition in front of it the "
                   "same for the whole block, or move the barrier out of the branch.";
  go_on_after(std::move(found), block.barrier_site);
}

void Execution::different_grid_barriers(const Thread& thread) {
  Finding found = finding(Kind::barrier_divergence, Severity::error);
  for (const Thread* waits : {static_cast<const Thread*>(first_at_grid_barrier_), &thread})
    found.accesses.push_back(access(*waits));
  found.message += "the threads of the grid wait at different grid barriers.";
  for (const Access& at : found.accesses)
    found.message += "\n  thread " + coordinates(at.thread) + " of block " + coordinates(at.block) +
                     " waits in grid.sync() at " + where(at.location);
  found.message += "\nEvery thread of the grid has to come to the same grid.sync(): move it out of the branch.";
  go_on_after(std::move(found), thread.waiting_at);
}

void Execution::warn_of_exited(const Block& block) {
  const std::vector<uint32_t> gone = exited(block);
  Finding found = finding(Kind::barrier_divergence, Severity::warning);
  const Thread& waits = *first_that_lives(block);
  found.accesses.push_back(access(waits));
  found.message += thread_ranges(gone, launch_.block) + " of block " + coordinates(block.index) +
                   (gone.size() == 1 ? " has" : " have") + " exited before " + std::string(name(operation_of(waits))) +
                   "() at " + where(found.accesses[0].location) + ", where the other " + std::to_string(block.live) +
                   " wait."
                   "\nGPUs since Volta wait only for the threads that are left; older ones, and the CUDA programming "
                   "guide, do not promise it. Let every thread come to the barrier: put a condition around the work "
                   "instead of an early return.";
  front_.warn(found);
}

// ------------------------------------------------------------------------------------------------- warps

void Execution::not_in_own_mask(const Thread& thread) {
  Finding found = finding(Kind::warp_divergence, Severity::error);
  found.accesses.push_back(access(thread));
  const Access& at = found.accesses[0];
  const std::string lane = std::to_string(thread.lane);
  found.message += "thread " + coordinates(at.thread) + " of block " + coordinates(at.block) + " is lane " + lane +
                   " of its warp and calls " + at.operation + " with mask " + hexadecimal(thread.request.mask) +
                   ", which does not name lane " + lane + ", at " + where(at.location) +
                   "\nA mask names the lanes that make the call, the caller among them: keep the other lanes out of "
                   "the call by a condition, or add lane " +
                   lane + " to the mask.";
  go_on_after(std::move(found), thread.waiting_at);
}

void Execution::different_calls(const Warp& warp, uint32_t lanes) {
  Finding found = finding(Kind::warp_divergence, Severity::error);
  const Thread* caller = nullptr;  // of an instruction of the whole warp, if any lane is at one
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    const Thread& thread = warp.lanes[std::countr_zero(left)];
    if (caller == nullptr || is_of_whole_warp(operation_of(thread))) caller = &thread;
  }
  found.message +=
      "lanes of warp " + std::to_string(warp.index) + " of block " + coordinates(warp.block->index) +
      (is_of_whole_warp(operation_of(*caller)) ? " wait for each other in different calls."
                                               : " name each other in their masks but make different calls.");
  for (uint32_t left = lanes; left != 0;) {
    const Thread& first = warp.lanes[std::countr_zero(left)];
    uint32_t same_call = 0;
    for (uint32_t others = left; others != 0; others &= others - 1) {
      const Thread& other = warp.lanes[std::countr_zero(others)];
      if (other.waiting_at == first.waiting_at && other.request.operation == first.request.operation &&
          other.request.mask == first.request.mask)
        same_call |= 1u << other.lane;
    }
    left &= ~same_call;
    found.accesses.push_back(access(first));
    found.message += "\n  " + lanes_text(same_call) + " " + activity(first, std::has_single_bit(same_call)) + " at " +
                     where(found.accesses.back().location);
  }
  found.message += remedy(*caller,
                          "All lanes that a mask names have to make the same call, with the same mask: give each "
                          "branch a mask of the lanes that take it, or move the call out of the branch.");
  throw Fault(std::move(found));
}

// Lanes wait at an instruction of the whole warp, but the others have exited or were never launched.
void Execution::not_whole_warp(const Warp& warp, uint32_t lanes) {
  Finding found = finding(Kind::warp_divergence, Severity::error);
  const Thread& first = warp.lanes[std::countr_zero(lanes)];
  found.accesses.push_back(access(first));
  const auto missing_lanes = [&](uint32_t missing, std::string_view one, std::string_view several) {
    if (missing == 0) return std::string();
    return "\n  " + lanes_text(missing) + " " + std::string(std::has_single_bit(missing) ? one : several);
  };
  found.message += lanes_text(lanes) + " of warp " + std::to_string(warp.index) + " of block " +
                   coordinates(warp.block->index) + (std::has_single_bit(lanes) ? " comes" : " come") + " to " +
                   std::string(name(operation_of(first))) + "() at " + where(found.accesses[0].location) +
                   " without the rest of the warp." +
                   missing_lanes(warp.exists & ~warp.live, "has exited", "have exited") +
                   missing_lanes(~warp.exists, "was not launched", "were not launched") + remedy(first, {});
  throw Fault(std::move(found));
}

// ------------------------------------------------------------------------------------------------- no way on

// No thread of the block can run, and no other block can change that.
void Execution::stuck(const Block& block) {
  if (block.barrier_mixed && block.at_barrier == block.live) different_barriers(block);
  for (const Warp& warp : block.warps)
    if (warp.at_named_barrier != 0) stuck_at_named_barriers(block);
  for (const Warp& warp : block.warps) {
    if (warp.at_rendezvous == 0) continue;
    const Thread& waits = warp.lanes[std::countr_zero(warp.at_rendezvous)];
    const uint32_t missing = waits.request.mask & warp.live & ~warp.at_rendezvous;
    Finding found = finding(Kind::warp_divergence, Severity::error);
    found.message += lanes_text(warp.at_rendezvous) + " of warp " + std::to_string(warp.index) + " of block " +
                     coordinates(block.index) +
                     (std::has_single_bit(warp.at_rendezvous) ? " waits for " : " wait for ") +
                     (missing == 0 ? "each other in calls that differ."
                                   : lanes_text(missing) + (is_of_whole_warp(operation_of(waits))
                                                                ? ", which cannot come."
                                                                : ", which the mask names but which cannot come.")) +
                     waiting(found, block) +
                     remedy(waits,
                            "A mask may name only lanes that make the same call: take it from ballot_sync or "
                            "activemask before the branch, or move the call out of the branch.");
    throw Fault(std::move(found));
  }
  Finding found = finding(Kind::barrier_divergence, Severity::error);
  found.message += "the threads of block " + coordinates(block.index) + " wait for each other at different barriers." +
                   waiting(found, block) +
                   "\nEvery thread of a block has to come to the same barrier: move it out of the branch.";
  throw Fault(std::move(found));
}

void Execution::deadlock() {
  Finding found = finding(Kind::deadlock, Severity::error);
  uint64_t polling = 0;
  std::vector<const Block*> blocks;
  for (const Cluster* const cluster : residents_) {
    polling += cluster->polling();
    blocks.insert(blocks.end(), cluster->blocks.begin(), cluster->blocks.end());
  }
  found.message += "no thread can go on";
  if (polling != 0)
    found.message +=
        ": nobody has changed memory while threads looked " + std::to_string(looks_ - looks_before_idle_) + " times";
  found.message += ".";
  for (size_t i = 0; i < std::min(blocks.size(), blocks_shown); ++i)
    found.message +=
        "\n block " + coordinates(blocks[i]->index) + ":" + mbarriers(*blocks[i]) + waiting(found, *blocks[i]);
  const uint64_t unlisted = blocks.size() - std::min(blocks.size(), blocks_shown);
  if (unlisted != 0)
    found.message +=
        "\n and " + std::to_string(unlisted) + (unlisted == 1 ? " more block that waits" : " more blocks that wait");
  const uint64_t total = launch_.grid.size(), of_cluster = launch_.cluster.size();
  if (finished_ != 0)
    found.message +=
        "\n " + std::to_string(finished_ * of_cluster) + " of " + std::to_string(total) + " blocks have exited";
  if (started_ * of_cluster < total)
    found.message += "\n " + std::to_string(total - started_ * of_cluster) +
                     " blocks have not started: the device holds " + std::to_string(resident_limit_ * of_cluster) +
                     " of these blocks at a time, and none of them ends";
  if (first_at_grid_barrier_ != nullptr) {
    found.message +=
        "\nA grid barrier waits for every block of the grid: let every block come to it, and none exit "
        "before.";
  } else {
    found.message +=
        "\nA thread that waits for memory needs another one that is resident to write it, before that one "
        "waits itself: check the order of the two, the value that is waited for, and who writes it.";
  }
  throw Fault(std::move(found));
}

void Execution::too_many_blocks() {
  const std::string most = std::to_string(resident_limit_ * launch_.cluster.size());
  throw TooManyBlocks("kernel " + launch_.kernel + " synchronises its grid, but the grid has " +
                          std::to_string(launch_.grid.size()) + " blocks of " + std::to_string(launch_.block.size()) +
                          " threads, and the device holds only " + most + " of them at a time",
                      "launch at most " + most + " blocks and let each loop over its part of the work");
}

}  // namespace trifold::engine
