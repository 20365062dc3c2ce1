#include "checker.h"

#include <algorithm>

#include "execution.h"

namespace trifold::engine {
namespace {

constexpr uint16_t traits_of(AtomicForm form) {
  constexpr uint16_t traits[] = {is_atomic, is_atomic | for_block, is_atomic | by_volatile};
  return traits[static_cast<int>(form)];
}

uint32_t lane_bit(uint32_t lane) {
  return uint32_t{1} << lane;
}

bool waits_for_cluster(Operation operation) {
  return operation == Operation::cluster_barrier || operation == Operation::cluster_wait;
}

// Whether a waiting thread of the same block may read memory again before anything orders it after this one. Its
// request is that of its last wait, which came after its last access.
bool may_look_again(const Thread& reader, const Thread& thread) {
  if ((reader.warp->live & lane_bit(reader.lane)) == 0) return false;
  const auto operation = static_cast<Operation>(reader.request.operation);
  if (operation <= Operation::grid_barrier || waits_for_cluster(operation)) return false;
  if (operation >= Operation::active_mask) return true;
  return reader.warp != thread.warp || (reader.request.mask & lane_bit(thread.lane)) == 0;
}

}  // namespace

std::string_view name(AccessType type) {
  constexpr std::string_view names[] = {"read", "write", "atomic"};
  return names[static_cast<int>(type)];
}

Checker::Checker(Launch& launch)
    : launch_(launch),
      block_size_(static_cast<uint32_t>(launch.block.size())),
      races_((launch.checks & check_race) != 0),
      initialisation_((launch.checks & check_uninitialised) != 0),
      graph_(launch.grid, launch.cluster) {}

bool Checker::ordered_by_more(const Buffer& buffer, const Cell& cell, int earlier, const Thread& thread) const {
  const Record record = cell.record(earlier);
  if (ordered_by_threads(record, thread)) return true;
  if (is_operation(record.thread)) return knows_operation(record, thread);
  const bool atomic = cell.has(earlier, is_atomic);
  return !graph_.empty() && acquired(thread, record, atomic ? buffer.address_of(cell) : 0);
}

// By barriers, except those of the thread's own block, and by rendezvous of its warp.
bool Checker::ordered_by_threads(Record record, const Thread& thread) const {
  if (record.stamp <= grid_) return true;
  const Cluster& cluster = *thread.block->cluster;
  if (record.stamp <= cluster.clock.barrier && cluster.has(block_of(record.thread))) return true;
  const uint32_t index = record.thread - (thread.id - thread.index);
  if (index < block_size_ && index / warp_size == thread.index / warp_size) {
    const WarpClock& warp = thread.warp->clock;
    const uint32_t lane = index % warp_size;
    const bool left = (warp.left & lane_bit(lane)) != 0;
    if (record.stamp <= (left ? warp.lanes->left[lane] : warp.joined)) return true;
    const bool partial = warp.partial > thread.block->barrier;
    if (partial && record.stamp <= warp.lanes->seen[thread.lane][lane]) return true;
  }
  return false;
}

bool Checker::happened_before(Record record, const Thread& thread) const {
  if (record.thread == thread.id) return true;
  const uint32_t index = record.thread - (thread.id - thread.index);
  if (index < block_size_ && record.stamp <= thread.block->barrier) return true;
  if (ordered_by_threads(record, thread)) return true;
  if (is_operation(record.thread)) return knows_operation(record, thread);
  return !graph_.empty() && acquired(thread, record, 0);
}

bool Checker::acquired(const Thread& thread, Record record, uintptr_t atomic_address) const {
  const Block& block = *thread.block;
  const ThreadClock& own = thread.clock;
  const KnowledgeGraph::Query query{record.thread, block_of(record.thread), record.stamp, atomic_address};
  if (own.since >= block.clock.begin && graph_.knows(own.acquired, block.id, query)) return true;
  return graph_.knows(block.clock.acquired, block.id, query);
}

void Checker::leave_race(const Buffer& buffer, const Cell& cell, AccessType type, int earlier) {
  const Record record = cell.record(earlier);
  const bool wrote = earlier == 0 || cell.has(earlier, is_write);
  const AccessType plain = wrote ? AccessType::write : AccessType::read;
  violation = {.kind = record.thread == barriers_own ? Kind::barrier_misuse : Kind::race,
               .type = type,
               .address = buffer.address_of(cell),
               .other_thread = record.thread,
               .other_type = cell.has(earlier, is_atomic) ? AccessType::atomic : plain,
               .other_site = cell.site(earlier),
               .by = accessing_};
  if (is_operation(record.thread)) {
    const OperationRow& other = operations_->of(record.thread);
    violation.other_thread = other.thread;
    violation.other_interval = other.interval;
    violation.other_by = name(other.instruction);
  } else if (record.thread != earlier_grid) {
    violation.other_interval = interval_of(block_of(record.thread), record.stamp);
  }
}

bool Checker::race(const Buffer& buffer, const Cell& cell, AccessType type, int earlier) {
  leave_race(buffer, cell, type, earlier);
  return judge != nullptr && judge->goes_on(violation);
}

bool Checker::uninitialised(const Buffer& buffer, const Cell& cell, AccessType type) {
  violation = {.kind = Kind::uninitialised_read, .type = type, .address = buffer.address_of(cell), .by = accessing_};
  return judge != nullptr && judge->goes_on(violation);
}

bool Checker::read(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site) {
  for (Cell& cell : buffer.cells(address, n)) {
    if (read_cell(buffer, cell, thread, site)) [[likely]]
      continue;
    return judge == nullptr && violation.kind == Kind::race && racing_read(buffer, address, n, thread, site);
  }
  return true;
}

inline bool Checker::read_cell(Buffer& buffer, Cell& cell, const Thread& thread, Site site) {
  const bool may_be_uninitialised = initialisation_ && !buffer.initialised();
  if (may_be_uninitialised && !buffer.holds(cell.write) && !uninitialised(buffer, cell, AccessType::read)) return false;
  if (!races_ || buffer.space() == Space::local) return true;
  if (!ordered(buffer, cell, 0, thread) && !race(buffer, cell, AccessType::read, 0)) return false;
  for (int other = 1; cell.traits != 0 && other < 3; ++other) {
    if (!cell.has(other, is_write) || ordered(buffer, cell, other, thread)) continue;
    if (!race(buffer, cell, AccessType::read, other)) return false;
  }
  if (cell.traits == 0 && surely_ordered(buffer, cell.other[0], thread)) {
    cell.other[0] = {thread.id, launch_.now};
    cell.other_site[0] = site;
  } else {
    remember(cell, buffer, thread, site, 0);
  }
  return true;
}

// For a thread of the same block as this one its warp, otherwise its block.
uint64_t Checker::group_of(Record record, const Thread& thread) const {
  const uint32_t block = block_of(record.thread);
  return block == thread.block->id ? uint64_t{record.thread % block_size_ / warp_size} : ~uint64_t{block};
}

// Remembers a read or an atomic, in addition to accesses that it does not subsume. If more than two are unordered,
// those of different blocks, then of different warps, are kept: an access ordered after one of them may be unordered
// with the other.
void Checker::remember(Cell& cell, const Buffer& buffer, const Thread& thread, Site site, uint16_t traits,
                       uint32_t by) const {
  const auto replaceable = [&](int other) {
    return !cell.has(other, is_write) && surely_ordered(buffer, cell.other[other - 1], thread);
  };
  int place = 0;
  if (replaceable(1)) {
    place = 1;
  } else if (replaceable(2)) {
    place = 2;
  } else if (group_of(cell.record(1), thread) == group_of(cell.record(2), thread) && !cell.has(2, is_write)) {
    place = 2;
  } else {
    return;
  }
  cell.other[place - 1] = {by, launch_.now};
  cell.other_site[place - 1] = site;
  cell.set_traits(place, traits);
}

bool Checker::write(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread, Site site) {
  for (Cell& cell : buffer.cells(address, n)) {
    if (!write_cell(buffer, cell, thread, site)) [[unlikely]]
      return judge == nullptr && violation.kind == Kind::race && racing_write(buffer, address, n, thread);
  }
  return true;
}

inline bool Checker::write_cell(Buffer& buffer, Cell& cell, const Thread& thread, Site site) {
  const bool races = races_ && buffer.space() != Space::local;
  for (int earlier = 0; races && earlier < 3; ++earlier) {
    if (!ordered(buffer, cell, earlier, thread) && !race(buffer, cell, AccessType::write, earlier)) return false;
  }
  cell = {.write = {thread.id, launch_.now}, .write_site = site};
  return true;
}

bool Checker::check_atomic(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread,
                           const AtomicAccess& access) {
  const bool may_be_uninitialised = access.reads && initialisation_ && !buffer.initialised();
  const bool races = races_ && buffer.space() != Space::local;
  for (Cell& cell : buffer.cells(address, n)) {
    const bool unwritten = may_be_uninitialised && !buffer.holds(cell.write);
    if (unwritten && !uninitialised(buffer, cell, AccessType::atomic)) return false;
    for (int earlier = 0; races && earlier < 3; ++earlier) {
      const bool by_thread = !is_operation(cell.record(earlier).thread);
      if (by_thread && cell.has(earlier, is_atomic) && !out_of_scope(cell, earlier, thread, access.form)) continue;
      if (ordered(buffer, cell, earlier, thread)) continue;
      if (!racing_atomic(buffer, cell, earlier, address, n, thread, access.site)) return false;
    }
  }
  return true;
}

// CUDA C++ Programming Guide, "Thread Scopes": the scope of each atomic must include the other thread.
inline bool Checker::out_of_scope(const Cell& cell, int earlier, const Thread& thread, AtomicForm form) const {
  const bool narrow = form == AtomicForm::block || cell.has(earlier, for_block);
  return narrow && block_of(cell.record(earlier).thread) != thread.block->id;
}

bool Checker::awaited(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread) {
  if (!races_) return true;
  const uint32_t first = thread.id - thread.index;
  for (const Cell& cell : buffer.cells(address, n)) {
    for (const int earlier : {1, 2}) {
      if (cell.traits_of(earlier) != (is_atomic | by_volatile)) continue;
      const uint32_t index = cell.record(earlier).thread - first;
      if (index >= block_size_ || ordered(buffer, cell, earlier, thread)) continue;
      if (may_look_again(thread.block->threads[index], thread)) continue;
      leave_race(buffer, cell, AccessType::write, earlier);
      violation.other_type = AccessType::read;
      return false;
    }
  }
  return true;
}

void Checker::note_atomic(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, const AtomicAccess& access,
                          bool wrote) {
  const uint16_t traits = traits_of(access.form);
  const bool as_guessed = access.compares && wrote;
  for (Cell& cell : buffer.cells(address, n)) {
    // The thread's own plain read supplied the compared value: nobody has written since, else it would be undecided.
    for (const int other : {1, 2})
      if (as_guessed && buffer.holds(cell.record(other)) && cell.traits_of(other) == 0 &&
          cell.record(other).thread == thread.id)
        cell.set_traits(other, is_guess);
    if (wrote) {
      note_wrote(cell, buffer, thread, access.site, traits, thread.id);
    } else if (races_) {
      remember(cell, buffer, thread, access.site, traits);
    }
  }
  if (!races_ || buffer.space() == Space::local) return;
  if (const Knowledge released = graph_.at(address)) {
    ThreadClock& own = clock(thread);
    BlockClock& block = thread.block->clock;
    own.acquired = graph_.merge(own.acquired, released);
    block.acquired_now = graph_.merge(block.acquired_now, released);
  }
  if (wrote) release(address, thread);
}

// Whether an ordinary access before this thread's atomic is ordered before everything that can follow the atomic. An
// atomic alone orders nothing, so an access that is ordered only for its own block must stay remembered.
bool Checker::settled(const Buffer& buffer, Record record, const Thread& thread) const {
  if (!buffer.holds(record) || record.stamp <= grid_) return true;
  if (is_operation(record.thread)) return false;
  const Block& block = *thread.block;
  const Cluster& cluster = *block.cluster;
  if (cluster.blocks.size() > 1)
    return !cluster.has(block_of(record.thread)) ||
           (buffer.space() == Space::shared && record.stamp <= cluster.clock.barrier);
  return block_of(record.thread) != block.id || (buffer.space() == Space::shared && record.stamp <= block.barrier);
}

// Notes an atomic write. As far as there is room, these stay remembered with it: ordinary writes that are not settled,
// atomics of other threads that are not ordered before it (a later read must be ordered after both), ordinary reads. An
// atomic of wider scope does not replace one of block scope: atomics of other blocks race with the latter only.
void Checker::note_wrote(Cell& cell, const Buffer& buffer, const Thread& thread, Site site, uint16_t traits,
                         uint32_t by) const {
  Cell now{.write = {by, launch_.now}, .write_site = site, .traits = traits};
  int place = 1;
  const auto keep = [&](int earlier) {
    now.other[place - 1] = cell.record(earlier);
    now.other_site[place - 1] = cell.site(earlier);
    now.set_traits(place, cell.traits_of(earlier) | (earlier == 0 ? is_write : 0));
    ++place;
  };
  const auto keep_all = [&](bool wrote, bool atomic) {
    for (const int earlier : {0, 2, 1}) {
      const bool writes = earlier == 0 || cell.has(earlier, is_write);
      if (place == 3 || writes != wrote || cell.has(earlier, is_atomic) != atomic) continue;
      const Record record = cell.record(earlier);
      const bool stands_for = atomic && ((traits & for_block) != 0 || !cell.has(earlier, for_block));
      if (!(stands_for ? surely_ordered(buffer, record, thread) : settled(buffer, record, thread))) keep(earlier);
    }
  };
  keep_all(true, false);
  keep_all(true, true);
  keep_all(false, true);
  keep_all(false, false);
  cell = now;
}

int64_t Checker::interval_of(uint32_t block, Stamp stamp) const {
  for (const Block* const running : blocks_) {
    if (running->id == block && stamp > running->barrier) return running->interval;
  }
  if (!all_barriers_) return -1;
  return std::count_if(barriers_.begin(), barriers_.end(),
                       [&](Passed passed) { return passed.block == block && passed.stamp < stamp; });
}

}  // namespace trifold::engine
