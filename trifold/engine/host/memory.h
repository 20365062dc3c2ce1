// The memory that a checked kernel may touch: the tensors that it is given, its shared arrays, its own variables.
#pragma once

#include <trifold/host.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../core/checker.h"
#include "module.h"

namespace trifold::host {

// A range that is watched, or (without a buffer) one that only the thread or the port itself uses.
struct Region {
  uintptr_t begin, end;
  std::string array;
  size_t element_bytes = 0;  // 0: as wide as the access
  std::unique_ptr<engine::Buffer> buffer;

  bool holds(uintptr_t address, size_t n) const { return address >= begin && address + n <= end; }
};

class CheckedMemory {
 public:
  CheckedMemory(const Kernel& kernel, Registers registers);
  ~CheckedMemory();

  char* dynamic_shared() const { return dynamic_shared_; }
  void begin_block(engine::Launch& launch);
  void kernel_has_written();

  // The region of an access; null: none has all of these bytes.
  Region* find(uintptr_t address, size_t n) {
    if (last_ != nullptr && last_->holds(address, n)) return last_;
    return look_up(address, n);
  }
  // The one that an address outside all of them belongs to most likely; null: none is near.
  const Region* nearest(uintptr_t address) const;

 private:
  Region* look_up(uintptr_t address, size_t n);
  void add_tensors(const Kernel& kernel);
  void add_globals(const Module& module);
  void add_shared_arrays(const Kernel& kernel, Registers registers);
  void add(uintptr_t begin, size_t bytes, std::string array, std::unique_ptr<engine::Buffer> buffer,
           size_t element_bytes = 0);

  std::vector<Region> regions_;  // in the order of their addresses; they do not overlap
  Region* last_ = nullptr;
  std::unique_ptr<char[]> storage_;
  char* dynamic_shared_ = nullptr;
};

// That of the checked launch that runs; null: none does.
extern CheckedMemory* checked_memory;

// Forgets the tensors that were noted on this OS thread.
void forget_tensors();

}  // namespace trifold::host
