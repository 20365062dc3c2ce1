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

namespace trifold::host {

class HostFront;

// Why a thread does not go on, and the launch ends.
enum class Stop : uint8_t {
  none,
  finding,  // HostFront::abandon()
  stack,    // it has used up its stack
  time,     // the launch takes too long
};

// A launch, or a part of one, that runs on this OS thread.
struct Turn {
  const Kernel& kernel;
  Registers registers;     // of the running block
  char* shared = nullptr;  // its dynamic shared memory
  // Before any thread has waited, one fiber runs block after block.
  bool plain = false;
  int64_t block = 0, end = 0;
  Fiber* fiber = nullptr;
  engine::Request request;  // of the thread that waits first
  // And afterwards:
  HostFront* front = nullptr;
  Line last_line{nullptr, 0};  // where a thread waited last, and its site
  engine::Site last_site = 0;
  bool lets_next_begin = false;  // a thread has let the next kernel begin
  Stop stop = Stop::none;
  const void* stopped_at = nullptr;  // the return address of what it did last; null: it waited, at last_site

  Interrupted full_stack{0, 0};  // instead, of a thread that has used up its stack

  // Who looked at memory last that others may change, and how often so far.
  struct Looks {
    uint3 thread{0, 0, 0};
    uint64_t block = 0, changes = 0;
    uint32_t count = 0;
  } looks;
  // Of all threads, together with others' turns that came of it; and at the last look of the watchdog.
  uint64_t polls = 0, polls_seen = 0;

  // The fiber whose kernel code runs, or the engine's on its behalf; null: none does.
  Fiber* running() const;
  // Ends the launch at the running thread, which is not resumed. Safe in a handler of a signal.
  [[noreturn]] void stop_thread(Stop why, const void* at);
  [[noreturn]] void leave_full_stack(Interrupted where);
  // What to throw then, from outside the fiber.
  [[noreturn]] void throw_stopped() const;

 private:
  engine::Site stopped_site() const;
};

// Of the fiber that has run last on this OS thread.
extern constinit thread_local uintptr_t end_of_stack [[gnu::tls_model("initial-exec")]];

// What a thread of a block does while another one runs.
enum class Doing : uint8_t { has_ended, runs_later, waits };
struct Whereabouts {
  Doing doing;
  engine::Operation operation = engine::Operation::barrier;  // what it waits for, and where
  engine::Site site = 0;

  bool operator==(const Whereabouts&) const = default;
};

class HostFront final : public engine::FrontEnd {
 public:
  HostFront(Turn& turn, FiberPool& pool);

  // A fiber has run the first block's threads up to this one, which waits for what it asked.
  void hand_over(Fiber& fiber, uint32_t thread, const engine::Request& request, engine::Site site);

  engine::Outcome resume(engine::Thread& thread) override;
  void begin_block(engine::Block& block) override;
  void shuffle(engine::Warp& warp, uint32_t lanes) override;
  void work_together(engine::Warp& warp) override;
  engine::Location locate(engine::Site site) override;
  void warn(const engine::Finding& finding) override;
  bool gives_up() override;

  // The current thread waits for what its request says, and goes on when this returns.
  void wait();
  // It comes to what its request says: its last access is over, and decided.
  void end_access();
  // It arrives at the barrier of its cluster, as its request says, and goes on.
  void arrive();
  // Where all threads of the block come to one plain barrier after the other, or all of the cluster to its barrier,
  // they pass to each other in a ring, and the core need not know. True: the current thread has waited so, and goes on.
  bool wait_in_ring(engine::Operation operation, Line line);
  // The current thread does something else: the core learns who waits.
  void leave_ring();
  // The fiber of the thread behind the current one, which is current from then on, where it may run before the core
  // asks for it; else null.
  Fiber* run_ahead();
  // Of the running block's cluster: the block in whose shared memory an address lies, and what another one has there.
  const engine::Block* owner_of_shared(const void* address) const;
  char* in_block(const void* address, const engine::Block& from, const engine::Block& to) const;
  // An address in 32 bits of shared memory of the running block's cluster: where it lies in the window of its block;
  // and what lies there.
  uint32_t offset_in(const engine::Block& owner, const void* address) const;
  char* at_offset(const engine::Block& owner, uint32_t offset) const;
  std::string name_of_shared(const engine::Block& owner, uint32_t offset) const override;
  // Of a thread of the running block that is not the running one.
  Whereabouts whereabouts(uint32_t index) const;

  // The current thread's own code does not run from here on, only the engine's on its behalf.
  void interrupt() {
    if (running != nullptr) interrupted_ = std::exchange(running, nullptr);
  }
  void proceed() {
    running = std::exchange(interrupted_, nullptr);
    if (running != nullptr) end_of_stack = running->end();
  }
  // Ends the launch at the interrupted thread, which is not resumed.
  [[noreturn]] void abandon(engine::Finding finding);

  // The instructions of the kernel's library.
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

  std::set<engine::Site> warned_at_;  // shuffles of which one has given nothing
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
  const engine::Block* entered_ = nullptr;  // whose slot is in use
  uint3* place_ = nullptr;                  // its threadIdx
  bool flat_;                               // a block has one dimension
  Range text_;                              // only with checks
  Fiber* interrupted_ = nullptr;

  std::vector<Fiber*> ring_;  // of its blocks' threads; empty: there is none
  std::vector<engine::Block*> ring_blocks_;
  engine::Operation ring_operation_{};  // a block's barrier or a cluster's
  uint32_t ring_at_ = 0;                // the running thread
  uint32_t ring_edge_ = 0;              // where another block's threads begin, or the ring ends
  Line ring_line_{nullptr, 0};
  uint64_t ring_rounds_ = 0;
  int short_rings_ = 0;  // that were left before a barrier was complete
  std::optional<HandedOver> handed_over_;
  std::optional<engine::Finding> fault_;  // why the thread does not go on
};

// The running thread may wait for another one to change memory: it found it unchanged, at a call with this return
// address. After some such looks of its own others get their turn.
void look(const void* caller);
// The running thread is about to do this at this line, and does not wait for it. From here on the core runs its launch.
void begin_operation(engine::Operation operation, Line line);
// It waits for the phase, and is told whether it has ended.
bool wait_for_phase(engine::MBarrierWait& wait, Line line);
// At once, after so many looks.
void poll(engine::Site site, uint32_t looks);

// Threads that poll are told to be deadlocked, where they are, once the launch's time is up. Where others keep them
// from it for so many looks of the watchdog, the time ends them.
inline constexpr uint32_t overdue_polls = 50;

extern constinit thread_local Turn* turn [[gnu::tls_model("initial-exec")]];

inline Fiber* Turn::running() const {
  return front != nullptr ? front->running : plain ? fiber : nullptr;
}

// The fibers of this OS thread.
FiberPool& fibers();

}  // namespace trifold::host
