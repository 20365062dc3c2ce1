#include "slots.h"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

namespace trifold::cpu {
namespace {

// The OS thread's table, in the GNU C library's layout (sysdeps/generic/dl-dtv.h, nptl's tcbhead_t): an array indexed
// by a library's number.
struct Entry {
  char* storage;
  void* to_free;
};

#if defined(__GLIBC__) && defined(__x86_64__)
constexpr bool has_table = true;
Entry* table() {
  Entry* entries;
  asm volatile("movq %%fs:8, %0" : "=r"(entries));
  return entries;
}
#elif defined(__GLIBC__) && defined(__aarch64__)
constexpr bool has_table = true;
Entry* table() {
  Entry** thread;
  asm volatile("mrs %0, tpidr_el0" : "=r"(thread));
  return *thread;
}
#else
constexpr bool has_table = false;
Entry* table() {
  return nullptr;
}
#endif

// An address in a window has the same alignment as the memory that it maps to, up to the largest that CUDA requires.
constexpr size_t window_alignment = 1024;

// Slots for which a map has room.
constexpr size_t slots_in_map = 16;
constexpr size_t page = 4096;

uintptr_t rounded_up(uintptr_t address, size_t alignment) {
  return (address + alignment - 1) / alignment * alignment;
}

}  // namespace

Slots::Slots(const Kernel& kernel, Registers own, char* own_shared)
    : kernel_(kernel), own_(own), own_shared_(own_shared) {}

Slots::~Slots() {
  if (!slots_.empty()) enter(slots_.front());
  for (char* const map : maps_) munmap(map, map_bytes_);
}

Slots::Storage Slots::storage_of(const void* variable) {
  struct Search {
    const char* variable;
    Storage found;
  } search{static_cast<const char*>(variable), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        auto& [variable, found] = *static_cast<Search*>(context);
        char* const own = static_cast<char*>(info->dlpi_tls_data);
        for (int i = 0; own != nullptr && i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_TLS || variable < own || variable >= own + part.p_memsz) continue;
          found = {.module = info->dlpi_tls_modid,
                   .own = own,
                   .image = reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr),
                   .image_bytes = part.p_filesz,
                   .bytes = part.p_memsz,
                   .alignment = std::max<size_t>(part.p_align, window_alignment)};
          return 1;
        }
        return 0;
      },
      &search);
  return search.found;
}

void Slots::refuse(const char* why) const {
  throw engine::LaunchMistake(
      std::string("kernel ") + kernel_.name +
          ": blocks wait for other blocks, and cannot each have shared memory here, " + why,
      "run it as a port, by trifold sanitize or by RawKernel, on x86-64 or AArch64 with the GNU C library; a program "
      "of "
      "your own gets kernels from a shared library, compiled with -fPIC and without -ftls-model");
}

// Throws unless the table has the layout assumed here: it must lead to the running block's variables.
void Slots::require_table() const {
  if (!has_table) refuse("since this C library's table of thread storage is not known");
  if (storage_.module == 0 || table()[storage_.module].storage != entered_->storage)
    refuse("since the table of thread storage is another one than the GNU C library's that is known");
}

// A piece of a map of slots_in_map pieces of this size.
char* Slots::take_memory(size_t bytes) {
  if (left_ == 0) {
    map_bytes_ = slots_in_map * bytes;
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const memory = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    madvise(memory, map_bytes_, MADV_NOHUGEPAGE);  // a block touches little of its memory
    maps_.push_back(static_cast<char*>(memory));
    left_ = slots_in_map;
  }
  return maps_.back() + --left_ * bytes;
}

Slot& Slots::make(const engine::Block& block) {
  const auto number = static_cast<uint32_t>(slots_.size());
  if (number == 0) {
    storage_ = storage_of(own_.thread);
    entered_ = &slots_.emplace_back(own_, storage_.own, own_shared_, number, &block);
    return slots_.front();
  }
  require_table();
  // After the storage, the dynamic shared memory; a red zone before and after each.
  const size_t alignment = std::max(storage_.alignment, page);
  const size_t storage_end = rounded_up(red_zone, storage_.alignment) + storage_.alignment + storage_.bytes;
  const size_t shared_at = rounded_up(storage_end + red_zone, red_zone);
  char* const memory = take_memory(rounded_up(shared_at + kernel_.shared_bytes + red_zone, alignment));
  const auto own = reinterpret_cast<uintptr_t>(storage_.own);
  char* const storage = reinterpret_cast<char*>(
      rounded_up(reinterpret_cast<uintptr_t>(memory) + red_zone, storage_.alignment) + own % storage_.alignment);
  std::memcpy(storage, storage_.image, storage_.image_bytes);

  const Slot& before = *entered_;
  Slot& made = slots_.emplace_back(own_, storage, memory + shared_at, number, &block);
  enter(made);
  made.registers = own_.enter(kernel_);
  enter(before);
  const auto moved = [&](const void* variable) {
    return storage + (static_cast<const char*>(variable) - storage_.own);
  };
  if (static_cast<void*>(made.registers.thread) != moved(own_.thread) ||
      static_cast<void*>(made.registers.block) != moved(own_.block))
    refuse("since its code was linked for one place of its thread storage");
  if (made.registers.extern_shared != nullptr) made.shared = made.registers.extern_shared;
  return made;
}

char* Slots::moved(const void* address, const Slot& from, const Slot& to) const {
  const auto* const place = static_cast<const char*>(address);
  if (place >= from.storage && place < from.storage + storage_.bytes) return to.storage + (place - from.storage);
  const bool dynamic = place >= from.shared && place < from.shared + kernel_.shared_bytes;
  return dynamic ? to.shared + (place - from.shared) : nullptr;
}

// A window has the storage first, then dynamic shared memory, with a red zone before each.
uint32_t Slots::storage_offset() const {
  return static_cast<uint32_t>(red_zone + reinterpret_cast<uintptr_t>(storage_.own) % window_alignment);
}

uint32_t Slots::dynamic_offset() const {
  return static_cast<uint32_t>(rounded_up(storage_offset() + storage_.bytes + red_zone, window_alignment));
}

uint32_t Slots::offset_of(const void* address, const Slot& slot) const {
  const auto* const place = static_cast<const char*>(address);
  if (place >= slot.storage && place < slot.storage + storage_.bytes)
    return storage_offset() + static_cast<uint32_t>(place - slot.storage);
  const bool dynamic = place >= slot.shared && place <= slot.shared + kernel_.shared_bytes;
  return dynamic ? dynamic_offset() + static_cast<uint32_t>(place - slot.shared) : 0;
}

char* Slots::at(uint32_t offset, const Slot& slot) const {
  if (offset < red_zone) return reinterpret_cast<char*>(uintptr_t{offset});
  const bool dynamic = offset >= dynamic_offset() - red_zone && kernel_.shared_bytes != 0;
  const auto from = static_cast<ptrdiff_t>(dynamic ? dynamic_offset() : storage_offset());
  return (dynamic ? slot.shared : slot.storage) + (static_cast<ptrdiff_t>(offset) - from);
}

void Slots::enter(const Slot& slot) {
  if (entered_ == &slot) return;
  entered_ = &slot;
  table()[storage_.module].storage = slot.storage;
}

}  // namespace trifold::cpu
