// The memory that a checked kernel may touch: the tensors that it is given, its shared arrays, its own variables.
#pragma once

#include <trifold/host.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../core/checker.h"
#include "../core/writes.h"
#include "device_memory.h"
#include "module.h"

namespace trifold::host {

// A range that is watched, or (without a buffer) one that only the thread or the port itself uses.
struct Region {
  uintptr_t begin, end;
  std::string array;
  size_t element_bytes = 0;  // 0: as wide as the access
  std::unique_ptr<engine::Buffer> buffer;
  std::string function = "";         // whose shared array it is
  bool of_module = false;            // a part of the port's library in which no variable is watched yet
  Allocation* allocation = nullptr;  // of an ordinary program
  bool told = false;                 // what volatile accesses of it do not wait for

  bool holds(uintptr_t address, size_t n) const { return address >= begin && address + n <= end; }
  // Bytes from an address that lies outside; 0: it lies inside.
  uintptr_t distance(uintptr_t address) const {
    return address < begin ? begin - address : address < end ? 0 : address + 1 - end;
  }
  // As the kernel calls it, or else the program that allocated it.
  std::string name() const { return array.empty() && allocation != nullptr ? allocation->variable() : array; }
};

class CheckedMemory {
 public:
  CheckedMemory(const Kernel& kernel, Registers registers);
  ~CheckedMemory();

  char* dynamic_shared() const { return dynamic_shared_; }
  void begin_block(engine::Launch& launch);
  // The launch has ended: what it has written of fresh tensors is not fresh any more.
  void kernel_has_written();
  // Adds what the launch has written of global memory.
  void add_to(engine::WriteLog& writes, bool counts) const;

  // The region of an access; null: none has all of these bytes. Valid until the next call.
  Region* find(uintptr_t address, size_t n) {
    if (last_ != nullptr && last_->holds(address, n)) return last_;
    return look_up(address, n);
  }
  // Of an address that a kernel may not touch at all: "x is memory of the host". Empty: it is a wrong index.
  std::string foreign(uintptr_t address) const;
  // The one that an address outside all of them belongs to most likely; null: none is near.
  const Region* nearest(uintptr_t address) const;
  // The watched one that this function calls so, and no other one can be meant; null: none is known.
  const Region* named(std::string_view array, std::string_view function) const;

 private:
  Region* look_up(uintptr_t address, size_t n);
  Region* watch_global(size_t segment, uintptr_t address, size_t n);
  void add_tensors(const Kernel& kernel);
  void add_shared_arrays(const Kernel& kernel, Registers registers);
  Region& add(uintptr_t begin, size_t bytes, std::string array, std::unique_ptr<engine::Buffer> buffer);

  const Module& module_;
  std::vector<Region> regions_;  // in the order of their addresses; they do not overlap
  Region* last_ = nullptr;
  std::map<uintptr_t, std::string> host_arguments_;  // pointers to what is neither a tensor nor the device's
  std::unique_ptr<char[]> storage_;
  char* dynamic_shared_ = nullptr;
};

// That of the checked launch that runs; null: none does.
extern CheckedMemory* checked_memory;

// Forgets the tensors that were noted on this OS thread, and which memory is fresh.
void forget_tensors();
void forget_fresh();

}  // namespace trifold::host
