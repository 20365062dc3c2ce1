#include "async.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "checker.h"
#include "execution.h"

namespace trifold::engine {

// ------------------------------------------------------------------------------------------------- bytes

AsyncOperation::Part AsyncOperation::next_part() {
  if (is_over()) return {0, 0};  // no bytes
  const uint32_t begin = (first_part + parts_done++) % parts() * part_bytes;
  return {begin, std::min(bytes - begin, part_bytes)};
}

void AsyncOperation::read(Part part, char* into) const {
  if (!moves) return;
  const char* const source = from == nullptr ? value.data() : from;
  const uint32_t there = std::clamp(read_bytes, part.begin, part.begin + part.bytes) - part.begin;
  if (there != 0) std::memcpy(into, source + part.begin, there);
  std::memset(into + there, 0, part.bytes - there);
}

void AsyncOperation::write(Part part, const char* source) const {
  if (!moves) return;
  if (combine != nullptr) {
    combine(to + part.begin, source, part.bytes);
  } else {
    std::memcpy(to + part.begin, source, part.bytes);
  }
  ++changes;
}

uint32_t AsyncOperation::copy_part() {
  const Part part = next_part();
  alignas(16) char held[part_bytes];
  read(part, held);
  write(part, held);
  return part.bytes;
}

uint32_t AsyncOperation::read_part() {
  if (holding == nullptr) holding = std::make_unique_for_overwrite<char[]>(bytes);
  const Part part = next_part();
  read(part, holding.get() + part.begin);
  return part.bytes;
}

uint32_t AsyncOperation::write_part() {
  const Part part = next_part();
  write(part, holding.get() + part.begin);
  return part.bytes;
}

// ------------------------------------------------------------------------------------------------- schedule

void Execution::start(AsyncOperation&& operation) {
  ++events_;
  enum { early, late, meanwhile } timing = late;
  if (launch_.seed != 0 && operation.bytes != 0) {
    timing = static_cast<decltype(timing)>(async_chances_.below(3));
    operation.first_part = async_chances_.below(operation.parts());
  }
  if (operation.barrier == nullptr) {
    AsyncGroups& groups = groups_of(*operation.issuer, operation.kind);
    operation.group = groups.open_number();
    ++groups.open().reading;
    ++groups.open().writing;
    if (operation.kind == GroupKind::copies) {
      operation.number = ++operation.issuer->groups->started;
      ++operation.issuer->groups->under_way;
    }
  }
  Cluster& cluster = *operation.issuer->block->cluster;
  operation.meanwhile = timing == meanwhile;
  meanwhile_ += operation.meanwhile ? 1 : 0;
  if (cluster.operations == nullptr) cluster.operations = std::make_unique<AsyncOperations>();
  AsyncOperations& all = *cluster.operations;
  if (timing != early) {
    all.moving.push(std::move(operation));
    return;
  }
  AsyncOperations alone;
  alone.moving.push(std::move(operation));
  while (!alone.empty()) move_part(alone, alone.moving.empty() ? alone.writing : alone.moving, 0);
}

// Moves operations until a thread becomes ready. False: no operation is in flight.
bool Execution::advance(Cluster& cluster) {
  if (cluster.operations == nullptr || cluster.operations->empty()) return false;
  AsyncOperations& all = *cluster.operations;
  ++events_;
  woken_ = false;
  while (!woken_ && !all.empty()) {
    auto& queue = all.moving.empty() ? all.writing : all.moving;
    const auto size = static_cast<uint32_t>(queue.size());
    move_part(all, queue, launch_.seed == 0 ? 0 : async_chances_.below(size));
  }
  return true;
}

// Called after a step of a thread.
void Execution::move_meanwhile(Cluster& cluster) {
  if (cluster.operations == nullptr || cluster.operations->empty() || async_chances_.below(8) != 0) return;
  AsyncOperations& all = *cluster.operations;
  const auto moving = static_cast<uint32_t>(all.moving.size()), writing = static_cast<uint32_t>(all.writing.size());
  const uint32_t any = async_chances_.below(moving + writing);
  auto& queue = any < moving ? all.moving : all.writing;
  const uint32_t place = any < moving ? any : any - moving;
  if (queue[place].meanwhile) move_part(all, queue, place);
}

void Execution::move_part(AsyncOperations& all, AsyncQueue& queue, size_t place) {
  AsyncOperation& operation = queue[place];
  const bool reads = operation.reads_apart && &queue == &all.moving;
  const uint32_t bytes = reads                   ? operation.read_part()
                         : operation.reads_apart ? operation.write_part()
                                                 : operation.copy_part();
  const bool over = operation.is_over();
  if (operation.barrier != nullptr && bytes != 0) {
    const bool releases = over && launch_.checker != nullptr;
    const Actor actor{operation.issuer, operation.site, Operation::async_start};
    MBarrier& barrier = *operation.barrier;
    const uint32_t phase = barrier.phase;
    complete_transactions(barrier, actor, bytes, releases ? launch_.checker->complete_operation(operation.row) : 0);
    woken_ |= barrier.phase != phase;
  }
  if (!over) return;
  Thread& issuer = *operation.issuer;
  const bool grouped = operation.barrier == nullptr;
  if (grouped) {
    AsyncGroup& group = groups_of(issuer, operation.kind)[operation.group];
    if (reads || !operation.reads_apart) --group.reading;
    if (!reads) --group.writing;
  }
  const uint32_t number = operation.number;
  if (reads) {
    operation.parts_done = 0;
    all.writing.push(std::move(operation));
  } else {
    meanwhile_ -= operation.meanwhile ? 1 : 0;
  }
  queue.remove(place);
  if (number != 0) end_copy(issuer, number);
  if (grouped) wake_from_group(issuer);
}

// ------------------------------------------------------------------------------------------------- groups

AsyncGroups& Execution::groups_of(Thread& thread, GroupKind kind) {
  if (thread.groups == nullptr) thread.groups = std::make_unique<GroupsOfThread>();
  return thread.groups->of_kind[static_cast<size_t>(kind)];
}

void Execution::commit_group(Thread& thread, GroupKind kind) {
  groups_of(thread, kind).groups.emplace_back();
}

// The number of a thread's first group that this wait does not include.
uint32_t Execution::end_of_wait(Thread& thread, const GroupWait& wait) {
  const AsyncGroups& all = groups_of(thread, wait.kind);
  return all.open_number() - std::min(all.open_number() - all.first, wait.pending);
}

bool Execution::is_over(Thread& thread, const GroupWait& wait) {
  AsyncGroups& all = groups_of(thread, wait.kind);
  const uint32_t begin = wait.reads_only ? std::max(all.read, all.first) : all.first;
  for (uint32_t number = begin; number < end_of_wait(thread, wait); ++number)
    if (!all[number].is_over(wait.reads_only)) return false;
  return true;
}

// The thread has waited: accesses of those operations are ordered before what it does next.
void Execution::pass_groups(Thread& thread, const GroupWait& wait) {
  AsyncGroups& all = groups_of(thread, wait.kind);
  const uint32_t begin = wait.reads_only ? std::max(all.read, all.first) : all.first, end = end_of_wait(thread, wait);
  if (begin >= end) return;
  for (uint32_t number = begin; number < end && launch_.checker != nullptr; ++number)
    for (const uint32_t row : all[number].rows) launch_.checker->wait_for_operation(thread, row, wait.reads_only);
  all.read = end;
  if (wait.reads_only) return;
  all.groups.erase(all.groups.begin(), all.groups.begin() + static_cast<ptrdiff_t>(end - begin));
  all.first = end;
}

GroupWait Execution::asked_for(const Thread& thread) {
  const Request& request = thread.request;
  return {static_cast<GroupKind>(request.lane), request.clamp, request.predicate};
}

void Execution::wait_for_groups(Thread& thread) {
  const uint32_t lane = 1u << thread.lane;
  (is_over(thread, asked_for(thread)) ? thread.warp->ready : thread.warp->at_group) |= lane;
}

void Execution::wake_from_group(Thread& thread) {
  const uint32_t lane = 1u << thread.lane;
  if ((thread.warp->at_group & lane) == 0 || !is_over(thread, asked_for(thread))) return;
  thread.warp->at_group &= ~lane;
  thread.warp->ready |= lane;
  woken_ = true;
}

// ------------------------------------------------------------------------------------------------- arrivals

void Execution::arrive_after_copies(Thread& thread, MBarrier& barrier, bool counted) {
  ++events_;
  AsyncGroups& copies = groups_of(thread, GroupKind::copies);
  GroupsOfThread& all = *thread.groups;
  if (counted) ++barrier.pending;
  LateArrival arrival{&barrier, thread.waiting_at, all.started, all.under_way, {}};
  for (const AsyncGroup& group : copies.groups)
    arrival.rows.insert(arrival.rows.end(), group.rows.begin(), group.rows.end());
  copies.open().shares_row = false;
  if (all.under_way == 0) {
    arrive_now(thread, arrival);
  } else {
    all.arrivals.push_back(std::move(arrival));
  }
}

// One of the thread's copies has completed.
void Execution::end_copy(Thread& thread, uint32_t number) {
  GroupsOfThread& all = *thread.groups;
  --all.under_way;
  for (LateArrival& arrival : all.arrivals)
    if (number <= arrival.started) --arrival.under_way;
  while (!all.arrivals.empty() && all.arrivals.front().under_way == 0) {
    const LateArrival arrival = std::move(all.arrivals.front());
    all.arrivals.erase(all.arrivals.begin());
    arrive_now(thread, arrival);
  }
}

void Execution::arrive_now(Thread& thread, const LateArrival& arrival) {
  const uint32_t phase = arrival.barrier->phase;
  Knowledge copied = 0;
  if (launch_.checker != nullptr) copied = launch_.checker->complete_operations(arrival.rows);
  arrive_later(*arrival.barrier, {&thread, arrival.site, Operation::async_start}, 1, copied);
  woken_ |= arrival.barrier->phase != phase;
}

// ------------------------------------------------------------------------------------------------- findings

// Shared memory ends with its block, so no operation on it may be in flight then.
void Execution::find_unawaited(const Block& block) {
  const std::optional<Checker::PendingUse> pending = launch_.checker->use_not_awaited(block);
  if (!pending) return;
  const auto& [operation, use] = *pending;
  Finding found = finding(Kind::lifetime, Severity::error);
  found.memory = name(Space::shared);
  found.accesses.push_back({launch_.thread_index(operation.thread), launch_.block_index(operation.thread),
                            static_cast<int64_t>(operation.interval), use.side == reads_side ? "read" : "write",
                            front_.locate(use.site), std::string(name(operation.instruction))});
  describe_exit_before_operation(found, block.index);
  go_on_after(std::move(found), use.site);
}

}  // namespace trifold::engine
