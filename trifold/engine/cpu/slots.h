// The per-block memory of a launch on an OS thread: a copy of the library's thread storage, which contains shared
// arrays, threadIdx and blockIdx, and the block's dynamic shared memory.
//
// Blocks that wait for each other run alternately on an OS thread. The code of a shared library finds its thread
// storage by a table of the OS thread (the dynamic thread vector: Drepper, "ELF Handling For Thread-Local Storage").
// While a block runs, the library's entry in it points to the block's copy. So kernels are compiled like any other
// code, switching blocks costs one store, and a debugger that evaluates blockIdx gets the running block's.
#pragma once

#include <trifold/cpu.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "../core/execution.h"

namespace trifold::cpu {

// Unused memory before and after dynamic shared memory. A window of shared memory begins with as much, so that no
// address is 0.
inline constexpr size_t red_zone = 1024;

struct Slot {
  Registers registers;      // in its copy of the thread storage
  char* storage;            // that copy
  char* shared;             // dynamic shared memory
  uint32_t number;          // within the launch, from 0; the first slot is the OS thread's own storage
  const engine::Block* of;  // the block that runs in it, or ran last
};

class Slots {
 public:
  // own: of the OS thread, in its own storage. own_shared: dynamic shared memory of the first block.
  Slots(const Kernel& kernel, Registers own, char* own_shared);
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots();

  // A further slot, for this block and those that use its object later. Throws engine::LaunchMistake if code cannot be
  // made to use it. Each is valid until the launch ends.
  Slot& make(const engine::Block& block);
  // The address in slot `to` that corresponds to this address in slot `from`; null: it is not in `from`.
  char* moved(const void* address, const Slot& from, const Slot& to) const;
  // The offset of an address in the slot's window of shared memory, whose layout is the same for all slots; 0: it is
  // not in the slot. And the reverse; null: there is nothing at the offset.
  uint32_t offset_of(const void* address, const Slot& slot) const;
  char* at(uint32_t offset, const Slot& slot) const;
  // From here on, the library's code uses this slot on this OS thread.
  void enter(const Slot& slot);

 private:
  // The library's thread storage: its initial contents, and the address of the OS thread's own.
  struct Storage {
    size_t module = 0;  // its number; 0: not found
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
  size_t map_bytes_ = 0, left_ = 0;  // of each map; of the last one
};

}  // namespace trifold::cpu
