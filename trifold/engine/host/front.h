// A CUDA thread is a fiber: the front end of the execution core for kernels in C++.
#pragma once

#include <trifold/host.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "../core/execution.h"
#include "fiber.h"

namespace trifold::host {

class HostFront final : public engine::FrontEnd {
 public:
  HostFront(const Kernel& kernel, Registers registers, FiberPool& pool);

  // A fiber has run the first block's threads up to this one, which waits for what it asked.
  void hand_over(Fiber& fiber, uint32_t thread, const engine::Request& request, engine::Site site);

  engine::Outcome resume(engine::Thread& thread) override;
  void begin_block(engine::Block& block) override;
  void shuffle(engine::Warp& warp, uint32_t lanes) override;
  engine::Location locate(engine::Site site) override;
  void warn(const engine::Finding& finding) override;

  // The current thread waits for what its request says, and goes on when this returns.
  void wait();
  // The fiber of the thread behind the current one, which is current from then on, where it may run before the core
  // asks for it; else null.
  Fiber* run_ahead();

  // The current thread's own code does not run from here on, only the engine's on its behalf; until it proceeds.
  void interrupt() {
    if (running != nullptr) interrupted_ = std::exchange(running, nullptr);
  }
  void proceed() { running = std::exchange(interrupted_, nullptr); }
  // Ends the launch at the interrupted thread, which is not resumed.
  [[noreturn]] void abandon(engine::Finding finding);

  Fiber* running = nullptr;  // the fiber of the current thread, while it runs

 private:
  [[gnu::noinline]] engine::Outcome run(engine::Thread& thread);
  Fiber& enter(engine::Thread& thread);

  struct HandedOver {
    Fiber* fiber;
    uint32_t thread;
    engine::Request request;
    engine::Site site;
  };

  const Kernel& kernel_;
  Registers registers_;
  FiberPool& pool_;
  bool flat_;  // a block has one dimension
  Fiber* interrupted_ = nullptr;
  std::optional<HandedOver> handed_over_;
  std::optional<engine::Finding> fault_;  // why the thread does not go on
};

// A launch, or a part of one, that runs on this OS thread.
struct Turn {
  const Kernel& kernel;
  Registers registers;
  char* shared = nullptr;  // dynamic shared memory
  // Before any thread has waited, one fiber runs block after block.
  bool plain = false;
  int64_t block = 0, end = 0;
  Fiber* fiber = nullptr;
  engine::Request request;  // of the thread that waits first
  // And afterwards:
  HostFront* front = nullptr;
  Line last_line{nullptr, 0};  // where a thread waited last, and its site
  engine::Site last_site = 0;
};

extern constinit thread_local Turn* turn [[gnu::tls_model("initial-exec")]];

// The fibers of this OS thread.
FiberPool& fibers();

}  // namespace trifold::host
