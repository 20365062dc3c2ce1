// The Checker's part for races that are decided only after the access: writes of the same bits, and plain reads whose
// value only serves as a compare-and-swap's operand.
#include <algorithm>
#include <cstring>

#include "checker.h"

namespace trifold::engine {
namespace {

// The widths of atomicCAS.
bool has_compare_and_swap(size_t n) {
  return n == 2 || n == 4 || n == 8;
}

uint64_t bits_at(uintptr_t address, size_t n) {
  uint64_t bits = 0;
  std::memcpy(&bits, reinterpret_cast<const void*>(address), n);
  return bits;
}

constexpr int all_accesses[] = {0, 1, 2};  // of a Cell: the write, and the others

}  // namespace

// ------------------------------------------------------------------------------------------------- the same bits

// write_cell() has left the violation.
bool Checker::racing_write(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread) {
  violation.among_writes = std::ranges::all_of(buffer.cells(address, n), [&](const Cell& cell) {
    return std::ranges::all_of(all_accesses, [&](int earlier) {
      if (ordered(buffer, cell, earlier, thread)) return true;
      // After an atomic write, memory no longer holds what a plain write left.
      const bool plain = !cell.has(earlier, is_atomic) && !cell.has(0, is_atomic) &&
                         cell.write.thread != barriers_own &&
                         !is_operation(cell.record(earlier).thread);  // an operation may not have written yet
      return plain && (earlier == 0 || cell.has(earlier, is_write));
    });
  });
  return false;
}

WrittenBits Checker::compare_write(Buffer& buffer, uintptr_t address, size_t n, const char* before,
                                   const Thread& thread, Site site) {
  const std::span<Cell> cells = buffer.cells(address, n);
  bool found_same = false, found_other = false;
  for (const Cell& cell : cells) {
    const uintptr_t at = buffer.address_of(cell);
    const bool same = std::memcmp(before + (at - address), reinterpret_cast<const void*>(at), buffer.cell_bytes()) == 0;
    for (const int earlier : all_accesses) {
      if (ordered(buffer, cell, earlier, thread)) continue;
      if (!same && !race(buffer, cell, AccessType::write, earlier)) return WrittenBits::other;
      if (same && !found_same && !found_other) leave_race(buffer, cell, AccessType::write, earlier);
      (same ? found_same : found_other) = true;
    }
  }
  for (Cell& cell : cells) note_beside_writes(cell, buffer, thread, site);
  if (found_other) return WrittenBits::tolerated;
  const bool first = same_bits_.emplace(&buffer, site, violation.other_site).second;
  return first ? WrittenBits::same : WrittenBits::same_again;
}

// Of the writes unordered with this one, one stays remembered with it, preferably of another block or warp: what is
// ordered after this write need not be ordered after that one.
void Checker::note_beside_writes(Cell& cell, const Buffer& buffer, const Thread& thread, Site site) const {
  Cell now{.write = {thread.id, launch_.now}, .write_site = site};
  for (const int earlier : {1, 2, 0}) {
    if (ordered(buffer, cell, earlier, thread)) continue;
    const bool has_one = now.other[0].stamp != 0;
    if (has_one && group_of(now.other[0], thread) != group_of(now.write, thread)) continue;
    now.other[0] = cell.record(earlier);
    now.other_site[0] = cell.site(earlier);
    now.set_traits(1, is_write);
  }
  cell = now;
}

// --------------------------------------------------------------------------------- reads for a compare-and-swap

// read_cell() has left the violation.
bool Checker::racing_read(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site) {
  Violation first = violation;
  for (const Cell& cell : buffer.cells(address, n)) {
    if (initialisation_ && !buffer.initialised() && !buffer.holds(cell.write))
      return uninitialised(buffer, cell, AccessType::read);
    for (const int earlier : all_accesses) {
      const bool writes = earlier == 0 || cell.has(earlier, is_write);
      if (!writes || ordered(buffer, cell, earlier, thread)) continue;
      const bool atomic =
          cell.has(earlier, is_atomic) && !cell.has(earlier, by_volatile) && !is_operation(cell.record(earlier).thread);
      if (!atomic || !has_compare_and_swap(n)) return race(buffer, cell, AccessType::read, earlier);
    }
  }
  for (Cell& cell : buffer.cells(address, n)) remember(cell, buffer, thread, site, is_guess);
  first.past = {site, thread.block->interval, n, false};
  keep_read({&thread, address, n, bits_at(address, n), first});
  return true;
}

// An atomic that is not ordered with this earlier access, which may be a plain read.
bool Checker::racing_atomic(Buffer& buffer, Cell& cell, int earlier, uintptr_t address, size_t n, const Thread& thread,
                            Site site) {
  if (cell.traits_of(earlier) == is_guess) return true;
  const bool plain_read = earlier != 0 && cell.traits_of(earlier) == 0;
  Thread* const reader = plain_read && has_compare_and_swap(n) ? undecided_reader(cell.record(earlier)) : nullptr;
  if (reader == nullptr) return race(buffer, cell, AccessType::atomic, earlier);
  cell.set_traits(earlier, is_guess);
  keep_read({reader, address, n, bits_at(address, n),
             Violation{.kind = Kind::race,
                       .type = AccessType::read,
                       .address = buffer.address_of(cell),
                       .other_thread = thread.id,
                       .other_type = AccessType::atomic,
                       .other_site = site,
                       .other_interval = thread.block->interval,
                       .past = Violation::Past{cell.site(earlier), reader->block->interval, n, true}}});
  return true;
}

// The thread that made this access, if it has arrived at no barrier since; null: it has, or has ended.
Thread* Checker::undecided_reader(Record record) const {
  const auto block = std::ranges::find(blocks_, block_of(record.thread), &Block::id);
  if (block == blocks_.end() || record.stamp <= (*block)->barrier) return nullptr;
  Thread& thread = (*block)->threads[record.thread % block_size_];
  const Warp& warp = *thread.warp;
  const uint32_t goes_on = warp.live & ~(warp.at_barrier | warp.at_grid_barrier | warp.arrived | warp.may_pass);
  return (goes_on >> thread.lane & 1) != 0 ? &thread : nullptr;
}

void Checker::keep_read(UndecidedRead read) {
  const auto same = [&](const UndecidedRead& kept) {
    return kept.thread == read.thread && kept.address == read.address && kept.n == read.n;
  };
  if (std::ranges::any_of(undecided_reads_, same)) return;  // another cell of the same read
  read.thread->undecided |= undecided_reads;
  undecided_reads_.push_back(read);
}

template <typename Decides, typename IsRight>
bool Checker::take_reads(Thread& thread, Decides decides, IsRight is_right) {
  bool right = true, left = false;
  std::erase_if(undecided_reads_, [&](const UndecidedRead& read) {
    if (read.thread != &thread) return false;
    if (!right || !decides(read)) {
      left = true;
      return false;
    }
    right = is_right(read);
    if (!right) violation = read.violation;
    return true;
  });
  if (!left) thread.undecided &= static_cast<uint8_t>(~undecided_reads);
  return right;
}

bool Checker::decide_reads(Thread& thread, uintptr_t address, size_t n, std::optional<uint64_t> compare) {
  const auto overlaps = [&](const UndecidedRead& read) {
    return read.address < address + n && address < read.address + read.n;
  };
  return take_reads(thread, overlaps, [&](const UndecidedRead& read) {
    return read.address == address && read.n == n && compare == read.value;
  });
}

bool Checker::decide_reads_of(Thread& thread, uint32_t writer) {
  const auto is_of = [&](const UndecidedRead& read) { return read.violation.other_thread == writer; };
  return take_reads(thread, is_of, [](const UndecidedRead&) { return false; });
}

}  // namespace trifold::engine
