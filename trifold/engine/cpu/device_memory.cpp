#include "device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "arenas.h"
#include "earlier_grid.h"
#include "program_report.h"
#include "sites.h"
#include "stream_accesses.h"

namespace trifold::cpu {
namespace {

struct Memory {
  std::mutex lock;
  Arena arena;
  Heap heap;
  std::map<uintptr_t, std::unique_ptr<Allocation>> allocations;  // by their first address
  std::map<uintptr_t, size_t> symbols;                           // variables of the device, by their first address
  bool protects = false;
  int open = 0;  // the number of OpenMemory objects
};

Memory& memory() {
  static Memory& all = *new Memory;  // never destroyed: the program may free memory while it exits
  return all;
}

void protect(const Allocation& allocation, bool open) {
  if (!allocation.live) return;
  const auto set = [&](size_t begin, size_t end, int access) {
    mprotect(reinterpret_cast<void*>(allocation.begin + begin), end - begin, access);
  };
  if (allocation.kind == MemoryKind::device)
    return set(0, whole_pages(allocation.bytes), open ? PROT_READ | PROT_WRITE : PROT_NONE);
  if (!allocation.is_in_flight()) return;
  if (open) return set(0, whole_pages(allocation.bytes), PROT_READ | PROT_WRITE);
  for (const auto& [begin, end] : allocation.pages_read.ranges()) set(begin, end, PROT_READ);
  for (const auto& [begin, end] : allocation.pages_written.ranges()) set(begin, end, PROT_NONE);
}

void protect_all(bool open) {
  for (const auto& [begin, allocation] : memory().allocations) protect(*allocation, open);
  memory().heap.protect(open);
}

// The live allocation that contains this address; null: there is none.
Allocation* live_at(uintptr_t address) {
  auto& all = memory().allocations;
  const auto after = all.upper_bound(address);
  if (after == all.begin()) return nullptr;
  Allocation& found = *std::prev(after)->second;
  return found.live && address < found.end() ? &found : nullptr;
}

Allocation* live_at(const void* address) {
  return live_at(reinterpret_cast<uintptr_t>(address));
}

// The number of bytes from this address, which cudaGetSymbolAddress returned, to the end of its variable; 0: it is not
// in one.
size_t left_of_symbol(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto after = memory().symbols.upper_bound(at);
  if (after == memory().symbols.begin()) return 0;
  const auto& [begin, bytes] = *std::prev(after);
  return at - begin < bytes ? bytes - (at - begin) : 0;
}

size_t offset_in(const Allocation& allocation, const void* address) {
  return reinterpret_cast<uintptr_t>(address) - allocation.begin;
}

size_t extent(size_t pitch, const Rectangle& shape) {
  return shape.rows == 0 ? 0 : pitch * (shape.rows - 1) + shape.width;
}

// The reason why bytes cannot be copied from or to this side; empty: they can.
std::string refusal(std::string_view side, const Allocation* allocation, const void* pointer, size_t bytes,
                    bool wants_device) {
  if (allocation == nullptr) {
    if (pointer == nullptr) return std::string(side) + " is a null pointer";
    if (const size_t left = left_of_symbol(pointer); left != 0 && wants_device)
      return bytes <= left ? ""
                           : std::to_string(bytes) + " bytes are more than the " + std::to_string(left) +
                                 " that are left of a variable of the device";
    const auto* const near = allocation_near(reinterpret_cast<uintptr_t>(pointer));
    if (near != nullptr && !near->live) return std::string(side) + " is " + near->description();
    if (wants_device || near != nullptr)
      return std::string(side) + (near == nullptr ? " is memory of the host" : " lies outside " + near->description());
    return "";
  }
  if (allocation->kind == MemoryKind::heap)
    return std::string(side) + " is " + allocation->description() + ", which only kernels may access";
  if (!wants_device && allocation->kind == MemoryKind::device)
    return std::string(side) + " is memory of the device: " + allocation->description();
  const size_t left = allocation->bytes - offset_in(*allocation, pointer);
  if (bytes > left)
    return std::to_string(bytes) + " bytes are more than the " + std::to_string(left) + " that are left of " +
           allocation->description();
  return "";
}

void note_copied(Allocation* to, const void* to_begin, size_t to_pitch, const Allocation* from, const void* from_begin,
                 const Rectangle& shape) {
  if (to == nullptr) return;
  for (size_t row = 0; row < shape.rows; ++row) {
    const size_t target = offset_in(*to, to_begin) + row * to_pitch;
    if (from == nullptr) {
      to->written.add(target, target + shape.width);
      continue;
    }
    // Uninitialised bytes are copied as uninitialised.
    const size_t source = offset_in(*from, from_begin) + row * shape.pitch;
    for (const auto& [begin, end] : from->written.ranges()) {
      const size_t first = std::max(begin, source), last = std::min(end, source + shape.width);
      if (first < last) to->written.add(target + first - source, target + last - source);
    }
  }
}

void remark_unwritten(const Allocation& from, const void* begin, const Rectangle& shape, Line line) {
  for (size_t row = 0; row < shape.rows; ++row) {
    const size_t first = offset_in(from, begin) + row * shape.pitch;
    const size_t missing = from.written.first_missing(first, first + shape.width);
    if (missing == first + shape.width) continue;
    return remark("a copy to the host at " + place(line) + " takes byte " + std::to_string(missing) + " of " +
                  from.description() + ", which nobody has written");
  }
}

Error refuse(std::string_view call, const std::string& why, Line line) {
  remark(std::string(call) + " at " + place(line) + " fails: " + why);
  return set_error(Error::invalid_value);
}

}  // namespace

std::vector<Allocation*> allocations() {
  const std::lock_guard<std::mutex> alone(memory().lock);
  std::vector<Allocation*> all;
  for (const auto& [begin, allocation] : memory().allocations) all.push_back(allocation.get());
  return all;
}

Allocation* allocation_near(uintptr_t address) {
  auto& all = memory().allocations;
  if ((!memory().arena.holds(address) && !memory().heap.holds(address)) || all.empty()) return nullptr;
  const auto after = all.upper_bound(address);
  if (after == all.begin()) return after->second.get();
  Allocation& before = *std::prev(after)->second;
  if (after == all.end() || address < before.end() || address - before.end() < after->first - address) return &before;
  return after->second.get();
}

OpenMemory::OpenMemory() {
  const std::lock_guard<std::mutex> alone(memory().lock);
  if (memory().open++ == 0 && memory().protects) protect_all(true);
}

OpenMemory::~OpenMemory() {
  const std::lock_guard<std::mutex> alone(memory().lock);
  if (--memory().open == 0 && memory().protects) protect_all(false);
}

void renew_flights() {
  const std::lock_guard<std::mutex> alone(memory().lock);
  for (const auto& [begin, allocation] : memory().allocations) {
    if (!allocation->live || !allocation->is_accessible_to_host()) continue;
    protect(*allocation, true);
    allocation->pages_read = allocation->pages_written = {};
    for (const auto& [range, writes] : flights(allocation->begin, allocation->end())) {
      ByteSet& pages = writes ? allocation->pages_written : allocation->pages_read;
      pages.add((range.begin - begin) / page_bytes() * page_bytes(), whole_pages(range.end - begin));
    }
    if (memory().protects && memory().open == 0) protect(*allocation, false);
  }
}

void open_page(uintptr_t address) {
  mprotect(reinterpret_cast<void*>(address / page_bytes() * page_bytes()), page_bytes(), PROT_READ | PROT_WRITE);
}

void close_page(uintptr_t address) {
  const std::lock_guard<std::mutex> alone(memory().lock);
  const Allocation* const allocation = allocation_near(address);
  if (allocation != nullptr && memory().protects && memory().open == 0) protect(*allocation, false);
}

void protect_device_memory() {
  memory().protects = true;
}

Allocation* allocate_heap(size_t bytes, Line line) {
  const std::lock_guard<std::mutex> alone(memory().lock);
  Heap& heap = memory().heap;
  if (bytes == 0 || bytes > heap.limit - std::min(heap.live, heap.limit)) return nullptr;
  char* const made = heap.take(bytes);
  if (made == nullptr) return nullptr;
  std::memset(made, 0xa5, bytes);
  heap.live += bytes;
  auto allocation = std::make_unique<Allocation>();
  allocation->begin = reinterpret_cast<uintptr_t>(made);
  allocation->bytes = bytes;
  allocation->kind = MemoryKind::heap;
  allocation->made = line;
  return memory().allocations.emplace(allocation->begin, std::move(allocation)).first->second.get();
}

void free_heap(Allocation& allocation, Line line) {
  const std::lock_guard<std::mutex> alone(memory().lock);
  memory().heap.live -= allocation.bytes;
  allocation.live = false;
  allocation.freed = line;
}

std::set<Allocation*> live_heap() {
  std::set<Allocation*> live;
  for (Allocation* const allocation : allocations())
    if (allocation->kind == MemoryKind::heap && allocation->live) live.insert(allocation);
  return live;
}

void keep_heap(const std::set<Allocation*>& kept) {
  for (Allocation* const allocation : live_heap())
    if (!kept.contains(allocation)) free_heap(*allocation, allocation->made);
  const std::lock_guard<std::mutex> alone(memory().lock);
  for (Allocation* const allocation : kept) {
    if (!allocation->live) memory().heap.live += allocation->bytes;
    allocation->live = true;
  }
}

size_t heap_bytes() {
  const std::lock_guard<std::mutex> alone(memory().lock);
  return memory().heap.limit;
}

void set_heap_bytes(size_t bytes) {
  const std::lock_guard<std::mutex> alone(memory().lock);
  memory().heap.limit = bytes;
}

namespace {

Error allocate_memory(void** pointer, size_t bytes, MemoryKind kind, bool stream_ordered, Line line) {
  if (pointer == nullptr) return set_error(Error::invalid_value);
  *pointer = nullptr;
  if (const Error error = device_error(); error != Error::success) return error;
  if (bytes == 0) return Error::success;
  const std::lock_guard<std::mutex> alone(memory().lock);
  char* const made = memory().arena.take(bytes);
  if (made == nullptr) return set_error(Error::memory_allocation);
  auto allocation = std::make_unique<Allocation>();
  allocation->begin = reinterpret_cast<uintptr_t>(made);
  allocation->bytes = bytes;
  allocation->kind = kind;
  allocation->made = line;
  allocation->stream_ordered = stream_ordered;
  // Writes by the host into managed and pinned memory are not seen, so the memory counts as written.
  if (kind != MemoryKind::device) allocation->written.add(0, bytes);
  std::memset(made, 0xa5, std::min(bytes, gap_bytes));  // fresh memory is not zero
  if (memory().protects && memory().open == 0) protect(*allocation, false);
  memory().allocations.emplace(allocation->begin, std::move(allocation));
  *pointer = made;
  return Error::success;
}

// The allocation that this call may free; null: it is refused, and the error set.
Allocation* freed_by(void* pointer, MemoryKind kind, Line line) {
  const std::lock_guard<std::mutex> alone(memory().lock);
  const bool pinned = kind == MemoryKind::pinned;
  const std::string call = pinned ? "cudaFreeHost" : "cudaFree";
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const auto found = memory().allocations.find(address);
  if (found == memory().allocations.end() || !found->second->live ||
      (found->second->kind == MemoryKind::pinned) != pinned || found->second->kind == MemoryKind::heap) {
    const Allocation* const near = found != memory().allocations.end() ? found->second.get() : allocation_near(address);
    refuse(call, near == nullptr ? "it is given memory of the host" : "it is given " + near->description(), line);
    return nullptr;
  }
  return found->second.get();
}

Error free_memory(Allocation& allocation, Line line) {
  const std::lock_guard<std::mutex> alone(memory().lock);
  void* const pointer = reinterpret_cast<void*>(allocation.begin);
  madvise(pointer, whole_pages(allocation.bytes), MADV_DONTNEED);
  mprotect(pointer, whole_pages(allocation.bytes), PROT_NONE);
  allocation.live = false;
  allocation.freed = line;
  return device_error();
}

}  // namespace

Error allocate(void** pointer, size_t bytes, MemoryKind kind, Line line) {
  order_all_streams();
  return allocate_memory(pointer, bytes, kind, false, line);
}

Error allocate_in_stream(void** pointer, size_t bytes, Line line) {
  const Error error = allocate_memory(pointer, bytes, MemoryKind::device, true, line);
  if (error == Error::success) note_allocation(*pointer, bytes, Doer::allocation, line);
  return error;
}

Error release(void* pointer, MemoryKind kind, Line line) {
  if (pointer == nullptr) return Error::success;
  Allocation* const allocation = freed_by(pointer, kind, line);
  if (allocation == nullptr) return Error::invalid_value;
  if (allocation->stream_ordered)
    note_host_frees(pointer, allocation->bytes, line);
  else
    host_waits_for_all();
  return free_memory(*allocation, line);
}

Error release_in_stream(void* pointer, Line line) {
  if (pointer == nullptr) return Error::success;
  Allocation* const allocation = freed_by(pointer, MemoryKind::device, line);
  if (allocation == nullptr) return Error::invalid_value;
  note_allocation(pointer, allocation->bytes, Doer::release, line);
  return free_memory(*allocation, line);
}

namespace {

Error copy_bytes(void* to, size_t to_pitch, const void* from, const Rectangle& shape, Direction direction, Line line) {
  if (direction < Direction::host_to_host || direction > Direction::by_address)
    return set_error(Error::invalid_memcpy_direction);
  const OpenMemory open;
  const std::lock_guard<std::mutex> alone(memory().lock);
  if (shape.width > to_pitch || shape.width > shape.pitch)
    return refuse("a copy", "its rows are wider than the pitch", line);
  Allocation* const target = live_at(to);
  Allocation* const source = live_at(from);
  const auto is_device = [](const Allocation* allocation, const void* pointer) {
    return allocation != nullptr || left_of_symbol(pointer) != 0;
  };
  const bool by_address = direction == Direction::by_address;
  const bool to_device = by_address
                             ? is_device(target, to)
                             : direction == Direction::host_to_device || direction == Direction::device_to_device;
  const bool from_device = by_address
                               ? is_device(source, from)
                               : direction == Direction::device_to_host || direction == Direction::device_to_device;
  for (const std::string& why : {refusal("its target", target, to, extent(to_pitch, shape), to_device),
                                 refusal("its source", source, from, extent(shape.pitch, shape), from_device)})
    if (!why.empty()) return refuse("a copy", why, line);
  for (size_t row = 0; row < shape.rows; ++row)
    std::memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * shape.pitch,
                 shape.width);
  if (source != nullptr && (target == nullptr || target->kind != MemoryKind::device))
    remark_unwritten(*source, from, shape, line);
  note_copied(target, to, to_pitch, source, from, shape);
  return Error::success;
}

Error fill_bytes(void* pointer, int value, const Rectangle& shape, Line line) {
  const OpenMemory open;
  const std::lock_guard<std::mutex> alone(memory().lock);
  if (shape.width > shape.pitch) return refuse("cudaMemset", "its rows are wider than the pitch", line);
  Allocation* const target = live_at(pointer);
  const std::string why = refusal("its target", target, pointer, extent(shape.pitch, shape), true);
  if (!why.empty()) return refuse("cudaMemset", why, line);
  for (size_t row = 0; row < shape.rows; ++row)
    std::memset(static_cast<char*>(pointer) + row * shape.pitch, value, shape.width);
  note_copied(target, pointer, shape.pitch, nullptr, nullptr, shape);
  return Error::success;
}

Error copy_symbol_bytes(void* variable, size_t variable_bytes, size_t offset, void* other, size_t bytes,
                        bool to_variable, Line line) {
  const OpenMemory open;
  const std::lock_guard<std::mutex> alone(memory().lock);
  const char* const call = to_variable ? "cudaMemcpyToSymbol" : "cudaMemcpyFromSymbol";
  if (offset > variable_bytes || bytes > variable_bytes - offset)
    return refuse(call,
                  std::to_string(bytes) + " bytes from byte " + std::to_string(offset) + " on are more than the " +
                      std::to_string(variable_bytes) + " of the variable",
                  line);
  Allocation* const allocation = live_at(other);
  const std::string why =
      refusal(to_variable ? "its source" : "its target", allocation, other, bytes, allocation != nullptr);
  if (!why.empty()) return refuse(call, why, line);
  char* const inside = static_cast<char*>(variable) + offset;
  std::memmove(to_variable ? inside : other, to_variable ? other : inside, bytes);
  if (!to_variable) note_copied(allocation, other, bytes, nullptr, nullptr, {bytes, bytes, 1});
  return Error::success;
}

}  // namespace

Error copy(void* to, size_t to_pitch, const void* from, Rectangle shape, Direction direction, Line line) {
  if (shape.width == 0 || shape.rows == 0) return Error::success;
  forget_earlier_grid();
  const Error error = copy_bytes(to, to_pitch, from, shape, direction, line);
  if (error == Error::success) note_copied_rows(to, to_pitch, from, shape, line);
  return error;
}

Error fill(void* pointer, int value, Rectangle shape, Line line) {
  if (shape.width == 0 || shape.rows == 0) return Error::success;
  forget_earlier_grid();
  const Error error = fill_bytes(pointer, value, shape, line);
  if (error == Error::success) note_filled_rows(pointer, shape, line);
  return error;
}

Error copy_symbol(void* variable, size_t variable_bytes, size_t offset, void* other, size_t bytes, bool to_variable,
                  Line line) {
  if (bytes == 0) return Error::success;
  forget_earlier_grid();
  const Error error = copy_symbol_bytes(variable, variable_bytes, offset, other, bytes, to_variable, line);
  if (error == Error::success)
    note_copied_variable(static_cast<char*>(variable) + offset, other, bytes, to_variable, line);
  return error;
}

void note_symbol(const void* variable, size_t bytes) {
  const std::lock_guard<std::mutex> alone(memory().lock);
  memory().symbols[reinterpret_cast<uintptr_t>(variable)] = bytes;
}

bool find_memory(const void* address, MemoryKind& kind) {
  const std::lock_guard<std::mutex> alone(memory().lock);
  const Allocation* const found = live_at(address);
  if (found != nullptr) kind = found->kind;
  return found != nullptr || left_of_symbol(address) != 0;
}

void memory_info(size_t& free_bytes, size_t& total_bytes) {
  total_bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
  size_t used = 0;
  for (const Allocation* const allocation : allocations()) used += allocation->live ? allocation->bytes : 0;
  free_bytes = total_bytes - std::min(used, total_bytes);
}

}  // namespace trifold::cpu
