// Launches: blocks run in plain loops until a thread waits, and then by the execution core.
#include "launch.h"

#include <atomic>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "../core/checker.h"
#include "../core/execution.h"
#include "../core/per_thread.h"
#include "../core/tolerance.h"
#include "earlier_grid.h"
#include "front.h"
#include "limits.h"
#include "memory.h"
#include "module.h"
#include "overflow.h"
#include "report.h"
#include "settings.h"
#include "sites.h"
#include "skip.h"
#include "undecided.h"
#include "watchdog.h"
#include "writes.h"

namespace trifold::cpu {
namespace {

// Checked launches run one at a time, since the watched memory is per process.
std::mutex one_checked_launch;

// If not null, called before each checked launch by the thread that launches. It may launch kernels.
std::atomic<void (*)()> before_checked_launch{nullptr};

// Runs all remaining blocks on one fiber, as long as no thread waits.
void run_plain(Turn& now) {
  const dim3& grid = now.kernel.grid;
  for (; now.block < now.end; ++now.block) {
    const auto block = static_cast<uint64_t>(now.block);
    *now.registers.block = {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
                            static_cast<unsigned>(block / grid.x / grid.y)};
    now.kernel.block(now.kernel.closure);
  }
}

Fiber* run_on_fiber() {
  Turn& now = *turn;
  if (now.plain) {
    run_plain(now);
    return nullptr;
  }
  try {
    now.kernel.thread(now.kernel.closure);
    if (skipping) [[unlikely]]
      end_skipping();
  } catch (...) {
    now.front->leave_ring();
    throw;
  }
  if (engine::current->undecided != 0) [[unlikely]]
    decide_before_end(*engine::current);
  now.front->leave_ring();
  return now.front->run_ahead();
}

struct Free {
  void operator()(char* memory) const { free(memory); }
};

// Dynamic shared memory for all blocks that run one after the other.
struct SharedMemory {
  std::unique_ptr<char, Free> storage;
  char* begin;
};

SharedMemory shared_memory(const Kernel& kernel, const Registers& registers) {
  if (registers.extern_shared != nullptr || kernel.shared_bytes == 0) return {nullptr, registers.extern_shared};
  constexpr size_t alignment = 1024;  // as in CUDA
  static_assert(red_zone % alignment == 0);
  const size_t bytes = (kernel.shared_bytes + 2 * red_zone + alignment - 1) / alignment * alignment;
  std::unique_ptr<char, Free> storage(static_cast<char*>(aligned_alloc(alignment, bytes)));
  if (storage == nullptr) throw std::bad_alloc();
  char* const begin = storage.get() + red_zone;
  return {std::move(storage), begin};
}

// Makes `now` this OS thread's turn.
class Taking {
 public:
  explicit Taking(Turn& now) : watched_(outermost(now.kernel)) {
    watch_stacks();
    begin_sites();
    turn = &now;
  }
  ~Taking() {
    turn = nullptr;
    engine::current = nullptr;
  }

 private:
  static const Kernel& outermost(const Kernel& kernel) {
    if (turn != nullptr) throw std::runtime_error(std::string(kernel.name) + " is launched inside a kernel");
    return kernel;
  }

  Watched watched_;
};

[[noreturn]] void refuse(const engine::LaunchMistake& mistake) {
  throw std::runtime_error(mistake.problem + "; " + mistake.remedy);
}

// Ends a launch in which no thread has waited.
[[noreturn]] void end_plain(const Turn& now) {
  try {
    now.throw_stopped();
  } catch (const engine::LaunchMistake& mistake) {
    refuse(mistake);
  }
}

// Runs the blocks of the launch; mistakes that the core finds become std::runtime_error.
void execute(engine::Launch& launch, CpuFront& front) {
  try {
    engine::Execution execution(launch, front);
    front.execution = &execution;
    execution.run();
    return;
  } catch (const engine::Fault& fault) {
    fibers().reclaim();
    if (checked_memory != nullptr) record(fault.finding);
    throw LaunchEnded(fault.finding.message);
  } catch (const engine::TooManyBlocks& mistake) {
    fibers().reclaim();
    throw FailedLaunch(Error::cooperative_launch_too_large, mistake.problem + "; " + mistake.remedy);
  } catch (const engine::LaunchMistake& mistake) {
    fibers().reclaim();
    refuse(mistake);
  } catch (...) {
    fibers().reclaim();
    throw;
  }
}

// A thread waits: from here on the core runs the remaining blocks.
void continue_waiting(Turn& now) {
  const uint3 at = *now.registers.thread;
  const dim3& threads = now.kernel.threads;
  engine::Launch launch = launch_of(now.kernel);
  launch.first_cluster = static_cast<uint64_t>(now.block);  // clusters of one block each
  launch.cluster_count = static_cast<uint64_t>(now.end - now.block);
  launch.counts_changes = false;  // its stores are not observed
  CpuFront front(now, fibers());
  front.hand_over(*now.fiber, at.x + threads.x * (at.y + threads.y * at.z), now.request, now.last_site);
  now.front = &front;
  now.plain = false;
  *now.registers.handed_over = now.fiber;
  execute(launch, front);
}

// The core runs everything from the start: blocks that are resident together have separate memory.
void run_together(Turn& now, int64_t begin, int64_t end) {
  engine::Launch launch = launch_of(now.kernel);
  launch.first_cluster = static_cast<uint64_t>(begin);
  launch.cluster_count = static_cast<uint64_t>(end - begin);
  launch.counts_changes = false;
  CpuFront front(now, fibers());
  now.front = &front;
  execute(launch, front);
}

}  // namespace

engine::Launch launch_of(const Kernel& kernel) {
  engine::Launch launch;
  launch.kernel = kernel.name;
  launch.grid = {kernel.grid.x, kernel.grid.y, kernel.grid.z};
  launch.block = {kernel.threads.x, kernel.threads.y, kernel.threads.z};
  launch.cluster = {kernel.cluster.x, kernel.cluster.y, kernel.cluster.z};
  launch.cooperative = kernel.cooperative;
  launch.dynamic_shared_bytes = static_cast<uint32_t>(kernel.shared_bytes);
  launch.static_shared_bytes = static_cast<uint32_t>(declared_by(kernel.code).shared_bytes);
  launch.limits = device_limits();
  return launch;
}

FiberPool& fibers() {
  struct OfThisThread {
    SignalStack signal_stack;
    FiberPool pool{run_on_fiber, stack_bytes()};
  };
  static thread_local engine::PerThread<OfThisThread> own;
  return own->pool;
}

void run_blocks(const Kernel& kernel, Registers registers, int64_t begin, int64_t end) {
  require_launchable(kernel);
  const SharedMemory shared = shared_memory(kernel, registers);
  const bool together = kernel.cooperative || kernel.cluster.x * kernel.cluster.y * kernel.cluster.z > 1;
  Turn now{.kernel = kernel,
           .registers = registers,
           .shared = shared.begin,
           .plain = !together,
           .block = begin,
           .end = end,
           .request = {},
           .looks = {}};
  const Taking taking(now);
  *registers.handed_over = nullptr;
  if (together) return run_together(now, begin, end);
  Fiber& fiber = fibers().take();
  now.fiber = &fiber;
  fiber.resume();
  if (now.stop != Stop::none) [[unlikely]] {
    fibers().give(fiber);
    end_plain(now);
  }
  if (!fiber.ended) return continue_waiting(now);
  const std::exception_ptr error = std::exchange(fiber.error, nullptr);
  fibers().give(fiber);
  if (error) std::rethrow_exception(error);
}

namespace {

// Reports the findings after which a launch continued, however it ends.
class Telling {
 public:
  explicit Telling(const engine::Tally& tally) : tally_(tally) {}
  ~Telling() {
    for (const engine::Finding& finding : tally_.findings()) record(finding);
  }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

 private:
  const engine::Tally& tally_;
};

}  // namespace

void run_checked(const Kernel& kernel, Registers registers) {
  require_launchable(kernel);
  if (void (*const call)() = before_checked_launch.load(); call != nullptr) call();
  const std::lock_guard<std::mutex> alone(one_checked_launch);
  engine::Launch launch = launch_of(kernel);
  engine::Tally tally(policy());
  const Telling telling(tally);
  launch.tally = &tally;
  launch.checks = engine::check_all;
  launch.seed = schedule_seed();
  engine::Checker checker(launch);
  launch.checker = &checker;
  const EarlierGrid* const earlier = begin_after_earlier(kernel);
  if (earlier != nullptr) checker.begin_before_end_of_earlier();
  CheckedMemory memory(kernel, earlier);
  const SharedMemory shared = shared_memory(kernel, registers);
  Turn now{.kernel = kernel, .registers = registers, .shared = shared.begin, .request = {}, .looks = {}};
  const Taking taking(now);
  CpuFront front(now, fibers());
  now.front = &front;
  execute(launch, front);
  memory.kernel_has_written();
  log_writes(kernel, memory);
  if (accesses_count()) note_kernel(memory.accesses(has_streams()));
  if (now.lets_next_begin) end_grid(std::make_unique<EarlierGrid>(launch, checker, kernel.stream, memory.touched()));
}

namespace {

// Ends the running thread with an error, as if the kernel had thrown it. Objects here are not destroyed, since the
// stack is abandoned. It cannot throw, because assert() calls a function that must not.
Fiber& fail(Error error, const std::string& what, const engine::Location& at) {
  const uint3 &thread = *turn->registers.thread, &block = *turn->registers.block;
  const engine::Access where{{thread.x, thread.y, thread.z}, {block.x, block.y, block.z}, -1, "", at};
  const std::string problem = what + " in kernel " + turn->kernel.name +
                              " ends the launch: " + engine::who(where, false) + " at " + engine::where(at);
  Fiber& fiber = *turn->running();
  fiber.error = std::make_exception_ptr(FailedLaunch(error, problem));
  fiber.ended = true;
  return fiber;
}

}  // namespace

void stop_launch(const char* what, Line line) {
  if (turn == nullptr) {
    fprintf(stderr, "%s:%d: %s outside a kernel\n", line.file, line.line, what);
    abort();
  }
  Fiber& fiber = fail(Error::launch_failure, what, {line.file, line.line, "", "", {}});
  fiber.leave();
}

void fail_assertion(const char* expression, const char* file, unsigned line, const char* function) {
  if (turn == nullptr) {  // said here, since __assert_fail is this library's too: that of ending.h, which calls this
    fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, expression);
    abort();
  }
  Fiber& fiber = fail(Error::assertion, "a failed assertion, " + std::string(expression) + ",",
                      {file, static_cast<int>(line), "", "", {}});
  fiber.leave();
}

bool in_kernel() {
  return turn != nullptr;
}

void exceed_launch_bounds(unsigned threads) {
  Fiber& fiber = *turn->running();
  fiber.error = std::make_exception_ptr(std::runtime_error(too_many_threads(turn->kernel, threads)));
  fiber.ended = true;
  fiber.leave();
}

}  // namespace trifold::cpu

extern "C" [[gnu::visibility("default")]] void trifold_cpu_before_checked_launch(void (*call)()) {
  trifold::cpu::before_checked_launch.store(call);
}
