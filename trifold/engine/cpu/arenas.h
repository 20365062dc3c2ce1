// The parts of the address space from which a program's device memory is taken. Addresses are not reused.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trifold::cpu {

// Between two allocations. An index that is off by less is reported for the nearer allocation.
inline constexpr size_t gap_bytes = size_t{1} << 20;

inline size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

inline size_t whole_pages(size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

// A part of the address space; its pages become memory in order, from its beginning.
class Arena {
 public:
  // null: out of memory
  char* take(size_t bytes) {
    if (begin_ == nullptr && !reserve()) return nullptr;
    const size_t whole = std::max(whole_pages(bytes), page_bytes());
    const size_t physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
    if (whole > physical || used_ + whole + gap_bytes > size_) return nullptr;
    char* const memory = begin_ + used_;
    if (mprotect(memory, whole, PROT_READ | PROT_WRITE) != 0) return nullptr;
    used_ += whole + gap_bytes;
    return memory;
  }
  bool holds(uintptr_t address) const { return address - reinterpret_cast<uintptr_t>(begin_) < size_; }

 private:
  bool reserve() {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // As large as the system allows, since addresses are not reused.
    for (int bits = 44; bits >= 32 && begin_ == nullptr; bits -= 4) {
      void* const memory = mmap(nullptr, size_t{1} << bits, PROT_NONE, flags, -1, 0);
      if (memory == MAP_FAILED) continue;
      begin_ = static_cast<char*>(memory);
      size_ = size_t{1} << bits;
    }
    return begin_ != nullptr;
  }

  char* begin_ = nullptr;
  size_t size_ = 0;
  size_t used_ = 0;
};

// The kernels' heap: many small allocations, which share pages. It is one range of pages, whose addresses are not
// reused either.
class Heap {
 public:
  static constexpr size_t reserved_bytes = size_t{1} << 36;

  // null: out of memory
  char* take(size_t bytes) {
    constexpr size_t alignment = 16, gap = 256;
    if (begin_ == nullptr) {
      void* const memory =
          mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) return nullptr;
      begin_ = static_cast<char*>(memory);
    }
    const size_t whole = (bytes + alignment - 1) / alignment * alignment + gap;
    if (whole > reserved_bytes - used_) return nullptr;
    char* const memory = begin_ + used_;
    used_ += whole;
    return memory;
  }
  bool holds(uintptr_t address) const {
    return begin_ != nullptr && address - reinterpret_cast<uintptr_t>(begin_) < reserved_bytes;
  }
  void protect(bool open) const {
    if (begin_ != nullptr) mprotect(begin_, reserved_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }

  size_t limit = size_t{8} << 20;  // as in CUDA
  size_t live = 0;                 // bytes

 private:
  char* begin_ = nullptr;
  size_t used_ = 0;
};

}  // namespace trifold::cpu
