// Watches the memory of a launch: finds races by happens-before, and uninitialised reads.
//
// Execution calls the hooks at each synchronising event; front ends report each memory access in a Buffer. An access
// that is an error returns false and leaves its Violation, from which the front end makes a Finding.
//
// An earlier access is ordered before the running thread if one of these holds:
//   - the same thread made it;
//   - it was made in the same block, and a barrier came between;
//   - it was made in the same warp, and syncwarps of both lanes came between (shuffles and votes order nothing);
//   - a barrier of the grid came between;
//   - the thread acquired it: by an atomic on a location where an earlier atomic released it. An atomic of a thread
//     releases what the thread knew at its last fence, and what was known at the fences that other threads executed
//     before a barrier or syncwarp that precedes the atomic. The acquirer needs no fence.
// A fence of block scope orders only threads of its block. Two atomics do not race, unless one of them is of block
// scope and the other is made in another block.
//
// Two kinds of races are decided only after the access, since the shadow holds no values:
//   - Plain writes that race only with each other are harmless if they write the same bits. Memory holds the bits
//     of the earlier write; those of the later one are known once it has happened: compare_write().
//   - A plain read that races only with atomics is correct if its value is only a guess for a compare-and-swap:
//     if its thread's next operation on these bytes is one that compares them with the value read. Until then the
//     Checker keeps the read; any other access of the thread there, a barrier and the thread's end make it a race.
// Until it is decided, Thread::undecided records it.
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

// The kind of an atomic access: an operation of device scope or wider, or of block scope; or volatile.
enum class AtomicForm : uint8_t { device, block, by_volatile };

enum class AccessType : uint8_t { read, write, atomic };
std::string_view name(AccessType type);

struct AtomicAccess {
  Site site = 0;
  bool reads = true;  // its result may be used
  AtomicForm form = AtomicForm::device;
  bool compares = false;  // it is a compare-and-swap
};

// The bits that a write left in memory, compared with those before it.
enum class WrittenBits : uint8_t {
  other,
  same,
  same_again,  // the same two lines have written this memory before
  tolerated,   // different bits, after which the judge continues
};

struct Violation {
  Kind kind = Kind::race;  // race, uninitialised_read, or barrier_misuse for the bytes of a barrier
  AccessType type = AccessType::read;
  uintptr_t address = 0;      // of the first byte concerned
  uint32_t other_thread = 0;  // for a race: Thread::id
  AccessType other_type = AccessType::read;
  Site other_site = 0;
  int64_t other_interval = -1;  // barriers that its block had passed; -1: unknown
  bool among_writes = false;    // the access and all that it races with are plain writes
  // The asynchronous operations that made the accesses; empty: threads. unfenced: the two are ordered, except for the
  // async proxy.
  std::string_view by = {}, other_by = {};
  bool unfenced = false;
  // For an earlier read of the thread, which turns out to be an error only now.
  struct Past {
    Site site;
    int64_t interval;
    size_t n;
    bool earlier;  // than the other access
  };
  std::optional<Past> past = {};
};

// Decides for each violation of an access, as it is found, whether the access continues to be checked, and is noted, in
// spite of it.
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
  void block_barrier(Block& block);             // all live threads of the block have arrived
  void rendezvous(Warp& warp, uint32_t lanes);  // these lanes have met at a syncwarp
  void fence(Thread& thread, Scope scope);
  void grid_barrier(std::span<Block* const> blocks);  // all live threads of all blocks have arrived
  // At the barrier of a cluster (checker_clusters.cpp): a thread arrives; all have arrived, where `whole` are the
  // blocks in which every thread waits, and which therefore know everything released; a thread of another block passes.
  void arrive_at_cluster_barrier(Thread& thread, bool releases);
  void complete_cluster_barrier(Cluster& cluster, std::span<Block* const> whole);
  void pass_cluster_barrier(Thread& thread);

  // The running thread accesses shared memory of another block of its cluster.
  bool knows_begin(const Block& owner, const Thread& thread) const;
  void note_visit(Block& owner, const Thread& thread, AccessType type, Site site);
  // At a block's exit: an access to its shared memory from another block that is not ordered before the exit.
  std::optional<Visit> visit_not_awaited(const Block& owner) const;
  // A thread arrives at a named barrier; and the barrier completes, so that the waiting threads continue.
  void arrive(Thread& thread, ArrivalClock& barrier);
  void pass(Block& block, ArrivalClock& barrier, std::span<Thread* const> waiting);
  // At a barrier in shared memory (checker_mbarriers.cpp): a thread arrives; an operation releases; the phase ends; a
  // thread acquires what was released in the last completed phase.
  void arrive_at_mbarrier(MBarrier& barrier, Thread& thread, const Arrival& arrival);
  void release_at_mbarrier(MBarrier& barrier, Knowledge released);
  void end_phase(MBarrier& barrier);
  void acquire_at_mbarrier(const MBarrier& barrier, Thread& thread, FenceScope scope);
  // Whether its initialisation is ordered before what the thread does now.
  bool knows_init(const MBarrier& barrier, const Thread& thread) const;
  // From now on, the barrier's bytes are reserved: any other access to them is an error. unmark: they become
  // uninitialised memory again.
  void mark_mbarrier(Buffer& buffer, uintptr_t address, Site site);
  void unmark_mbarrier(Buffer& buffer, uintptr_t address);

  // An access of n > 0 bytes inside the buffer, which is about to happen. False: see violation.
  bool read(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site);
  bool write(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread, Site site);
  // If write() has left a violation only among writes: called once the write has happened, with the n bytes `before`
  // it. If the write changed them, see violation; otherwise it is noted, and the violation says what it races with.
  WrittenBits compare_write(Buffer& buffer, uintptr_t address, size_t n, const char* before, const Thread& thread,
                            Site site);
  // A thread with undecided reads is about to access these bytes; or arrives at a barrier of its block or the grid, or
  // ends. compare: for a compare-and-swap, the bits that memory is compared with. False: see violation, for the first
  // wrong read, which is forgotten; call again for the others.
  bool decide_reads(Thread& thread, uintptr_t address, size_t n, std::optional<uint64_t> compare = {});
  bool decide_reads(Thread& thread) { return decide_reads(thread, 0, ~size_t{0}); }
  // The same for a thread whose access races with one of the thread `writer`: an undecided read of what that thread
  // left by an atomic is the error, since an atomic read there would have ordered the two.
  bool decide_reads_of(Thread& thread, uint32_t writer);
  bool has_undecided_reads() const { return !undecided_reads_.empty(); }
  // Repeats the thread's last access with no event since then: correct without another check.
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
  // An atomic is checked, executed by the front end, and then noted: one that did not write (a failed compare-and-swap)
  // counts as a read and releases nothing.
  bool check_atomic(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread, const AtomicAccess& access);
  void note_atomic(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, const AtomicAccess& access, bool wrote);
  // For a volatile write in shared memory, before it is noted. False: another thread has read the bytes as volatile,
  // unordered with this write, and continues without reading them again, so that it did not wait for this write.
  bool awaited(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread);

  // For a launch that may begin before the previous one has ended (griddepcontrol): buffers hold the accesses of that
  // one (Buffer::continue_after), and a thread waits for its end.
  void begin_before_end_of_earlier() { launch_.now = end_of_earlier_grid + 1; }
  void wait_for_earlier_grid(Thread& thread);
  // The thread that made the access of a record; for an operation, its issuer.
  uint32_t thread_of(uint32_t id) const { return is_operation(id) ? operations_->of(id).thread : id; }

  // Asynchronous operations (checker_operations.cpp). Begins one; returns its number, which the operations of a group
  // may share.
  uint32_t begin_operation(Thread& issuer, Instruction instruction, Site site);
  // One side of an operation, n > 0 bytes inside the buffer. False: see violation. late_fence: only the issuer's own
  // fence separates it from an earlier access, and this is the first operation of these lines for which that holds.
  struct Issue {
    uint32_t row;
    AccessType type;  // atomic: a reduction
    Site site;
    bool reads = false;  // of an atomic: the old value in memory
  };
  bool issue(Buffer& buffer, uintptr_t address, size_t n, const Thread& issuer, const Issue& issue);
  std::optional<Violation> late_fence;
  // It uses a block's shared memory, by reading or writing it, or by signalling there.
  void note_use(const Use& use);
  // Its issuer has waited for its group.
  void wait_for_operation(const Thread& issuer, uint32_t row, bool reads_only);
  // Returns the knowledge that the barrier counting its bytes releases, once all have arrived.
  Knowledge complete_operation(uint32_t row);
  Knowledge complete_operations(std::span<const uint32_t> rows);
  void fence_proxy(Thread& thread, uint8_t spaces);
  // At a block's exit: an operation that uses its shared memory and that no thread there has waited for.
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

  // These leave the violation; false if the access ends with it. `earlier`: 0 is the cell's write, 1 and 2 are the
  // others.
  [[gnu::cold]] bool race(const Buffer& buffer, const Cell& cell, AccessType type, int earlier);
  [[gnu::cold]] bool uninitialised(const Buffer& buffer, const Cell& cell, AccessType type);
  [[gnu::cold]] void leave_race(const Buffer& buffer, const Cell& cell, AccessType type, int earlier);
  // Whether accesses that race may yet turn out to be correct.
  bool racing_read(Buffer& buffer, uintptr_t address, size_t n, Thread& thread, Site site);
  bool racing_write(Buffer& buffer, uintptr_t address, size_t n, const Thread& thread);
  bool racing_atomic(Buffer& buffer, Cell& cell, int earlier, uintptr_t address, size_t n, const Thread& thread,
                     Site site);
  void keep_read(UndecidedRead read);
  // Removes the thread's undecided reads for which `decides` is true, up to the first for which `is_right` is false.
  template <typename Decides, typename IsRight>
  bool take_reads(Thread& thread, Decides decides, IsRight is_right);
  Thread* undecided_reader(Record record) const;
  void note_beside_writes(Cell& cell, const Buffer& buffer, const Thread& thread, Site site) const;

  Stamp tick();
  void forget(Stamp mark);
  void start_again();
  bool read_cell(Buffer& buffer, Cell& cell, const Thread& thread, Site site);
  bool write_cell(Buffer& buffer, Cell& cell, const Thread& thread, Site site);
  // Whether it happened before what the thread does now.
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
  // The same for an access that is remembered elsewhere.
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
  // A node of all that the thread knows now, including its own accesses.
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

  // The block of a thread; for an operation, a number that no block has.
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
  Stamp grid_ = before_launch;   // everything up to this stamp is ordered before everything that follows
  Knowledge earlier_ended_ = 0;  // the node of the earlier grid's end; 0: no thread has waited for it
  KnowledgeGraph graph_;
  std::vector<Block*> blocks_;    // running blocks
  std::vector<Passed> barriers_;  // passed by blocks; give the interval of an access
  bool all_barriers_ = true;      // none was omitted
  std::vector<UndecidedRead> undecided_reads_;
  std::unique_ptr<OperationClocks> operations_;  // allocated when first needed
  std::string_view accessing_;                   // the operation whose access is checked; empty: a thread's access
  std::set<std::tuple<const Buffer*, Site, Site>> same_bits_;  // memory, and the two lines that wrote it
};

}  // namespace trifold::engine
