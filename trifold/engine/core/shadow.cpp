#include "shadow.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <span>

namespace trifold::engine {
namespace {

// From this size on a shadow has its own mapping: its pages are zeroed on first use, and returned to the system.
constexpr size_t mapped_bytes = size_t{1} << 18;

Cell* allocate(size_t cells) {
  const size_t bytes = cells * sizeof(Cell);
  if (bytes < mapped_bytes) {
    if (void* const memory = calloc(cells, sizeof(Cell))) return static_cast<Cell*>(memory);
    throw std::bad_alloc();
  }
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: page faults are half the cost of a cold access
  return static_cast<Cell*>(memory);
}

void deallocate(Cell* cells, size_t count) {
  const size_t bytes = count * sizeof(Cell);
  if (bytes < mapped_bytes) {
    free(cells);
  } else {
    munmap(cells, bytes);
  }
}

// log2 of the largest power of two that divides all of these.
unsigned common_shift(size_t width, size_t a, size_t b) {
  return static_cast<unsigned>(std::countr_zero(width | a | b));
}

constexpr unsigned widest = 6;  // 64 bytes: no single access is wider

Buffer* all_buffers = nullptr;

}  // namespace

Buffer::Buffer(Space space, uintptr_t begin, size_t size, size_t width, bool initialised)
    : begin_(begin),
      size_(size),
      shift_(static_cast<uint8_t>(std::min(widest, common_shift(std::max<size_t>(width, 1), 0, 0)))),
      space_(space),
      initialised_(initialised) {
  cells_ = allocate(cell_count());
  next_ = all_buffers;
  link_ = &all_buffers;
  if (next_ != nullptr) next_->link_ = &next_;
  all_buffers = this;
}

Buffer::~Buffer() {
  deallocate(cells_, cell_count());
  *link_ = next_;
  if (next_ != nullptr) next_->link_ = link_;
}

std::span<Cell> Buffer::cells(uintptr_t address, size_t n) {
  const size_t offset = address - begin_;
  const unsigned shift = common_shift(size_t{1} << widest, offset, n);
  if (shift < shift_) refine(shift);
  return {cells_ + (offset >> shift_), n >> shift_};
}

void Buffer::refine(unsigned shift) {
  const size_t old_count = cell_count();
  Cell* const old_cells = cells_;
  const unsigned old_shift = shift_;
  shift_ = static_cast<uint8_t>(shift);
  cells_ = allocate(cell_count());
  for (size_t i = 0; i < cell_count(); ++i) cells_[i] = old_cells[i >> (old_shift - shift)];
  deallocate(old_cells, old_count);
}

Touched Buffer::touched_by_launch(size_t cell) const {
  const uintptr_t at = begin_ + (cell << shift_);
  Touched touched{{at, std::min(at + cell_bytes(), begin_ + size_)}, cells_[cell]};
  for (Record* const record : {&touched.cell.write, &touched.cell.other[0], &touched.cell.other[1]})
    if (!holds(*record) || record->thread == nobody || record->thread == earlier_grid) *record = {};
  return touched;
}

std::vector<std::pair<size_t, size_t>> Buffer::used_cells() const {
  const size_t count = (size_ + cell_bytes() - 1) >> shift_;
  const size_t bytes = cell_count() * sizeof(Cell);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((bytes + page - 1) / page);
  // A page that was swapped out counts as unused, too: its accesses are lost, which hides findings and makes none.
  if (bytes < mapped_bytes || mincore(cells_, bytes, resident.data()) != 0) return {{0, count}};
  std::vector<std::pair<size_t, size_t>> used;
  const size_t cells = page / sizeof(Cell);
  for (size_t i = 0; i < resident.size(); ++i) {
    if ((resident[i] & 1) == 0) continue;
    if (!used.empty() && used.back().second == i * cells) {
      used.back().second += cells;
    } else {
      used.emplace_back(i * cells, (i + 1) * cells);
    }
  }
  if (!used.empty()) used.back().second = std::min(used.back().second, count);
  return used;
}

void Buffer::continue_after(const Touched& earlier) {
  constexpr Record then{earlier_grid, end_of_earlier_grid};
  const uintptr_t begin = std::max(begin_, earlier.bytes.begin), end = std::min(begin_ + size_, earlier.bytes.end);
  for (Cell& cell : cells(begin, end - begin)) {
    cell.traits = earlier.cell.traits;
    if (earlier.cell.write.stamp != 0) {
      cell.write = then;
      cell.write_site = earlier.cell.write_site;
    }
    for (int i = 0; i < 2; ++i) {
      cell.other[i] = earlier.cell.other[i].stamp != 0 ? then : Record{};
      cell.other_site[i] = earlier.cell.other_site[i];
    }
  }
}

void Buffer::note_discarded(uintptr_t address, size_t n) {
  if (initialised_) {  // the rest is then initialised cell by cell
    for (Cell& cell : std::span(cells_, cell_count()))
      if (!holds(cell.write)) cell.write = {nobody, epoch_};
    initialised_ = false;
  }
  for (Cell& cell : cells(address, n)) {
    Cell left;  // races with the write are still found
    left.other[0] = cell.write;
    left.other_site[0] = cell.write_site;
    left.set_traits(1, is_write);
    cell = left;
  }
}

void Buffer::note_written_beside(std::span<const ByteRange> unwritten) {
  uintptr_t from = begin_;
  const auto note_until = [&](uintptr_t to) {
    if (from < to) note_written(from, to - from);
  };
  for (const ByteRange part : unwritten) {
    note_until(part.begin);
    from = part.end;
  }
  note_until(begin_ + size_);
}

std::vector<ByteRange> Buffer::unwritten(ByteRange bytes) const {
  std::vector<ByteRange> parts;
  for (uintptr_t at = bytes.begin; at < bytes.end;) {
    const uintptr_t end = std::min(bytes.end, at - (at - begin_) % cell_bytes() + cell_bytes());
    const bool continues = !parts.empty() && parts.back().end == at;
    if (!written(at) && continues) parts.back().end = end;
    if (!written(at) && !continues) parts.push_back({at, end});
    at = end;
  }
  return parts;
}

void Buffer::forget_all(Stamp stamp) {
  for (Buffer* buffer = all_buffers; buffer != nullptr; buffer = buffer->next_) {
    for (Cell& cell : std::span(buffer->cells_, buffer->cell_count())) {
      if (cell.write.stamp == 0 && cell.other[0].stamp == 0) continue;  // untouched pages stay untouched
      Cell left;
      if (buffer->holds(cell.write)) left = {.write = {cell.write.thread, stamp}, .write_site = cell.write_site};
      cell = left;
    }
    buffer->epoch_ = stamp;
  }
}

}  // namespace trifold::engine
