// What each of a launch's blocks has of its own on an OS thread: its copy of the library's thread storage, where shared
// arrays, threadIdx and blockIdx are, and its dynamic shared memory.
//
// Blocks that wait for each other take turns on an OS thread. The code of a shared library finds its thread storage by
// a table of the OS thread's (the dynamic thread vector: Drepper, "ELF Handling For Thread-Local Storage"), and while a
// block runs, the library's entry there leads to the block's copy. So kernels are compiled as any code is, another
// block costs one store, and a debugger that asks for blockIdx gets the running block's.
#pragma once

#include <trifold/cpu.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "../core/execution.h"

namespace trifold::host {

// Memory in front of dynamic shared memory and behind it that belongs to nobody. As much is nothing at the begin of a
// window of shared memory, so that no address is 0.
inline constexpr size_t red_zone = 1024;

struct Slot {
  Registers registers;      // in its copy of the thread storage
  char* storage;            // that copy
  char* shared;             // dynamic shared memory
  uint32_t number;          // of the launch's, from 0; the first is the OS thread's own storage
  const engine::Block* of;  // the block that runs in it, or did last
};

class Slots {
 public:
  // own: of the OS thread, in its own storage. own_shared: dynamic shared memory of the first block.
  Slots(const Kernel& kernel, Registers own, char* own_shared);
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots();

  // A further one, for this block and those that use its object later. Throws engine::LaunchMistake where code cannot
  // be made to use it. Each is valid until the launch ends.
  Slot& make(const engine::Block& block);
  // Where what one slot has at this address lies in the other one; null: it is not the first one's.
  char* moved(const void* address, const Slot& from, const Slot& to) const;
  // Where what has this address lies in the slot's window of shared memory, which begins as that of all others does; 0:
  // it is not the slot's. And what lies there, if anything does.
  uint32_t offset_of(const void* address, const Slot& slot) const;
  char* at(uint32_t offset, const Slot& slot) const;
  // The library's code uses this one from here on, on this OS thread.
  void enter(const Slot& slot);

 private:
  // The library's thread storage: how each copy begins, and where the OS thread's own is.
  struct Storage {
    size_t module = 0;  // its number; 0: it is not found
    char* own = nullptr;
    const char* image = nullptr;
    size_t image_bytes = 0, bytes = 0, alignment = 1;
  };

  static Storage storage_of(const void* variable);
  uint32_t storage_offset() const;
  uint32_t dynamic_offset() const;
  void require_table() const;
  char* take_memory(size_t bytes);
  [[noreturn]] void refuse(const char* why) const;

  const Kernel& kernel_;
  Registers own_;
  char* own_shared_;
  Storage storage_;
  const Slot* entered_ = nullptr;
  std::deque<Slot> slots_;
  std::vector<char*> maps_;
  size_t map_bytes_ = 0, left_ = 0;  // of each of them; of the last one
};

}  // namespace trifold::host
