#include "stream_accesses.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <ranges>
#include <utility>

#include "../core/per_thread.h"
#include "device_memory.h"
#include "program_report.h"
#include "stream_findings.h"

namespace trifold::cpu {
namespace {

struct Kept {
  std::recursive_mutex lock;
  std::deque<KeptOperation> operations;                              // in the order of their calls
  size_t ranges = 0;                                                 // of all of them
  std::map<uintptr_t, std::pair<uintptr_t, std::string>> variables;  // end and name
};

Kept& kept() {
  static Kept& all = *new Kept;  // never destroyed: the program may use CUDA while it exits
  return all;
}

using Locked = std::lock_guard<std::recursive_mutex>;

thread_local engine::PerThread<Accesses> of_kernel;

std::optional<Conflict> first_conflict(const Accesses& later, const Accesses& earlier) {
  std::optional<Conflict> first;
  for (const Way own : ways)
    for (const Way other : ways) {
      if (!conflict(own, other)) continue;
      auto a = later.of(own).begin();
      auto b = earlier.of(other).begin();
      while (a != later.of(own).end() && b != earlier.of(other).end()) {
        const uintptr_t begin = std::max(a->begin, b->begin), end = std::min(a->end, b->end);
        if (begin < end) {
          if (!first || begin < first->begin) first = {begin, end, own, other, a->site, b->site};
          break;
        }
        if (a->end < b->end)
          ++a;
        else
          ++b;
      }
    }
  return first;
}

// Compares an operation with the kept ones, of each stream from the newest on: the one after which to wait.
bool report_conflicts(const KeptOperation& operation, const FindLine& find_line) {
  bool any = false;
  for (const KeptOperation& earlier : std::views::reverse(kept().operations)) {
    if (has_ended(earlier.moment, earlier.node)) continue;
    const std::optional<Conflict> found = first_conflict(operation.accesses, earlier.accesses);
    if (!found) continue;
    report_conflict(operation, earlier, *found, find_line == nullptr ? engine::Location{} : find_line());
    assume_ended(earlier.moment, earlier.node);
    any = true;
  }
  return any;
}

// Compares the operation with those before, and keeps it.
void keep(KeptOperation operation) {
  if (operation.accesses.size() == 0) return;
  operation.reaches_host = current_operation()->reaches_host;
  const Locked alone(kept().lock);
  report_conflicts(operation, nullptr);
  kept().ranges += operation.accesses.size();
  kept().operations.push_back(std::move(operation));
  while (kept().operations.size() > most_kept || (kept().ranges > most_ranges && kept().operations.size() > 1)) {
    kept().ranges -= kept().operations.front().accesses.size();
    kept().operations.pop_front();
  }
}

KeptOperation present_operation(Doer doer, Line line) {
  const RunningOperation& now = *current_operation();
  return {.moment = now.moment,
          .call = now.call,
          .node = now.node,
          .doer = doer,
          .line = line,
          .graph = now.node == 0 ? Line{nullptr, 0} : now.line};
}

void add_rows(Accesses& accesses, Way way, const void* memory, size_t pitch, const Rectangle& shape) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  for (size_t row = 0; row < shape.rows; ++row)
    accesses.add(way, {begin + row * pitch, begin + row * pitch + shape.width, 0});
}

Accesses bytes(Way way, const void* memory, size_t count) {
  Accesses accesses;
  add_rows(accesses, way, memory, count, {count, count, 1});
  return accesses;
}

// Notes whether one side of a copy, or the target of a memset, is the host's.
bool is_pageable(const void* memory) {
  auto kind = MemoryKind::device;
  const bool known = find_memory(memory, kind);
  current_operation()->reaches_host |= !known || kind != MemoryKind::device;
  return !known;
}

}  // namespace

void Accesses::add(Way way, AccessedRange range) {
  std::vector<AccessedRange>& list = ranges_[static_cast<size_t>(way)];
  if (!list.empty() && list.back().end == range.begin && list.back().site == range.site)
    list.back().end = range.end;
  else
    list.push_back(range);
}

void Accesses::add(const engine::ByteRange& bytes, const engine::Cell& cell) {
  std::array<std::optional<engine::Site>, ways.size()> sites;
  for (int i = 0; i < 3; ++i) {
    if (cell.record(i).stamp == 0) continue;
    const bool writes = i == 0 || cell.has(i, engine::is_write);
    // An atomic of block scope is none for other launches.
    const bool atomic = cell.has(i, engine::is_atomic) && !cell.has(i, engine::for_block);
    const Way way = writes ? (atomic ? Way::atomic : Way::write) : atomic ? Way::atomic_read : Way::read;
    sites[static_cast<size_t>(way)] = cell.site(i);
  }
  for (const Way way : ways)
    if (const auto site = sites[static_cast<size_t>(way)]) add(way, {bytes.begin, bytes.end, *site});
}

size_t Accesses::size() const {
  size_t count = 0;
  for (const auto& list : ranges_) count += list.size();
  return count;
}

bool accesses_count() {
  return current_operation() != nullptr && program_options().pipe >= 0;
}

void note_copied_rows(const void* to, size_t to_pitch, const void* from, const Rectangle& shape, Line line) {
  if (!accesses_count()) return;
  KeptOperation operation = present_operation(Doer::copy, line);
  if (is_pageable(to)) {
    current_operation()->to_pageable = true;
  } else {
    add_rows(operation.accesses, Way::write, to, to_pitch, shape);
  }
  if (!is_pageable(from)) add_rows(operation.accesses, Way::read, from, shape.pitch, shape);
  keep(std::move(operation));
}

void note_copied_variable(const void* variable, const void* other, size_t count, bool to_variable, Line line) {
  if (!accesses_count()) return;
  KeptOperation operation = present_operation(Doer::copy, line);
  operation.accesses = bytes(to_variable ? Way::write : Way::read, variable, count);
  if (!is_pageable(other))
    add_rows(operation.accesses, to_variable ? Way::read : Way::write, other, count, {count, count, 1});
  else
    current_operation()->to_pageable = !to_variable;
  keep(std::move(operation));
}

void note_filled_rows(const void* to, const Rectangle& shape, Line line) {
  if (!accesses_count() || is_pageable(to)) return;
  KeptOperation operation = present_operation(Doer::fill, line);
  add_rows(operation.accesses, Way::write, to, shape.pitch, shape);
  keep(std::move(operation));
}

void note_allocation(const void* memory, size_t count, Doer doer, Line line) {
  if (!accesses_count()) return;
  KeptOperation operation = present_operation(doer, line);
  operation.accesses = bytes(Way::write, memory, count);
  keep(std::move(operation));
}

void note_kernel(Accesses accesses) {
  *of_kernel = std::move(accesses);
}

void keep_kernel(const std::string& kernel, Line line) {
  Accesses accesses = std::exchange(*of_kernel, {});
  if (!accesses_count()) return;
  KeptOperation operation = present_operation(Doer::kernel, line);
  operation.kernel = kernel;
  operation.accesses = std::move(accesses);
  keep(std::move(operation));
}

void note_variable(uintptr_t begin, uintptr_t end, const std::string& name) {
  const Locked alone(kept().lock);
  kept().variables[begin] = {end, name};
}

namespace {

// Compares an access by the host, in a host function of a stream or outside.
void compare_host(KeptOperation access, const FindLine& find_line) {
  if (current_operation() != nullptr) {
    const KeptOperation now = present_operation(access.doer, current_operation()->line);
    access.moment = now.moment, access.node = now.node, access.line = now.line, access.graph = now.graph;
  }
  bool any = false;
  {
    const Locked alone(kept().lock);
    any = report_conflicts(access, find_line);
  }
  if (any) forget_accesses_that_ended();
}

}  // namespace

void note_host_frees(const void* memory, size_t count, Line line) {
  if (program_options().pipe < 0) return;
  compare_host(
      {.moment = of_host, .doer = Doer::host_release, .line = line, .accesses = bytes(Way::write, memory, count)},
      nullptr);
}

void note_host_access(uintptr_t address, bool writes, const FindLine& find_line) {
  const auto* const byte = reinterpret_cast<const void*>(address);
  const bool atomic = address == host_atomic;
  const Way way = atomic ? (writes ? Way::atomic : Way::atomic_read) : writes ? Way::write : Way::read;
  compare_host({.moment = of_host, .doer = Doer::host, .accesses = bytes(way, byte, 1)}, find_line);
}

std::vector<Flight> flights(uintptr_t begin, uintptr_t end) {
  const Locked alone(kept().lock);
  std::vector<Flight> found;
  for (const KeptOperation& operation : kept().operations) {
    if (!operation.reaches_host || host_knows(operation.moment)) continue;
    for (const Way way : ways) {
      const auto& list = operation.accesses.of(way);
      auto each = std::ranges::upper_bound(list, begin, {}, &AccessedRange::end);
      for (; each != list.end() && each->begin < end; ++each)
        found.push_back({{std::max(begin, each->begin), std::min(end, each->end), each->site},
                         way == Way::write || way == Way::atomic});
    }
  }
  return found;
}

void forget_accesses_that_ended() {
  {
    const Locked alone(kept().lock);
    auto& operations = kept().operations;
    std::erase_if(operations, [](const KeptOperation& each) { return host_knows(each.moment); });
    kept().ranges = 0;
    for (const KeptOperation& each : operations) kept().ranges += each.accesses.size();
  }
  renew_flights();
}

Described describe_memory(uintptr_t address) {
  const Locked alone(kept().lock);
  const auto after = kept().variables.upper_bound(address);
  if (after != kept().variables.begin()) {
    const auto& [begin, variable] = *std::prev(after);
    if (address < variable.first) return {variable.second, "the variable " + variable.second, begin};
  }
  if (const Allocation* const allocation = allocation_near(address))
    return {allocation->variable(), allocation->description(), allocation->begin};
  return {"", "a variable of the device", address};
}

}  // namespace trifold::cpu
