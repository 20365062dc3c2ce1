// A CUDA thread is a fiber: the front end of the execution core for kernels in C++.
#pragma once

#include <trifold/cpu.h>

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "../core/execution.h"
#include "fiber.h"
#include "interrupted.h"
#include "module.h"
#include "slots.h"

namespace trifold::cpu {

class CpuFront;

// Why a thread is stopped for good, which ends the launch.
enum class Stop : uint8_t {
  none,
  finding,  // CpuFront::abandon()
  stack,    // it overflowed its stack
  time,     // the launch takes too long
};

// A launch, or a part of one, on this OS thread.
struct Turn {
  const Kernel& kernel;
  Registers registers;     // of the running block
  char* shared = nullptr;  // its dynamic shared memory
  // Until a thread waits, one fiber runs block after block.
  bool plain = false;
  int64_t block = 0, end = 0;
  Fiber* fiber = nullptr;
  engine::Request request;  // of the first thread that waits
  // After that:
  CpuFront* front = nullptr;
  Line last_line{nullptr, 0};  // the line where a thread waited last, and its site
  engine::Site last_site = 0;
  bool lets_next_begin = false;  // a thread has let the next kernel begin
  Stop stop = Stop::none;
  const void* stopped_at = nullptr;  // return address of its last call; null: it waited last, at last_site

  Interrupted full_stack{0, 0};  // instead, for a thread that overflowed its stack

  // The last thread that looked at memory which others may change, and how often it has done so.
  struct Looks {
    uint3 thread{0, 0, 0};
    uint64_t block = 0, changes = 0;
    uint32_t count = 0;
  } looks;
  // Looks of all threads, and switches to other threads because of them; and the count at the watchdog's last look.
  uint64_t polls = 0, polls_seen = 0;

  // The fiber that runs kernel code, or the engine on its behalf; null: none.
  Fiber* running() const;
  // Ends the launch at the running thread, which is not resumed. Safe in a signal handler.
  [[noreturn]] void stop_thread(Stop why, const void* at);
  [[noreturn]] void leave_full_stack(Interrupted where);
  // The exception to throw then, from outside of the fiber.
  [[noreturn]] void throw_stopped() const;

 private:
  engine::Site stopped_site() const;
};

// Of the fiber that ran last on this OS thread.
extern constinit thread_local uintptr_t end_of_stack [[gnu::tls_model("initial-exec")]];

// State of a thread of a block that is not running.
enum class Doing : uint8_t { has_ended, runs_later, waits };
struct Whereabouts {
  Doing doing;
  engine::Operation operation = engine::Operation::barrier;  // what it waits for, and where
  engine::Site site = 0;

  bool operator==(const Whereabouts&) const = default;
};

class CpuFront final : public engine::FrontEnd {
 public:
  CpuFront(Turn& turn, FiberPool& pool);

  // A fiber has run the first block's threads up to this one, which waits with this request.
  void hand_over(Fiber& fiber, uint32_t thread, const engine::Request& request, engine::Site site);

  engine::Outcome resume(engine::Thread& thread) override;
  void begin_block(engine::Block& block) override;
  void shuffle(engine::Warp& warp, uint32_t lanes) override;
  void work_together(engine::Warp& warp) override;
  engine::Location locate(engine::Site site) override;
  void warn(const engine::Finding& finding) override;
  bool gives_up() override;

  // The current thread waits with its request; returns when it may continue.
  void wait();
  // It has reached its next operation: its last access has happened, and is decided.
  void end_access();
  // It arrives at the barrier of its cluster, with its request, without waiting.
  void arrive();
  // While all threads of the block reach one plain barrier after the other, or all of the cluster its barrier, they
  // switch to each other in a ring without the core. True: the current thread has waited in this way, and continues.
  bool wait_in_ring(engine::Operation operation, Line line);
  // The current thread does something else: the core is informed of the waiting threads.
  void leave_ring();
  // The fiber of the next thread, which becomes the current one, if it may run before the core resumes it; else null.
  Fiber* run_ahead();
  // Within the running block's cluster: the block in whose shared memory an address is, and the same place in another
  // block.
  const engine::Block* owner_of_shared(const void* address) const;
  char* in_block(const void* address, const engine::Block& from, const engine::Block& to) const;
  // A 32-bit address in shared memory of the running block's cluster: its offset in the window of its block; and the
  // reverse.
  uint32_t offset_in(const engine::Block& owner, const void* address) const;
  char* at_offset(const engine::Block& owner, uint32_t offset) const;
  std::string name_of_shared(const engine::Block& owner, uint32_t offset) const override;
  // Of a thread of the running block other than the running one.
  Whereabouts whereabouts(uint32_t index) const;

  // From here on, the engine runs on behalf of the current thread, whose own code is interrupted.
  void interrupt() {
    if (running != nullptr) interrupted_ = std::exchange(running, nullptr);
  }
  void proceed() {
    running = std::exchange(interrupted_, nullptr);
    if (running != nullptr) end_of_stack = running->end();
  }
  // Ends the launch at the interrupted thread, which is not resumed.
  [[noreturn]] void abandon(engine::Finding finding);

  // The address range of the kernel's library's instructions.
  Range kernel_text() const { return text_; }

  engine::Execution* execution = nullptr;
  Fiber* running = nullptr;  // the fiber of the current thread, while it runs

 private:
  [[gnu::noinline]] engine::Outcome run(engine::Thread& thread);
  void runs(Fiber& fiber) {
    running = &fiber;
    end_of_stack = fiber.end();
  }
  Fiber& enter(engine::Thread& thread);
  void enter(engine::Block& block);
  bool start_ring(engine::Operation operation);
  void pass_in_ring();
  engine::Block& next_block_of_ring();
  [[noreturn]] void end_launch();

  std::set<engine::Site> warned_at_;  // shuffles that were reported, which returned nothing
  struct HandedOver {
    Fiber* fiber;
    uint32_t thread;
    engine::Request request;
    engine::Site site;
  };

  Turn& turn_;
  const Kernel& kernel_;
  FiberPool& pool_;
  Slots slots_;
  const engine::Block* entered_ = nullptr;  // the block whose slot is in use
  uint3* place_ = nullptr;                  // its threadIdx
  bool flat_;                               // blocks have one dimension
  Range text_;                              // only with checks
  Fiber* interrupted_ = nullptr;

  std::vector<Fiber*> ring_;  // the fibers of its blocks' threads; empty: no ring
  std::vector<engine::Block*> ring_blocks_;
  engine::Operation ring_operation_{};  // a block's barrier or a cluster's
  uint32_t ring_at_ = 0;                // the running thread
  uint32_t ring_edge_ = 0;              // first index of another block's threads, or the end of the ring
  Line ring_line_{nullptr, 0};
  uint64_t ring_rounds_ = 0;
  int short_rings_ = 0;  // rings that were left before a barrier was complete
  std::optional<HandedOver> handed_over_;
  std::optional<engine::Finding> fault_;  // why the thread was stopped
};

// The running thread found memory unchanged that another thread may change, at a call with this return address. After
// some such looks, other threads run.
void look(const void* caller);
// The running thread is about to do this at this line, without waiting. From here on the core runs its launch.
void begin_operation(engine::Operation operation, Line line);
// The thread waits for the phase. Returns whether the phase has ended.
bool wait_for_phase(engine::MBarrierWait& wait, Line line);
// Lets others run at once, after so many looks.
void poll(engine::Site site, uint32_t looks);

// Once the launch's time has passed, threads that poll are reported as deadlocked at the place where they are. If other
// threads prevent that during so many looks of the watchdog, the launch ends as too slow.
inline constexpr uint32_t overdue_polls = 50;

extern constinit thread_local Turn* turn [[gnu::tls_model("initial-exec")]];

inline Fiber* Turn::running() const {
  return front != nullptr ? front->running : plain ? fiber : nullptr;
}

// The fibers of this OS thread.
FiberPool& fibers();

}  // namespace trifold::cpu
