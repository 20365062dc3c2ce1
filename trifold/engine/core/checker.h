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
// A fence of block scope orders only threads of its block. Two atomics do not race, unless one of them is of block
// scope and the other one another block's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "finding.h"
#include "knowledge.h"
#include "model.h"
#include "shadow.h"

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

// What makes an access atomic: an operation of the scope of the device or wider, or of the block; or that it is
// volatile.
enum class AtomicForm : uint8_t { device, block, by_volatile };

enum class AccessType : uint8_t { read, write, atomic };
std::string_view name(AccessType type);

struct Violation {
  Kind kind = Kind::race;  // race or uninitialised_read
  AccessType type = AccessType::read;
  uintptr_t address = 0;      // of the first byte concerned
  uint32_t other_thread = 0;  // of a race: Thread::id
  AccessType other_type = AccessType::read;
  Site other_site = 0;
  int64_t other_interval = -1;  // barriers that its block had passed; -1: not known any more
};

// Says of each violation of an access, as it is met, whether the access goes on to be checked, and noted, in spite of
// it.
class Judge {
 public:
  virtual bool goes_on(const Violation& violation) = 0;

 protected:
  ~Judge() = default;
};

struct Checker {
  explicit Checker(Launch& launch);
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  // Hooks of execution. Only the Checker changes Launch::now, Block::barrier, and the clocks; execution counts
  // Block::interval after the hook.
  void begin_block(Block& block);
  void end_block(Block& block);
  void block_barrier(Block& block);             // all live threads of the block have come
  void rendezvous(Warp& warp, uint32_t lanes);  // these lanes have come
  void fence(Thread& thread, Scope scope);
  void grid_barrier(std::span<Block* const> blocks);  // all live threads of all blocks have come

  // An access of n > 0 bytes inside the buffer. False: see violation.
  bool read(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread, Site site);
  bool write(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread, Site site);
  // The thread's last access again, and nothing has happened since: right without a further look.
  bool reads_again(const Buffer& buffer, uintptr_t address, size_t n, const Thread& thread) const {
    const Cell* const cell = buffer.cell_of(address, n);
    const Record now{thread.id, launch_.now};
    return cell != nullptr && cell->traits == 0 && (cell->other[0] == now || cell->write == now);
  }
  bool writes_again(const Buffer& buffer, uintptr_t address, size_t n, const Thread& thread) const {
    const Cell* const cell = buffer.cell_of(address, n);
    return cell != nullptr && cell->traits == 0 && cell->write == Record{thread.id, launch_.now} &&
           cell->other[0].stamp == 0 && cell->other[1].stamp == 0;
  }
  // An atomic is checked, done by the front end, and then noted: one that wrote nothing (a failed compare-and-swap)
  // counts as a read and releases nothing. `reads`: its result may be used.
  bool check_atomic(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread, bool reads,
                    AtomicForm form = AtomicForm::device);
  void note_atomic(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site, bool wrote,
                   AtomicForm form = AtomicForm::device);
  // Of a volatile write in shared memory, before it is noted. False: another thread has read the bytes by volatile,
  // with nothing that orders the two, and goes on without another look at them, so that it did not wait for this write.
  bool awaited(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread);

  Violation violation;
  Judge* judge = nullptr;  // null: an access ends with its first violation

 private:
  // Leave the violation; false where the access ends with it. `earlier`: 0 is the cell's write, 1 and 2 are the others.
  bool race(const Buffer& buffer, const Cell& cell, AccessType type, int earlier);
  bool uninitialised(const Buffer& buffer, const Cell& cell, AccessType type);

  Stamp tick();
  void forget(Stamp mark);
  void start_again();
  bool read_cell(Buffer& buffer, Cell& cell, const Thread& thread, Site site);
  bool write_cell(Buffer& buffer, Cell& cell, const Thread& thread, Site site);
  bool ordered(const Buffer& buffer, const Cell& cell, int earlier, const Thread& thread) const;
  bool surely_ordered(const Buffer& buffer, Record record, const Thread& thread) const {
    if (!buffer.holds(record) || record.thread == thread.id) return true;
    const uint32_t index = record.thread - (thread.id - thread.index);
    return index < block_size_ && record.stamp <= thread.block->barrier;
  }
  bool ordered_by_more(const Buffer& buffer, const Cell& cell, int earlier, const Thread& thread) const;
  bool acquired(const Thread& thread, Record record, uintptr_t atomic_address) const;
  bool out_of_scope(const Cell& cell, int earlier, const Thread& thread, AtomicForm form) const;
  void remember(Cell& cell, const Buffer& buffer, const Thread& thread, Site site, uint16_t traits) const;
  static ThreadClock& clock(Thread& thread);
  static Stamp known_lane(const Warp& warp, uint32_t lane, uint32_t other);
  void share_acquired(Warp& warp, uint32_t lanes);
  void share_fences(Warp& warp, uint32_t lanes);
  void join_lanes(Warp& warp, uint32_t lanes, Stamp mark);
  void release(uintptr_t address, Thread& thread);
  int64_t interval_of(uint32_t block, Stamp stamp) const;
  void passed_barrier(uint32_t block, Stamp mark);
  bool settled(const Buffer& buffer, Record record, const Thread& thread) const;
  void note_wrote(Cell& cell, const Buffer& buffer, const Thread& thread, Site site, uint16_t traits) const;

  struct Passed {
    Stamp stamp;
    uint32_t block;
  };

  Launch& launch_;
  uint32_t block_size_;
  bool races_;
  bool initialisation_;
  Stamp grid_ = before_launch;  // what is not later is ordered before everything
  KnowledgeGraph graph_;
  std::vector<Block*> blocks_;    // that run
  std::vector<Passed> barriers_;  // that blocks passed, to tell in which interval an access was
  bool all_barriers_ = true;      // none was left out
};

}  // namespace trifold::engine
