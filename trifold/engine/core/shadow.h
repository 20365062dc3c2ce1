// Shadow memory: the last accesses of each byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "finding.h"
#include "model.h"

namespace trifold::engine {

// The stamp of everything before the launch, which no access of the launch has.
inline constexpr Stamp before_launch = 1;

// The writer of what was written before the launch: no thread.
inline constexpr uint32_t nobody = ~uint32_t{0};

// The writer of the bytes of a barrier in shared memory: no other access is ordered after it.
inline constexpr uint32_t barriers_own = nobody - 1;

struct ByteRange {
  uintptr_t begin, end;

  bool operator==(const ByteRange&) const = default;
};

// The maker of accesses of the previous launch, if nothing orders them before this one's start; and the stamp of its
// end.
inline constexpr uint32_t earlier_grid = nobody - 2;
inline constexpr Stamp end_of_earlier_grid = before_launch + 1;

// An access that a cell remembers. stamp 0, or one before the buffer's epoch: none.
struct Record {
  uint32_t thread = 0;
  Stamp stamp = 0;

  bool operator==(const Record&) const = default;
};

// A cell's notes about an access in addition to its record.
enum Trait : uint16_t {
  is_atomic = 1,
  is_write = 2,     // of the others; the cell's `write` is always one
  for_block = 4,    // an atomic of block scope
  by_volatile = 8,  // with is_atomic: because the access is volatile
  is_guess = 8,  // without is_atomic: a plain read whose value a compare-and-swap compares, which may race with atomics
};

// The shadow of a few bytes: the last write, and up to two other accesses that are later, or that an atomic write does
// not subsume. 32 bytes.
struct Cell {
  Record write;
  Record other[2] = {};
  Site write_site = 0;
  Site other_site[2] = {0, 0};
  uint16_t traits = 0;  // four bits per access: 0 is the write, 1 and 2 are the others

  Record record(int access) const { return access == 0 ? write : other[access - 1]; }
  Site site(int access) const { return access == 0 ? write_site : other_site[access - 1]; }
  uint16_t traits_of(int access) const { return traits >> 4 * access & 15; }
  bool has(int access, Trait trait) const { return (traits_of(access) & trait) != 0; }
  void set_traits(int access, uint16_t value) {
    traits = static_cast<uint16_t>((traits & ~(15 << 4 * access)) | value << 4 * access);
  }
};
static_assert(sizeof(Cell) == 32);

// A cell's contents, and its bytes.
struct Touched {
  ByteRange bytes;
  Cell cell;

  bool is_touched() const { return (cell.write.stamp | cell.other[0].stamp | cell.other[1].stamp) != 0; }
};

// Watched memory: an argument (with all that overlap it), the shared memory of a block, a local array of a thread.
class Buffer {
 public:
  // width: bytes of the usual access; the shadow is refined when a narrower access occurs.
  Buffer(Space space, uintptr_t begin, size_t size, size_t width, bool initialised);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // From this stamp on the memory is new: nothing has accessed it.
  void restart(Stamp now) { epoch_ = now; }

  uintptr_t begin() const { return begin_; }
  size_t size() const { return size_; }
  Space space() const { return space_; }
  bool initialised() const { return initialised_; }

  // The cell of exactly these bytes; null: use cells().
  const Cell* cell_of(uintptr_t address, size_t n) const {
    const size_t offset = address - begin_;
    const size_t width = size_t{1} << shift_;
    return n == width && (offset & (width - 1)) == 0 ? cells_ + (offset >> shift_) : nullptr;
  }
  // The cells of these bytes; cells are refined if the bytes are only part of one.
  std::span<Cell> cells(uintptr_t address, size_t n);
  // These bytes were written before the launch.
  void note_written(uintptr_t address, size_t n) {
    for (Cell& cell : cells(address, n)) cell.write = {nobody, before_launch};
  }
  // The same for all bytes but these parts, which are in the order of their addresses.
  void note_written_beside(std::span<const ByteRange> unwritten);
  // Calls visit(touched) for each cell accessed by threads of the launch, in the order of addresses; of its records,
  // only theirs are left.
  template <class Visit>
  void for_touched(Visit visit) const {
    for (const auto& [begin, end] : used_cells())
      for (size_t i = begin; i < end; ++i)
        if (const Touched touched = touched_by_launch(i); touched.is_touched()) visit(touched);
  }
  // Accesses of an earlier launch, which may still be running.
  void continue_after(const Touched& earlier);
  // The last write of these bytes left them undefined: they are unwritten from now on.
  void note_discarded(uintptr_t address, size_t n);
  // The unwritten parts of these bytes.
  std::vector<ByteRange> unwritten(ByteRange bytes) const;
  // Whether this byte was written; whether by a thread of the launch; and how many bytes share one answer.
  bool written(uintptr_t address) const { return holds(cells_[(address - begin_) >> shift_].write); }
  bool written_by_launch(uintptr_t address) const {
    const Record write = cells_[(address - begin_) >> shift_].write;
    return holds(write) && write.thread != nobody && write.thread != earlier_grid;
  }
  size_t cell_bytes() const { return size_t{1} << shift_; }
  uintptr_t address_of(const Cell& cell) const { return begin_ + (static_cast<size_t>(&cell - cells_) << shift_); }
  bool holds(Record record) const { return record.stamp >= epoch_; }

  // All buffers forget the times of accesses: what was written stays so, at this stamp.
  static void forget_all(Stamp stamp);

 private:
  size_t cell_count() const { return (size_ >> shift_) + 1; }
  // Numbers of cells, [begin, end): all but those of pages which have never been written.
  std::vector<std::pair<size_t, size_t>> used_cells() const;
  Touched touched_by_launch(size_t cell) const;
  void refine(unsigned shift);

  Cell* cells_;
  uintptr_t begin_;
  size_t size_;
  Stamp epoch_ = before_launch;
  uint8_t shift_;  // a cell covers 2^shift_ bytes
  Space space_;
  bool initialised_;
  Buffer* next_;  // list of all buffers
  Buffer** link_;
};

}  // namespace trifold::engine
