// Watches the memory of a launch: races by happens-before, and reads of what nobody wrote.
//
// Execution calls the hooks at each synchronising event; front ends report each access of memory in a Buffer. An access
// that is wrong returns false and leaves its Violation, of which the front end makes a Finding.
//
// An earlier access is ordered before the running thread if one of these holds:
//   - the same thread made it;
//   - its block is the thread's, and a barrier came between;
//   - its warp is the thread's, and a rendezvous of both lanes, or a chain of them, came between;
//   - a barrier of the grid came between;
//   - the thread acquired it: by an atomic on a location where, before, an atomic released it. An atomic of a thread
//     releases what the thread knew at its last fence, and what was known at the fences that other threads executed
//     before a barrier or rendezvous that the atomic comes after. The acquirer needs no fence.
// A fence of block scope orders only threads of its block. Two atomics never race.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "finding.h"
#include "model.h"

namespace trifold::engine {

// Bits of Launch::checks. An index outside an array is found in any case.
enum Check : uint32_t {
  check_race = 1,
  check_uninitialised = 2,
  check_bounds = 4,
  check_lint = 8,
  check_all = check_race | check_uninitialised | check_bounds | check_lint,
};

enum class Scope : uint8_t { block, device, system };

enum class AccessType : uint8_t { read, write, atomic };
std::string_view name(AccessType type);

// One access that a cell remembers. stamp 0, or one before the buffer's epoch: none.
struct Record {
  uint32_t thread = 0;
  Stamp stamp = 0;
};

// The shadow of a few bytes: the last write, and up to two other accesses since, of different threads. 32 bytes.
struct Cell {
  Record write;
  Record other[2];
  Site write_site = 0;
  Site other_site[2] = {0, 0};
  uint8_t atomic = 0;       // bit 0: write was atomic; bits 1, 2: other[0], other[1] were
  uint8_t other_wrote = 0;  // bits 1, 2: other[0], other[1] are atomic writes
};
static_assert(sizeof(Cell) == 32);

// Memory that is watched: an argument (with all that overlap it), the shared memory of a block, an array of a thread.
class Buffer {
 public:
  Buffer() = default;
  // width: bytes of the usual access, a power of two; the shadow refines itself when a narrower access comes.
  Buffer(Space space, uintptr_t begin, size_t size, size_t width, bool initialised);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // All that was remembered is forgotten: the memory starts anew at this stamp.
  void restart(Stamp now, bool initialised);
  // Gives the shadow's memory back.
  void release();

  uintptr_t begin() const { return begin_; }
  size_t size() const { return size_; }
  Space space() const { return space_; }

 private:
  friend struct Checker;

  bool allocate();
  void refine(unsigned shift);

  Cell* cells_ = nullptr;
  uintptr_t begin_ = 0;
  size_t size_ = 0;
  Stamp epoch_ = 1;
  uint8_t shift_ = 0;  // a cell covers 2^shift bytes
  Space space_ = Space::global;
  bool initialised_ = true;
};

struct Violation {
  Kind kind = Kind::race;      // race or uninitialised_read
  AccessType type = AccessType::read;
  uintptr_t address = 0;       // of the first byte concerned
  uint32_t other_thread = 0;   // of a race: Thread::id
  AccessType other_type = AccessType::read;
  Site other_site = 0;
  int64_t other_interval = -1; // barriers that its block had passed; -1: not known any more
};

struct Checker {
  explicit Checker(Launch& launch);
  ~Checker();
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  // Hooks of execution. Only the Checker changes Launch::now, Block::barrier, and the clocks.
  void begin_block(Block& block);
  void end_block(Block& block);
  void block_barrier(Block& block);                  // all live threads of the block have come
  void rendezvous(Warp& warp, uint32_t lanes);       // these lanes have come
  void fence(Thread& thread, Scope scope);
  void grid_barrier(std::span<Block* const> blocks); // all live threads of all blocks have come

  // Accesses of n > 0 bytes inside the buffer. False: see violation. An atomic that changed nothing (a failed
  // compare-and-swap) releases nothing and counts as a read.
  bool read(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site);
  bool write(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site);
  // Before the operation: is it ordered? After: atomic_done.
  bool atomic(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site);
  void atomic_done(Buffer& buffer, uintptr_t address, Thread& thread, bool wrote);

  Violation violation;
};

}  // namespace trifold::engine
