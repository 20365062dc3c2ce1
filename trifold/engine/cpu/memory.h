// The memory that a checked kernel may touch: the tensors that it is given, its shared arrays, its own variables.
#pragma once

#include <trifold/cpu.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../core/checker.h"
#include "../core/writes.h"
#include "device_memory.h"
#include "module.h"
#include "slots.h"

namespace trifold::host {

// A range that is watched, or one that only the thread or the port itself uses.
struct Region {
  uintptr_t begin, end;
  std::string array;
  size_t element_bytes = 0;                // 0: as wide as the access
  std::unique_ptr<engine::Buffer> buffer;  // null: nothing is watched. Of shared memory, from its first access on.
  std::string function = "";               // whose shared array it is
  bool of_module = false;                  // a part of the port's library in which no variable is watched yet
  Allocation* allocation = nullptr;        // of an ordinary program
  bool shared = false;                     // a block's shared memory
  bool told = false;                       // what volatile accesses of it do not wait for

  bool watched() const { return shared || buffer != nullptr; }
  // Of a watched one.
  engine::Space space() const { return shared ? engine::Space::shared : buffer->space(); }
  bool holds(uintptr_t address, size_t n) const { return address >= begin && address + n <= end; }
  // Bytes from an address that lies outside; 0: it lies inside.
  uintptr_t distance(uintptr_t address) const {
    return address < begin ? begin - address : address < end ? 0 : address + 1 - end;
  }
  // As the kernel calls it, or else the program that allocated it.
  std::string name() const { return array.empty() && allocation != nullptr ? allocation->variable() : array; }
};

class EarlierGrid;

class CheckedMemory {
 public:
  // `earlier`: what an earlier launch does at the same time; null: nothing.
  CheckedMemory(const Kernel& kernel, const EarlierGrid* earlier);
  CheckedMemory(const CheckedMemory&) = delete;
  CheckedMemory& operator=(const CheckedMemory&) = delete;
  ~CheckedMemory();

  // A block begins in this slot: its shared memory is unwritten.
  void begin_block(const Slot& slot, engine::Launch& launch);
  // The block that runs is this slot's: of all shared memory, it may touch this alone.
  void enter(const Slot& slot);
  // The launch has ended: what it has written of fresh tensors is not fresh any more.
  void kernel_has_written();
  // What the launch has done in global memory.
  std::vector<engine::Touched> touched() const;
  // Adds what the launch has written of global memory.
  void add_to(engine::WriteLog& writes, bool counts) const;

  // The region of an access by the running block; null: none has all of these bytes. Valid until the next call.
  Region* find(uintptr_t address, size_t n) {
    Region* const recent = recent_of(address);
    return recent != nullptr && recent->holds(address, n) ? recent : look_up(address, n);
  }
  // The same of shared memory of another block of the running one's cluster.
  struct OfPeer {
    Region* region;
    engine::Block* block;
  };
  OfPeer find_of_peer(uintptr_t address, size_t n);
  Region* find_any(uintptr_t address, size_t n) {
    Region* const region = find(address, n);
    return region != nullptr ? region : find_of_peer(address, n).region;
  }
  // Of an address that a kernel may not touch at all: "x is memory of the host". Empty: it is a wrong index.
  std::string foreign(uintptr_t address) const;
  // The shared memory of a block of another cluster, and that block; null: it is none's.
  struct OfBlock {
    const Region* region;
    const engine::Block* block;
  };
  OfBlock of_another_block(uintptr_t address) const;
  // What a slot's block has at this address of its shared memory; null: nothing.
  const Region* shared_at(const Slot& slot, uintptr_t address);
  // Volatile accesses of this shared array have been told of, in whichever block.
  void note_told(const Region& region);
  // The one that an address outside all of them belongs to most likely; null: none is near.
  const Region* nearest(uintptr_t address) const;
  // The watched one that this function calls so, and no other one can be meant; null: none is known.
  const Region* named(std::string_view array, std::string_view function) const;

 private:
  Region* look_up(uintptr_t address, size_t n);
  Region* watch_global(size_t segment, uintptr_t address, size_t n);
  void add_tensors(const Kernel& kernel);
  Region& add(uintptr_t begin, size_t bytes, std::string array, std::unique_ptr<engine::Buffer> buffer);

  // In the order of their addresses; they do not overlap.
  using Regions = std::vector<Region>;
  struct OfSlot {
    const Slot* slot;
    Regions regions;                     // the library's thread storage, and dynamic shared memory
    engine::ByteRange storage, dynamic;  // where these are

    bool has(uintptr_t address) const {
      return address - storage.begin < storage.end - storage.begin ||
             address - dynamic.begin < dynamic.end - dynamic.begin;
    }
  };

  // The region that was found last for an address like this one; null: none. Kernels read and write a few regions in
  // turns: arrays, indices, arguments.
  Region*& recent_of(uintptr_t address) { return recent_[(address >> 6) * 0x9e3779b97f4a7c15u >> 58]; }

  static void watch_shared(Region& region);
  bool is_peer(const OfSlot& other) const;
  static Region* holding(Regions& regions, uintptr_t address, size_t n);
  OfSlot memory_of(const Slot& slot) const;
  template <class Visit>
  void for_running(Visit visit) const;

  const Module& module_;
  const EarlierGrid* earlier_;
  size_t dynamic_shared_bytes_;
  Regions regions_;           // what is the same for all blocks
  std::deque<OfSlot> slots_;  // by their numbers
  OfSlot* running_ = nullptr;
  std::array<Region*, 64> recent_{};
  std::map<uintptr_t, std::string> host_arguments_;  // pointers to what is neither a tensor nor the device's
};

// That of the checked launch that runs; null: none does.
extern CheckedMemory* checked_memory;

// Forgets the tensors that were noted on this OS thread, and which memory is fresh.
void forget_tensors();
void forget_fresh();

}  // namespace trifold::host
