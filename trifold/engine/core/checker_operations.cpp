// The Checker's part for asynchronous operations.
#include <algorithm>

#include "checker.h"

namespace trifold::engine {

uint32_t Checker::begin_operation(Thread& issuer, Instruction instruction, Site site) {
  if (operations_ == nullptr) operations_ = std::make_unique<OperationClocks>();
  const bool sends = instruction == Instruction::st_async || instruction == Instruction::red_async;
  const Knowledge issued = races_ && sends ? known_now(issuer) : 0;
  const uint32_t number = operations_->add(issuer, instruction, site, launch_.now);
  (*operations_)[number].issued = issued;
  return number;
}

// Sent to another block and counted there with release semantics: ordered after all that the issuer knew.
Knowledge Checker::known_now(Thread& thread) {
  const Block& block = *thread.block;
  const Knowledge learnt = graph_.merge(clock(thread).acquired, block.clock.acquired);
  std::array<Stamp, warp_size> mates = known_mates(thread);
  mates[thread.lane] = tick();
  return graph_.fences(thread.id - thread.lane, mates, block.id, block.barrier, learnt, device_scope);
}

// ------------------------------------------------------------------------------------------------- who knows of one

bool Checker::knows_operation(Record record, const Thread& thread) const {
  const OperationRow& row = operations_->of(record.thread);
  if (record.stamp < row.first) return true;  // of an earlier operation with the same row
  const Stamp waited = row.waited[record.thread & 1];
  if (waited != 0 && happened_before({row.thread, waited}, thread)) return true;
  if (row.complete_at == 0) return false;
  OperationClocks::Known& found = operations_->known(thread.id, record.thread);
  if (found.thread == thread.id && found.operation == record.thread && record.stamp <= found.stamp) return true;
  if (graph_.empty() || !acquired(thread, record, 0)) return false;
  found = {thread.id, record.thread, record.stamp};
  return true;
}

void Checker::wait_for_operation(const Thread&, uint32_t number, bool reads_only) {
  OperationRow& row = (*operations_)[number];
  for (const Side side : {reads_side, writes_side})
    if (row.waited[side] == 0 && (side == reads_side || !reads_only)) row.waited[side] = launch_.now;
}

Knowledge Checker::complete_operation(uint32_t number) {
  if (!races_) return 0;
  OperationRow& row = (*operations_)[number];
  if (row.complete_at <= grid_ || row.complete_at < row.last) {
    const std::array<Stamp, 2> sides{row.last, row.last};
    const uint32_t id = OperationClocks::id(number, reads_side);
    row.complete = graph_.fences(id, sides, id, 0, row.issued, device_scope);
    row.complete_at = launch_.now;
  }
  return row.complete;
}

Knowledge Checker::complete_operations(std::span<const uint32_t> rows) {
  Knowledge all = 0;
  for (const uint32_t row : rows) all = graph_.merge(all, complete_operation(row));
  return all;
}

// ------------------------------------------------------------------------------------------------- proxies

void Checker::fence_proxy(Thread& thread, uint8_t spaces) {
  constexpr size_t threads_kept = size_t{1} << 20;
  if (!races_) return;
  if (operations_ == nullptr) operations_ = std::make_unique<OperationClocks>();
  const Stamp mark = tick();
  const Block& block = *thread.block;
  if (operations_->fences.size() * block_size_ >= threads_kept) forget_proxy_fences();
  std::vector<ProxyFences>& of_block = operations_->fences[block.id];
  of_block.resize(block_size_);
  auto& [dropped, fences] = of_block[thread.index];
  if (fences.size() == ProxyFences::kept) {
    dropped = fences.front().stamp;
    fences.erase(fences.begin());
  }
  fences.push_back({.stamp = mark,
                    .barrier = block.barrier,
                    .cluster = block.cluster->clock.barrier,
                    .acquired = graph_.merge(clock(thread).acquired, block.clock.acquired),
                    .spaces = spaces,
                    .mates = {}});
  const WarpClock& warp = thread.warp->clock;
  if (std::max(warp.joined, warp.partial) <= block.barrier) return;
  const std::array<Stamp, warp_size> mates = known_mates(thread);
  fences.back().mates.assign(mates.begin(), mates.end());
}

void Checker::forget_proxy_fences() {
  operations_->fences.clear();
  operations_->fences_since = launch_.now;
}

// Whether the thread `by` knew of an access when it fenced.
bool Checker::knew(const ProxyFence& fence, uint32_t by, Record record, const Thread& issuer) const {
  if (record.thread == by) return record.stamp <= fence.stamp;
  const uint32_t own = block_of(by), block = block_of(record.thread);
  if (block == own && record.stamp <= fence.barrier) return true;
  const Cluster& cluster = *issuer.block->cluster;
  if (record.stamp <= fence.cluster && cluster.has(block) && cluster.has(own)) return true;
  const uint32_t index = record.thread % block_size_;
  const bool mate = block == own && index / warp_size == by % block_size_ / warp_size && !fence.mates.empty();
  if (mate && record.stamp <= fence.mates[index % warp_size]) return true;
  return graph_.knows(fence.acquired, own, {record.thread, block, record.stamp, 0});
}

// Whether one of a thread's fences is between an access and what the issuer does now. Tests the newest fence that the
// issuer knows of, at which the thread knew most.
bool Checker::fence_orders(uint32_t by, const ProxyFences& all, Record record, Space space,
                           const Thread& issuer) const {
  for (auto fence = all.fences.rbegin(); fence != all.fences.rend() && fence->stamp >= record.stamp; ++fence) {
    const bool of_space = (fence->spaces >> static_cast<int>(space) & 1) != 0;
    if (of_space && happened_before({by, fence->stamp}, issuer)) return knew(*fence, by, record, issuer);
  }
  return all.dropped >= record.stamp && happened_before({by, all.dropped}, issuer);
}

// For an access through the generic proxy that is ordered before what the issuer does now.
Checker::Fenced Checker::fenced(Record record, Space space, const Thread& issuer) const {
  if (record.thread == earlier_grid) return Fenced::in_time;
  if (is_operation(record.thread)) {
    const OperationRow& row = operations_->of(record.thread);
    if (record.stamp < row.first || !is_of_generic_proxy(row.instruction)) return Fenced::in_time;
    const Stamp waited = row.waited[record.thread & 1];
    if (waited != 0) record = {row.thread, waited};
  }
  if (record.stamp <= grid_ || record.stamp <= operations_->fences_since) return Fenced::in_time;
  const auto by = [&](uint32_t thread) {
    const auto block = operations_->fences.find(block_of(thread));
    return block != operations_->fences.end() && !is_operation(thread) &&
           fence_orders(thread, block->second[thread % block_size_], record, space, issuer);
  };
  if (by(record.thread)) return Fenced::in_time;
  for (const Block* const block : issuer.block->cluster->blocks) {
    if (!operations_->fences.contains(block->id)) continue;
    for (const Thread& thread : block->threads)
      if (thread.id != issuer.id && by(thread.id)) return Fenced::in_time;
  }
  return by(issuer.id) ? Fenced::by_issuer : Fenced::missing;
}

// ------------------------------------------------------------------------------------------------- the start of one

bool Checker::issue(Buffer& buffer, uintptr_t address, size_t n, const Thread& issuer, const Issue& issue) {
  OperationRow& row = (*operations_)[issue.row];
  row.last = launch_.now;
  accessing_ = name(row.instruction);
  late_fence.reset();
  const bool races = races_ && buffer.space() != Space::local;
  const bool reads = issue.type == AccessType::read || issue.reads;
  const bool may_be_uninitialised = reads && initialisation_ && !buffer.initialised();
  bool right = true;
  for (Cell& cell : buffer.cells(address, n)) {
    const bool unwritten = may_be_uninitialised && !buffer.holds(cell.write);
    right = !unwritten || uninitialised(buffer, cell, issue.type);
    for (int earlier = 0; right && races && earlier < 3; ++earlier)
      right = issue_after(buffer, cell, earlier, issuer, issue);
    if (!right) break;
    note_issue(cell, buffer, issuer, issue);
  }
  accessing_ = {};
  return right;
}

// Whether the operation may follow an earlier access of the cell.
bool Checker::issue_after(Buffer& buffer, Cell& cell, int earlier, const Thread& issuer, const Issue& issue) {
  const Record record = cell.record(earlier);
  if (!buffer.holds(record) || record.thread == nobody) return true;
  const bool wrote = earlier == 0 || cell.has(earlier, is_write);
  if (issue.type == AccessType::read && !wrote) return true;
  const bool both_reduce =
      issue.type == AccessType::atomic && is_operation(record.thread) && cell.has(earlier, is_atomic);
  if (both_reduce) return true;
  if (!ordered(buffer, cell, earlier, issuer)) return race(buffer, cell, issue.type, earlier);
  if (!is_of_async_proxy((*operations_)[issue.row].instruction)) return true;
  switch (fenced(record, buffer.space(), issuer)) {
    case Fenced::in_time: return true;
    case Fenced::by_issuer:
      leave_race(buffer, cell, issue.type, earlier);
      violation.unfenced = true;
      if (operations_->late_fences.emplace(issue.site, violation.other_site).second) late_fence = violation;
      return true;
    case Fenced::missing: break;
  }
  leave_race(buffer, cell, issue.type, earlier);
  violation.unfenced = true;
  return judge != nullptr && judge->goes_on(violation);
}

void Checker::note_issue(Cell& cell, const Buffer& buffer, const Thread& issuer, const Issue& issue) const {
  const uint32_t id = OperationClocks::id(issue.row, issue.type == AccessType::read ? reads_side : writes_side);
  if (issue.type == AccessType::read) {
    if (races_ && buffer.space() != Space::local) remember(cell, buffer, issuer, issue.site, 0, id);
  } else if (issue.type == AccessType::atomic) {
    note_wrote(cell, buffer, issuer, issue.site, is_atomic, id);
  } else {
    cell = {.write = {id, launch_.now}, .write_site = issue.site};
  }
}

// ------------------------------------------------------------------------------------------------- lifetime

void Checker::note_use(const Use& use) {
  std::vector<Use>& uses = operations_->uses;
  const auto same = [&](const Use& known) { return known.row == use.row && known.owner == use.owner; };
  if (!uses.empty() && same(uses.back())) return;
  uses.push_back(use);
  if (uses.size() < operations_->uses_checked_at) return;
  std::erase_if(uses, [&](const Use& known) { return is_awaited(known, *known.owner); });
  operations_->uses_checked_at = std::max<size_t>(2 * uses.size(), 256);
}

// Whether a thread that this block knows of has waited for it.
bool Checker::is_awaited(const Use& use, const Block& by) const {
  const OperationRow& row = (*operations_)[use.row];
  if (row.awaited || row.waited[use.side] != 0 || row.last <= grid_) return true;
  const uint32_t id = OperationClocks::id(use.row, use.side);
  return graph_.knows(by.clock.acquired_now, by.id, {id, block_of(id), row.last, 0});
}

std::optional<Checker::PendingUse> Checker::use_not_awaited(const Block& owner) const {
  if (operations_ == nullptr || !races_) return {};
  for (const Use& use : operations_->uses)
    if (use.owner == &owner && !is_awaited(use, owner)) return PendingUse{(*operations_)[use.row], use};
  return {};
}

// All blocks of the cluster have arrived at its barrier: an operation that one of them has waited for has ended for
// all, even if the arrivals were relaxed and order nothing else.
void Checker::note_awaited(const Cluster& cluster) {
  for (const Use& use : operations_->uses) {
    if (!cluster.has(use.owner->id)) continue;
    const auto waited = [&](const Block* block) { return is_awaited(use, *block); };
    if (std::ranges::any_of(cluster.blocks, waited)) (*operations_)[use.row].awaited = true;
  }
}

}  // namespace trifold::engine
