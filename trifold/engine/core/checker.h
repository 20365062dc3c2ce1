// Watches the memory of a launch: races by happens-before, and reads of what nobody wrote.
//
// Execution calls the hooks at each synchronising event; front ends report each access of memory in a Buffer. An access
// that is wrong returns false and leaves its Violation, of which the front end makes a Finding.
//
// An earlier access is ordered before the running thread if one of these holds:
//   - the same thread made it;
//   - its block is the thread's, and a barrier came between;
//   - its warp is the thread's, and a syncwarp of both lanes, or a chain of them, came between (no shuffle or vote);
//   - a barrier of the grid came between;
//   - the thread acquired it: by an atomic on a location where, before, an atomic released it. An atomic of a thread
//     releases what the thread knew at its last fence, and what was known at the fences that other threads executed
//     before a barrier or syncwarp that the atomic comes after. The acquirer needs no fence.
// A fence of block scope orders only threads of its block. Two atomics do not race, unless one of them is of block
// scope and the other one another block's.
//
// Two kinds of races are decided only after the access, since the shadow sees no values:
//   - Plain writes that race with each other alone are harmless where they write the same bits. Memory holds those of
//     the earlier write; the later one is known once it has happened: compare_write().
//   - A plain read that races with atomics alone is right where its value is only a guess for a compare-and-swap: where
//     its thread's next operation on these bytes is one that compares them with what was read. Until then the Checker
//     keeps the read; anything else that the thread does there, a barrier and the thread's end make it a race.
// Until it is decided, Thread::undecided says so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "finding.h"
#include "knowledge.h"
#include "model.h"
#include "operation_clocks.h"
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

enum class Scope : uint8_t { block, device, system, cluster };

// What makes an access atomic: an operation of the scope of the device or wider, or of the block; or that it is
// volatile.
enum class AtomicForm : uint8_t { device, block, by_volatile };

enum class AccessType : uint8_t { read, write, atomic };
std::string_view name(AccessType type);

struct AtomicAccess {
  Site site = 0;
  bool reads = true;  // its result may be used
  AtomicForm form = AtomicForm::device;
  bool compares = false;  // it is a compare-and-swap
};

// What a write left in memory, compared with what it found there.
enum class WrittenBits : uint8_t {
  other,
  same,
  same_again,  // the same two lines have written this memory so before
  tolerated,   // other ones, with which the judge goes on
};

struct Violation {
  Kind kind = Kind::race;  // race, uninitialised_read, or of a barrier's bytes barrier_misuse
  AccessType type = AccessType::read;
  uintptr_t address = 0;      // of the first byte concerned
  uint32_t other_thread = 0;  // of a race: Thread::id
  AccessType other_type = AccessType::read;
  Site other_site = 0;
  int64_t other_interval = -1;  // barriers that its block had passed; -1: not known any more
  bool among_writes = false;    // all that the access races with are plain writes, as it is one itself
  // The asynchronous operations that made the accesses; empty: the threads themselves. And: the two are ordered, but
  // for the async proxy.
  std::string_view by = {}, other_by = {};
  bool unfenced = false;
  // Of a read that its thread made before, and that turns out wrong only now.
  struct Past {
    Site site;
    int64_t interval;
    size_t n;
    bool earlier;  // than the other access
  };
  std::optional<Past> past = {};
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
  void rendezvous(Warp& warp, uint32_t lanes);  // these lanes have come to a syncwarp
  void fence(Thread& thread, Scope scope);
  void grid_barrier(std::span<Block* const> blocks);  // all live threads of all blocks have come
  // Of the barrier of a cluster (checker_clusters.cpp): a thread arrives; all have, and those blocks' threads wait
  // without exception, so that they go on knowing what all released; a thread of another block goes on.
  void arrive_at_cluster_barrier(Thread& thread, bool releases);
  void complete_cluster_barrier(Cluster& cluster, std::span<Block* const> whole);
  void pass_cluster_barrier(Thread& thread);

  // The running thread accesses shared memory of another block of its cluster.
  bool knows_begin(const Block& owner, const Thread& thread) const;
  void note_visit(Block& owner, const Thread& thread, AccessType type, Site site);
  // At a block's exit: an access to its shared memory from another block that nothing orders before.
  std::optional<Visit> visit_not_awaited(const Block& owner) const;
  // A thread has come to a named barrier; and as many as it waits for, of which these go on.
  void arrive(Thread& thread, ArrivalClock& barrier);
  void pass(Block& block, ArrivalClock& barrier, std::span<Thread* const> waiting);
  // Of a barrier in shared memory (checker_mbarriers.cpp): a thread arrives, and acquires what was released in the
  // phase that ended last; an operation releases; and the phase ends.
  void arrive_at_mbarrier(MBarrier& barrier, Thread& thread, const Arrival& arrival);
  void release_at_mbarrier(MBarrier& barrier, Knowledge released);
  void end_phase(MBarrier& barrier);
  void acquire_at_mbarrier(const MBarrier& barrier, Thread& thread, FenceScope scope);
  // Whether its initialisation is ordered before what the thread does now.
  bool knows_init(const MBarrier& barrier, const Thread& thread) const;
  // The bytes of the barrier are its own from here on: any other access of them is a mistake. And: they are memory
  // again that nobody has written.
  void mark_mbarrier(Buffer& buffer, uintptr_t address, Site site);
  void unmark_mbarrier(Buffer& buffer, uintptr_t address);

  // An access of n > 0 bytes inside the buffer, which is about to happen. False: see violation.
  bool read(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site);
  bool write(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread, Site site);
  // Where write() has left a violation among writes, once the write has happened, and nothing else: `before` are the n
  // bytes that it found. Where it left others, see violation; else it is noted and, where it left the same ones, the
  // violation says with what it races.
  WrittenBits compare_write(Buffer& buffer, uintptr_t address, size_t n, const char* before, const Thread& thread,
                            Site site);
  // A thread with undecided reads is about to access these bytes; or comes to a barrier of its block or the grid, or to
  // its end. compare: of a compare-and-swap, the bits that it compares memory with. False: see violation, of
  // the first read that is wrong, which is forgotten; to be asked again about the others.
  bool decide_reads(Thread& thread, uintptr_t address, size_t n, std::optional<uint64_t> compare = {});
  bool decide_reads(Thread& thread) { return decide_reads(thread, 0, ~size_t{0}); }
  // As above, of a thread whose access races with one of this other thread: an undecided read of what that one left by
  // an atomic is the mistake, since it stands where an atomic read would have ordered the two.
  bool decide_reads_of(Thread& thread, uint32_t writer);
  bool has_undecided_reads() const { return !undecided_reads_.empty(); }
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
  // counts as a read and releases nothing.
  bool check_atomic(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread, const AtomicAccess& access);
  void note_atomic(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, const AtomicAccess& access, bool wrote);
  // Of a volatile write in shared memory, before it is noted. False: another thread has read the bytes by volatile,
  // with nothing that orders the two, and goes on without another look at them, so that it did not wait for this write.
  bool awaited(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread);

  // Of a launch that may begin before the one before it has ended (griddepcontrol): buffers know what that one does
  // (Buffer::continue_after), and a thread waits for its end.
  void begin_before_end_of_earlier() { launch_.now = end_of_earlier_grid + 1; }
  void wait_for_earlier_grid(Thread& thread);
  // Which has made the access of a record: of an operation, that which has started it.
  uint32_t thread_of(uint32_t id) const { return is_operation(id) ? operations_->of(id).thread : id; }

  // Of asynchronous operations (checker_operations.cpp). One begins: its number, which those of a group may share.
  uint32_t begin_operation(Thread& issuer, Instruction instruction, Site site);
  // One side of it, of n > 0 bytes inside the buffer. False: see violation. late_fence: it comes after an access from
  // which only the issuer's own fence keeps it apart, and no other operation of these lines has.
  struct Issue {
    uint32_t row;
    AccessType type;  // an atomic is a reduction
    Site site;
    bool reads = false;  // of an atomic: the memory's own value
  };
  bool issue(Buffer& buffer, uintptr_t address, size_t n, const Thread& issuer, const Issue& issue);
  std::optional<Violation> late_fence;
  // It uses a block's shared memory, by reading or writing it, or by a signal there.
  void note_use(const Use& use);
  // Its own thread has waited for its group.
  void wait_for_operation(const Thread& issuer, uint32_t row, bool reads_only);
  // What a barrier learns that counts its bytes, once all are there.
  Knowledge complete_operation(uint32_t row);
  Knowledge complete_operations(std::span<const uint32_t> rows);
  void fence_proxy(Thread& thread, uint8_t spaces);
  // At a block's exit: an operation that uses its shared memory and that nobody there has waited for.
  struct PendingUse {
    const OperationRow& operation;
    Use use;
  };
  std::optional<PendingUse> use_not_awaited(const Block& owner) const;

  Violation violation;
  Judge* judge = nullptr;  // null: an access ends with its first violation

 private:
  // A plain read that races with atomics, until its thread's next operation on these bytes.
  struct UndecidedRead {
    Thread* thread;
    uintptr_t address;
    size_t n;
    uint64_t value;
    Violation violation;
  };

  // Leave the violation; false where the access ends with it. `earlier`: 0 is the cell's write, 1 and 2 are the others.
  [[gnu::cold]] bool race(const Buffer& buffer, const Cell& cell, AccessType type, int earlier);
  [[gnu::cold]] bool uninitialised(const Buffer& buffer, const Cell& cell, AccessType type);
  [[gnu::cold]] void leave_race(const Buffer& buffer, const Cell& cell, AccessType type, int earlier);
  // Accesses that race: whether they may yet turn out right.
  bool racing_read(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site);
  bool racing_write(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread);
  bool racing_atomic(Buffer& buffer, Cell& cell, int earlier, uintptr_t address, size_t n, const Thread& thread,
                     Site site);
  void keep_read(UndecidedRead read);
  // Takes the thread's undecided reads of which `decides` says so, up to the first of which `is_right` does not.
  template <typename Decides, typename IsRight>
  bool take_reads(Thread& thread, Decides decides, IsRight is_right);
  Thread* undecided_reader(Record record) const;
  void note_beside_writes(Cell& cell, const Buffer& buffer, const Thread& thread, Site site) const;

  Stamp tick();
  void forget(Stamp mark);
  void start_again();
  bool read_cell(Buffer& buffer, Cell& cell, const Thread& thread, Site site);
  bool write_cell(Buffer& buffer, Cell& cell, const Thread& thread, Site site);
  // Did it happen before what the thread does now?
  bool ordered(const Buffer& buffer, const Cell& cell, int earlier, const Thread& thread) const {
    return surely_ordered(buffer, cell.record(earlier), thread) || ordered_by_more(buffer, cell, earlier, thread);
  }
  bool surely_ordered(const Buffer& buffer, Record record, const Thread& thread) const {
    if (!buffer.holds(record) || record.thread == thread.id) return true;
    const uint32_t index = record.thread - (thread.id - thread.index);
    return index < block_size_ && record.stamp <= thread.block->barrier;
  }
  bool ordered_by_more(const Buffer& buffer, const Cell& cell, int earlier, const Thread& thread) const;
  bool ordered_by_threads(Record record, const Thread& thread) const;
  bool acquired(const Thread& thread, Record record, uintptr_t atomic_address) const;
  // The same of an access that is remembered elsewhere.
  bool happened_before(Record record, const Thread& thread) const;
  Knowledge gathered(uint32_t block, uint32_t first_thread, ArrivalClock& arrivals, FenceScope scope);
  bool out_of_scope(const Cell& cell, int earlier, const Thread& thread, AtomicForm form) const;
  uint64_t group_of(Record record, const Thread& thread) const;
  void remember(Cell& cell, const Buffer& buffer, const Thread& thread, Site site, uint16_t traits) const {
    remember(cell, buffer, thread, site, traits, thread.id);
  }
  void remember(Cell& cell, const Buffer& buffer, const Thread& thread, Site site, uint16_t traits, uint32_t by) const;
  static ThreadClock& clock(Thread& thread);
  static std::array<Stamp, warp_size> known_mates(const Thread& thread);
  // A node of all that the thread knows now, its own accesses included.
  Knowledge known_now(Thread& thread);
  static Stamp known_lane(const Warp& warp, uint32_t lane, uint32_t other);
  void share_acquired(Warp& warp, uint32_t lanes);
  void share_fences(Warp& warp, uint32_t lanes);
  void join_lanes(Warp& warp, uint32_t lanes, Stamp mark);
  void release(uintptr_t address, Thread& thread);
  int64_t interval_of(uint32_t block, Stamp stamp) const;
  void passed_barrier(uint32_t block, Stamp mark);
  bool settled(const Buffer& buffer, Record record, const Thread& thread) const;
  void note_wrote(Cell& cell, const Buffer& buffer, const Thread& thread, Site site, uint16_t traits,
                  uint32_t by) const;

  // The block of a thread; of an operation, a number that is no block's.
  uint32_t block_of(uint32_t thread) const {
    return is_operation(thread) ? thread & ~uint32_t{1} : thread / block_size_;
  }
  bool knows_operation(Record record, const Thread& thread) const;
  void forget_proxy_fences();
  bool knew(const ProxyFence& fence, uint32_t by, Record record, const Thread& issuer) const;
  bool fence_orders(uint32_t by, const ProxyFences& all, Record record, Space space, const Thread& issuer) const;
  enum class Fenced : uint8_t { in_time, by_issuer, missing };
  Fenced fenced(Record record, Space space, const Thread& issuer) const;
  bool issue_after(Buffer& buffer, Cell& cell, int earlier, const Thread& issuer, const Issue& issue);
  void note_issue(Cell& cell, const Buffer& buffer, const Thread& issuer, const Issue& issue) const;
  bool is_awaited(const Use& use, const Block& by) const;
  void note_awaited(const Cluster& cluster);

  struct Passed {
    Stamp stamp;
    uint32_t block;
  };

  Launch& launch_;
  uint32_t block_size_;
  bool races_;
  bool initialisation_;
  Stamp grid_ = before_launch;   // what is not later is ordered before everything
  Knowledge earlier_ended_ = 0;  // the node that says so of the earlier grid; 0: none has waited for it
  KnowledgeGraph graph_;
  std::vector<Block*> blocks_;    // that run
  std::vector<Passed> barriers_;  // that blocks passed, to tell in which interval an access was
  bool all_barriers_ = true;      // none was left out
  std::vector<UndecidedRead> undecided_reads_;
  std::unique_ptr<OperationClocks> operations_;  // made when first needed
  std::string_view accessing_;                   // the operation whose access is checked; empty: a thread's
  std::set<std::tuple<const Buffer*, Site, Site>> same_bits_;  // memory, and the two lines that wrote it
};

}  // namespace trifold::engine
