// Runs a launch: schedules its threads and performs the operations at which they wait. Front ends implement the
// threads.
//
// Clusters run one after the other and their objects are reused, so memory does not grow with the grid; the blocks of
// one cluster alternate. A cluster whose remaining threads poll memory, or wait for the grid, stays resident while
// others run. In a launch without clusters, each block is one.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "finding.h"
#include "model.h"
#include "schedule.h"

namespace trifold::engine {

// The operations at which a thread can wait. Its Request holds the operands and, when the thread is ready again, the
// result.
enum class Operation : uint8_t {
  barrier,
  barrier_count,
  barrier_and,
  barrier_or,
  grid_barrier,
  sync_warp,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  vote_all,
  vote_any,
  vote_equal,
  ballot,
  match_any,
  match_all,
  active_mask,
  poll,
  named_barrier,
  named_arrive,  // does not wait
  // At a cluster's barrier.
  cluster_barrier,         // arrives and waits
  cluster_arrive,          // arrives without waiting
  cluster_arrive_relaxed,  // the same, and orders no memory accesses
  cluster_wait,            // for the phase at which the thread has arrived
  // At barriers in shared memory; only mbarrier_wait waits.
  mbarrier_init,
  mbarrier_inval,
  mbarrier_arrive,
  mbarrier_expect,
  mbarrier_complete,
  mbarrier_test,
  mbarrier_wait,
  shared_address,  // of shared memory, in 32 bits
  // For asynchronous operations.
  async_start,  // does not wait
  group_wait,   // for groups of them
  // Instructions of the whole warp: all 32 lanes must arrive.
  mma,
  ldmatrix,
  stmatrix,
  movmatrix,
  load_matrix,
  store_matrix,
  multiply_matrices,
};

constexpr bool is_of_mbarrier(Operation operation) {
  return operation >= Operation::mbarrier_init && operation <= Operation::mbarrier_wait;
}

constexpr bool is_of_cluster(Operation operation) {
  return operation >= Operation::cluster_barrier && operation <= Operation::cluster_wait;
}

// Whether a thread arrives at a barrier: of its block, some of its threads, its cluster or the grid, or one in shared
// memory.
constexpr bool is_barrier(Operation operation) {
  return operation <= Operation::grid_barrier ||
         (operation >= Operation::named_barrier && operation <= Operation::mbarrier_wait);
}

constexpr bool is_of_whole_warp(Operation operation) {
  return operation >= Operation::mma;
}

// The operation at which the thread waits, or waited last.
constexpr Operation operation_of(const Thread& thread) {
  return static_cast<Operation>(thread.request.operation);
}

// The thread's bit in the lane sets of its warp.
constexpr uint32_t bit(const Thread& thread) {
  return 1u << thread.lane;
}

std::string_view name(Operation operation);  // CUDA's name, without underscores: "syncthreads"

enum class Outcome : uint8_t { waits, exited };

// Waits for all of a thread's committed groups but the last `pending`, or only until they have read.
struct GroupWait {
  GroupKind kind;
  uint32_t pending;
  bool reads_only;
};

// An error in the kernel: the launch ends.
struct Fault : std::exception {
  explicit Fault(Finding what_happened) : finding(std::move(what_happened)) {}
  const char* what() const noexcept override { return finding.message.c_str(); }
  Finding finding;
};

// A launch that the device could not start or finish.
struct LaunchMistake : std::exception {
  LaunchMistake(std::string what_is_wrong, std::string what_to_do)
      : problem(std::move(what_is_wrong)), remedy(std::move(what_to_do)) {}
  const char* what() const noexcept override { return problem.c_str(); }
  std::string problem, remedy;
};

// All blocks of the grid must be resident at once, but the device cannot hold as many.
struct TooManyBlocks : LaunchMistake {
  using LaunchMistake::LaunchMistake;
};

// The number of whole clusters that the device holds at once.
uint64_t resident_clusters(const Launch& launch);

class FrontEnd {
 public:
  virtual ~FrontEnd() = default;

  // Runs a thread, which is `current`, until it waits (see its waiting_at and request) or has exited. May throw, which
  // ends the launch.
  virtual Outcome resume(Thread& thread) = 0;
  virtual void begin_block(Block& block) = 0;
  // A shuffle of these lanes is complete: hands each the operand of lane Request::source.
  virtual void shuffle(Warp& warp, uint32_t lanes) = 0;
  // All lanes have arrived at an instruction of the whole warp: executes it.
  virtual void work_together(Warp&) {}
  virtual Location locate(Site site) = 0;
  virtual void warn(const Finding& finding) = 0;
  // The source's name of the variable at this offset of a block's shared memory.
  virtual std::string name_of_shared(const Block&, uint32_t offset) const {
    return "at byte " + std::to_string(offset) + " of shared memory";
  }
  // All remaining threads wait or poll, without any progress since the last call. True: the launch ends.
  virtual bool gives_up() { return false; }
};

class Execution {
 public:
  Execution(Launch& launch, FrontEnd& front);

  // Throws Fault, LaunchMistake, and what the front end throws.
  void run();

  // A running thread arrives at the barrier of its cluster without waiting. Throws Fault.
  void arrive_and_go_on(Thread& thread);

  // Asynchronous operations (async.cpp) of a running thread, which do not wait. start() adds one to the open group of
  // its kind.
  void start(AsyncOperation&& operation);
  AsyncGroups& groups_of(Thread& thread, GroupKind kind);
  void commit_group(Thread& thread, GroupKind kind);
  // The barrier gets an arrival when the thread's copies so far have completed; counted: in addition to the expected
  // ones.
  void arrive_after_copies(Thread& thread, MBarrier& barrier, bool counted);
  bool is_over(Thread& thread, const GroupWait& wait);
  void pass_groups(Thread& thread, const GroupWait& wait);
  // Operations on the barrier at this offset of a block's shared memory, by a running thread; they do not wait. On an
  // error, these throw Fault, or do nothing if the launch continues.
  void init_mbarrier(Thread& thread, Block& owner, uint32_t offset, uint64_t count);
  void invalidate_mbarrier(Thread& thread, Block& owner, uint32_t offset);
  // Returns the phase and the arrivals pending before this one.
  MBarrierState arrive_at_mbarrier(Thread& thread, Block& owner, uint32_t offset, const Arrival& arrival);
  void expect_at_mbarrier(Thread& thread, Block& owner, uint32_t offset, uint32_t bytes, bool own_only);
  void complete_at_mbarrier(Thread& thread, Block& owner, uint32_t offset, uint32_t bytes, bool own_only);
  // Whether the phase that was current in this state, or the last one with this parity, has ended; if so, the thread
  // acquires what was released in it. Otherwise `wait` is set to wait for it.
  bool has_ended(Thread& thread, MBarrierWait& wait, MBarrierState state);
  bool has_ended(Thread& thread, MBarrierWait& wait, uint32_t parity);
  // For a thread to which one of these returned true, or whose wait has ended.
  void saw_end(const MBarrierWait& wait);
  // Whether a try_wait fails spuriously.
  bool fails_try_wait();
  // The initialisations of all barriers by this thread become visible to the threads that pass the cluster's barrier at
  // which it arrives next.
  void fence_mbarrier_inits(const Thread& thread);

  // The barrier that a running thread names; own_only: for an operation that only threads of the barrier's block may
  // do. Null after a finding.
  MBarrier* find_mbarrier(Thread& thread, Block& owner, uint32_t offset, bool own_only);
  // For asynchronous operations: the barrier that one signals, or null after a finding; records that this many of its
  // bytes were written, released as this node of the Checker's graph (0: nothing is checked); and arrives.
  MBarrier* mbarrier_for(const Actor& actor, Block& owner, uint32_t offset);
  void complete_transactions(MBarrier& barrier, const Actor& actor, uint32_t bytes, Knowledge written);
  void arrive_later(MBarrier& barrier, const Actor& actor, uint32_t count, Knowledge released);

  // All blocks allocated; after run() threw, they hold the threads that have not exited.
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }

 private:
  // Schedule (execution.cpp).
  Cluster& make_cluster();
  std::unique_ptr<Block> make_block() const;
  Cluster& open_cluster();
  void open_block(Block& block, Dim3 index);
  void close_cluster(Cluster& cluster);
  void settle(Cluster& cluster);
  bool run_all(Cluster& cluster, bool may_pause);
  bool run_ready(Cluster& cluster, bool may_pause);
  bool run_in_order(Block& block);
  bool run_shuffled(Block& block);
  void step(Thread& thread);
  void arrive(Thread& thread);
  void leave(Thread& thread);
  void visit_residents(bool all);
  void count_idle_round();

  // Barriers (execution.cpp).
  void arrive_at_barrier(Thread& thread);
  void complete_barrier(Block& block);
  void arrive_at_grid_barrier(Thread& thread);
  void block_is_at_grid_barrier(Block& block);

  // The barrier of a cluster (cluster_barrier.cpp).
  void arrive_at_cluster_barrier(Thread& thread);
  void wait_at_cluster_barrier(Thread& thread);
  void complete_cluster_barrier(Cluster& cluster);
  void leave_cluster_barrier(Thread& thread);
  void arrived_twice(const Thread& thread);
  void waits_without_arrival(const Thread& thread);
  [[noreturn]] void stuck(const Cluster& cluster);
  void block_exits(Block& block);
  // Asynchronous operations (async.cpp).
  bool advance(Cluster& cluster);
  void move_meanwhile(Cluster& cluster);
  void move_part(AsyncOperations& all, AsyncQueue& queue, size_t place);
  uint32_t end_of_wait(Thread& thread, const GroupWait& wait);
  static GroupWait asked_for(const Thread& thread);
  void wait_for_groups(Thread& thread);
  void wake_from_group(Thread& thread);
  void end_copy(Thread& thread, uint32_t number);
  void arrive_now(Thread& thread, const LateArrival& arrival);
  void find_unawaited(const Block& block);
  // Barriers in shared memory (mbarriers.cpp).
  bool has_ended(Thread& thread, const MBarrier& barrier, const MBarrierWait& wait);
  void count_arrivals(MBarrier& barrier, const Actor& actor, const Arrival& arrival);
  void expect(MBarrier& barrier, const Actor& actor, int64_t bytes);
  void end_phase(MBarrier& barrier);
  void wait_at_mbarrier(Thread& thread);
  bool end_try_waits(Cluster& cluster);
  void misuse(const Actor& actor, const Block& owner, uint32_t offset, std::string what, const Actor* other = nullptr);
  std::string mbarriers(const Block& block) const;
  [[noreturn]] void stuck_at_mbarriers(const Cluster& cluster);
  Access access(const Actor& actor) const;
  // Named barriers (named_barriers.cpp).
  void arrive_at_named_barrier(Thread& thread);
  void complete_named_barrier(Block& block, NamedBarrier& barrier);
  void different_counts(const NamedBarrier& barrier, const Thread& thread);
  [[noreturn]] void stuck_at_named_barriers(const Block& block);

  // Warp operations (rendezvous.cpp).
  void arrive_at_rendezvous(Thread& thread);
  void meet_without(Warp& warp, uint32_t lane);
  void meet(Warp& warp, const Request& asked);
  bool answer_active_mask(Warp& warp);

  // Findings (divergence.cpp).
  [[noreturn]] void stuck(const Block& block);
  // These return if the launch continues.
  void different_barriers(const Block& block);
  void different_grid_barriers(const Thread& thread);
  void not_in_own_mask(const Thread& thread);
  void go_on_after(Finding found, Site site);
  [[noreturn]] void different_calls(const Warp& warp, uint32_t lanes);
  [[noreturn]] void not_whole_warp(const Warp& warp, uint32_t lanes);
  [[noreturn]] void deadlock();
  [[noreturn]] void too_many_blocks();
  void warn_of_exited(const Block& block);
  Finding finding(Kind kind, Severity severity) const;
  Access access(const Thread& thread) const;
  std::string waiting(Finding& finding, const Block& block) const;

  Launch& launch_;
  FrontEnd& front_;
  BlockOrder cluster_order_;
  ThreadOrder thread_order_;
  Random async_chances_;     // decides when asynchronous operations move
  Random chances_;           // decides what fails spuriously
  uint64_t resident_limit_;  // in clusters, as the next two
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
  uint64_t blocks_at_grid_barrier_ = 0;
  Thread* first_at_grid_barrier_ = nullptr;

  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<Cluster*> free_;
  std::vector<Cluster*> residents_;  // clusters that wait for others
  size_t next_resident_ = 0;
  std::unordered_set<Site> warned_;  // barriers already warned of

  uint64_t meanwhile_ = 0;  // operations that may move after a step of a thread
  bool woken_ = false;      // a moved operation has made a thread ready

  uint64_t events_ = 0;  // anything that threads did except polling
  uint64_t looks_ = 0;   // reads by polling threads
  // Since the last event: rounds of all resident clusters; and the value of looks_ before them.
  uint64_t idle_rounds_ = 0;
  uint64_t looks_before_idle_ = 0;
};

}  // namespace trifold::engine
