// The memory that a checked kernel may access: its tensors, its shared arrays, its own variables.
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
#include "stream_accesses.h"

namespace trifold::cpu {

// A range that is watched, or one that only the thread or the port itself uses.
struct Region {
  uintptr_t begin, end;
  std::string array;
  size_t element_bytes = 0;                // 0: as wide as the access
  std::unique_ptr<engine::Buffer> buffer;  // null: nothing is watched; of shared memory, created at the first access
  std::string function = "";               // the function that declares the shared array
  bool of_module = false;                  // a part of the port's library in which no variable is watched yet
  Allocation* allocation = nullptr;        // of an ordinary program
  bool shared = false;                     // a block's shared memory
  bool told = false;                       // its volatile accesses were reported
  bool named_from_begin = true;            // `array` is the name of an address at `begin`, from which indices count

  bool watched() const { return shared || buffer != nullptr; }
  // Of a watched region.
  engine::Space space() const { return shared ? engine::Space::shared : buffer->space(); }
  bool holds(uintptr_t address, size_t n) const { return address >= begin && address + n <= end; }
  // The distance in bytes to an address outside; 0: it is inside.
  uintptr_t distance(uintptr_t address) const {
    return address < begin ? begin - address : address < end ? 0 : address + 1 - end;
  }
  // The kernel's name for its first byte, else that of the program that allocated it, else the kernel's for a part.
  std::string name() const {
    if (allocation == nullptr || (named_from_begin && !array.empty())) return array;
    const std::string variable = allocation->variable();
    return variable.empty() ? array : variable;
  }
};

class EarlierGrid;

class CheckedMemory {
 public:
  // `earlier`: a launch that may still be running at the same time; null: none.
  CheckedMemory(const Kernel& kernel, const EarlierGrid* earlier);
  CheckedMemory(const CheckedMemory&) = delete;
  CheckedMemory& operator=(const CheckedMemory&) = delete;
  ~CheckedMemory();

  // A block begins in this slot: its shared memory is uninitialised.
  void begin_block(const Slot& slot, engine::Launch& launch);
  // The running block is this slot's: of all shared memory, it may access only this.
  void enter(const Slot& slot);
  // The launch has ended: fresh tensors that it has written are not fresh any more.
  void kernel_has_written();
  // What the launch accessed in global memory.
  std::vector<engine::Touched> touched() const;
  // The same, and in constant memory, by lines; all: not only in memory that the host may access, too.
  Accesses accesses(bool all) const;
  // Adds what the launch wrote to global memory.
  void add_to(engine::WriteLog& writes, bool counts) const;

  // The region of an access by the running block; null: no region has all of these bytes. Valid until the next call.
  Region* find(uintptr_t address, size_t n) {
    Region* const recent = recent_of(address);
    return recent != nullptr && recent->holds(address, n) ? recent : look_up(address, n);
  }
  // The same for shared memory of another block of the running block's cluster.
  struct OfPeer {
    Region* region;
    engine::Block* block;
  };
  OfPeer find_of_peer(uintptr_t address, size_t n);
  Region* find_any(uintptr_t address, size_t n) {
    Region* const region = find(address, n);
    return region != nullptr ? region : find_of_peer(address, n).region;
  }
  // The running kernel has allocated memory on the heap, or frees it.
  void add_heap(Allocation& allocation);
  void remove_heap(const Allocation& allocation);
  // Describes an address that a kernel may not access at all: "x is memory of the host". Empty: it is a wrong index.
  std::string foreign(uintptr_t address) const;
  // The shared memory of a block of another cluster, and that block; null: there is none.
  struct OfBlock {
    const Region* region;
    const engine::Block* block;
  };
  OfBlock of_another_block(uintptr_t address) const;
  // The region at this address of shared memory in a slot's block; null: there is none.
  const Region* shared_at(const Slot& slot, uintptr_t address);
  // Volatile accesses of this shared array have been reported, in whichever block.
  void note_told(const Region& region);
  // The region to which an address outside of all most likely belongs; null: none is near.
  const Region* nearest(uintptr_t address) const;
  // The watched region that this function calls so, if it is unique; null: unknown.
  const Region* named(std::string_view array, std::string_view function) const;

 private:
  Region* look_up(uintptr_t address, size_t n);
  Region* watch_global(size_t segment, uintptr_t address, size_t n);
  void add_tensors(const Kernel& kernel);
  Region& add(uintptr_t begin, size_t bytes, std::string array, std::unique_ptr<engine::Buffer> buffer);

  // Ordered by address, disjoint.
  using Regions = std::vector<Region>;
  struct OfSlot {
    const Slot* slot;
    Regions regions;                     // the library's thread storage, and dynamic shared memory
    engine::ByteRange storage, dynamic;  // their places

    bool has(uintptr_t address) const {
      return address - storage.begin < storage.end - storage.begin ||
             address - dynamic.begin < dynamic.end - dynamic.begin;
    }
  };

  // The region that was found last for an address like this one; null: none. Kernels access a few regions in turn:
  // arrays, indices, arguments.
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
  Regions regions_;           // regions common to all blocks
  Regions freed_;             // of the heap; the checker may still refer to their buffers
  std::deque<OfSlot> slots_;  // by slot number
  OfSlot* running_ = nullptr;
  std::array<Region*, 64> recent_{};
  std::map<uintptr_t, std::string> host_arguments_;  // pointers to memory that is neither a tensor nor the device's
};

// That of the running checked launch; null: none runs.
extern CheckedMemory* checked_memory;

// Forgets the tensors that were noted on this OS thread, and which memory is fresh.
void forget_tensors();
void forget_fresh();

}  // namespace trifold::cpu
