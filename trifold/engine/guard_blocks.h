// The guard's blocks: their places in the reserved range, their canaries, and reports about them.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "guard_report.h"

namespace trifold::guard {

inline constexpr size_t range_bytes = size_t{64} << 30;
inline constexpr size_t largest_block = size_t{64} << 20;
// A block starts at a slot's first byte or ends at a slot's last, and one slot without access follows it, so a fault at
// most one slot away from its block is attributed to it. A multiple of every page size in use.
inline constexpr size_t slot_bytes = size_t{64} << 10;
inline constexpr uint32_t slot_count = range_bytes / slot_bytes;
// The alignment that torch asks for (c10::gAlignment). Its kernels need only the alignment of their elements, so blocks
// with this alignment end at the last byte of the page; any other alignment may be needed by the caller, and is kept.
inline constexpr size_t torch_alignment = 64;
inline constexpr unsigned char canary_byte = 0xC5;

struct Block : Extent {
  char* pages;  // the accessible part: pages <= start, start + size <= pages + page_bytes
  size_t page_bytes;
  uint32_t slots;  // including the inaccessible one that follows

  char* pages_end() const { return pages + page_bytes; }
};

// Guards `blocks`, `first_slot`, `next_slot`, `slots_used`, `blocks_made` and `damage`. The fault handler reads them
// without it: the thread that holds it may be the one that faulted.
inline pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct Lock {
  Lock() { pthread_mutex_lock(&mutex); }
  ~Lock() { pthread_mutex_unlock(&mutex); }
  Lock(const Lock&) = delete;
};

inline std::atomic<char*> range{nullptr};  // null before the first arming
inline Block* blocks;                      // indexed by a block's first slot
inline uint32_t* first_slot;               // of the block that a slot was last given to; 0 where there is none
inline uint32_t next_slot = 1;             // slot 0 stays without access
inline uint32_t slots_used = 1;            // no block reaches further
inline uint64_t blocks_made = 0;

inline std::atomic<int> mode{off};

inline bool in_range(const void* pointer) {
  const auto* address = static_cast<const char*>(pointer);
  const char* begin = range.load(std::memory_order_acquire);
  return begin != nullptr && address >= begin && address < begin + range_bytes;
}

inline uint32_t slot_of(const void* address) {
  return static_cast<uint32_t>((static_cast<const char*>(address) - range.load(std::memory_order_relaxed)) /
                               slot_bytes);
}

inline uint32_t slot_after(const Block& block) {
  return static_cast<uint32_t>(&block - blocks) + block.slots;
}

inline Block* block_at(uint32_t slot) {
  const uint32_t first = slot < slot_count ? first_slot[slot] : 0;
  return first != 0 && slot < slot_after(blocks[first]) ? &blocks[first] : nullptr;
}

// ------------------------------------------------------------------------------------------------ reports

inline DamageLog damage;

// Logs a damaged canary on either side of `block`, and repairs it so that it is reported once.
inline void inspect(const Block& block) {
  char* const canaries[][2] = {{block.pages, block.start}, {block.end(), block.pages_end()}};
  for (const auto& [begin, end] : canaries) {
    char* const address =
        std::find_if(begin, end, [](char byte) { return static_cast<unsigned char>(byte) != canary_byte; });
    if (address == end) continue;
    damage.add_canary(address, block);
    memset(begin, canary_byte, static_cast<size_t>(end - begin));
  }
}

// ------------------------------------------------------------------------------------------------- blocks

// Returns the first of `slots` adjacent slots without a live block, or 0 if there are none.
inline uint32_t find_slots(uint32_t slots) {
  bool wrapped = false;
  for (uint32_t first = next_slot;;) {
    if (first + slots > slot_count) {
      if (wrapped) return 0;
      wrapped = true;
      first = 1;
    }
    const Block* obstacle = nullptr;
    for (uint32_t slot = first; slot < first + slots && obstacle == nullptr; ++slot) {
      const Block* block = block_at(slot);
      if (block != nullptr && block->live) obstacle = block;
    }
    if (obstacle == nullptr) return first;
    first = slot_after(*obstacle);
  }
}

// Returns a guarded block, or null if this allocation is not to be guarded, or the range or the process's limit of
// mappings is used up.
inline void* allocate(size_t alignment, size_t size) {
  const int placement = mode.load(std::memory_order_acquire);
  if (placement == off || size == 0 || size > largest_block || alignment > slot_bytes ||
      !std::has_single_bit(alignment))
    return nullptr;

  const size_t placed_size = alignment == torch_alignment ? size : round_up(size, alignment);
  const size_t page_bytes = round_up(placed_size, static_cast<size_t>(getpagesize()));
  const size_t accessible_slots = round_up(page_bytes, slot_bytes) / slot_bytes;
  const auto slots = static_cast<uint32_t>(accessible_slots + 1);

  const Lock locked;
  const uint32_t first = find_slots(slots);
  if (first == 0) return nullptr;
  char* const begin = range.load(std::memory_order_relaxed) + first * slot_bytes;
  char* const pages = placement == end_mode ? begin + accessible_slots * slot_bytes - page_bytes : begin;
  char* const start = placement == end_mode ? pages + page_bytes - placed_size : pages;
  if (mprotect(pages, page_bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;

  memset(pages, canary_byte, page_bytes);
  memset(start, poison_byte, size);
  blocks[first] = {{start, size, ++blocks_made, true}, pages, page_bytes, slots};
  std::fill_n(first_slot + first, slots, first);
  next_slot = first + slots;
  slots_used = std::max(slots_used, next_slot);
  return start;
}

[[noreturn]] inline void stop_at_invalid_pointer(const char* function, const Block* block) {
  Line line;
  line << "trifold guard: " << function << " of ";
  if (block != nullptr) {
    line << (block->live ? "a pointer into " : "") << *block << "\n";
  } else {
    line << "a pointer that was never allocated\n";
  }
  line.write_to(STDERR_FILENO);
  abort();
}

// Returns the live block that starts at `pointer`; ends the process if there is none, as the C library does.
inline Block& live_block(const char* function, const void* pointer) {
  Block* block = block_at(slot_of(pointer));
  if (block == nullptr || !block->live || block->start != pointer) stop_at_invalid_pointer(function, block);
  return *block;
}

inline void release(void* pointer) {
  const Lock locked;
  Block& block = live_block("free", pointer);
  inspect(block);
  // A new mapping without access gives the memory back and merges with its neighbours; mprotect would do neither.
  mmap(block.pages, block.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  block.live = false;
}

inline size_t size_of(const char* function, const void* pointer) {
  const Lock locked;
  return live_block(function, pointer).size;
}

}  // namespace trifold::guard
