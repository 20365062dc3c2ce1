// Launches: blocks as plain loops until a thread waits, then by the execution core.
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "../core/checker.h"
#include "../core/execution.h"
#include "front.h"
#include "memory.h"
#include "report.h"
#include "sites.h"

namespace trifold::host {

using engine::Operation;
using engine::Request;

static_assert(static_cast<int>(Wait::barrier_or) == static_cast<int>(Operation::barrier_or));
static_assert(static_cast<int>(Wait::sync_warp) == static_cast<int>(Operation::sync_warp));
static_assert(static_cast<int>(Wait::active_mask) == static_cast<int>(Operation::active_mask));

constinit thread_local Turn* turn = nullptr;

namespace {

// Checked launches run one at a time: what watches memory is the process's.
std::mutex one_checked_launch;

// All blocks that are left, on one fiber, for as long as no thread waits.
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
  now.kernel.thread(now.kernel.closure);
  return now.front->run_ahead();
}

struct Free {
  void operator()(char* memory) const { free(memory); }
};

// Dynamic shared memory, as aligned as CUDA's.
std::unique_ptr<char, Free> shared_memory(size_t bytes) {
  if (bytes == 0) return nullptr;
  constexpr size_t alignment = 1024;
  auto* const memory = static_cast<char*>(aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
  if (memory == nullptr) throw std::bad_alloc();
  return std::unique_ptr<char, Free>(memory);
}

// Makes `now` this OS thread's turn.
class Taking {
 public:
  explicit Taking(Turn& now) {
    if (turn != nullptr) throw std::runtime_error(std::string(now.kernel.name) + " is launched inside a kernel");
    turn = &now;
  }
  ~Taking() {
    turn = nullptr;
    engine::current = nullptr;
  }
};

// What every CUDA device refuses (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
void require_launchable(const Kernel& kernel) {
  const dim3& threads = kernel.threads;
  const uint64_t block = uint64_t{threads.x} * threads.y * threads.z;
  constexpr uint64_t most_threads = 1024;
  const engine::Limits limits;
  const std::string name(kernel.name);
  if (threads.x > most_threads || threads.y > most_threads || block > most_threads || block == 0)
    throw std::runtime_error(name + " is launched with blocks of " + std::to_string(threads.x) + " × " +
                             std::to_string(threads.y) + " × " + std::to_string(threads.z) +
                             " threads: a block has 1 to " + std::to_string(most_threads));
  if (kernel.shared_bytes > limits.shared_bytes)
    throw std::runtime_error(name + " is launched with " + std::to_string(kernel.shared_bytes) +
                             " bytes of dynamic shared memory: a block has at most " +
                             std::to_string(limits.shared_bytes));
}

engine::Launch launch_of(const Kernel& kernel) {
  engine::Launch launch;
  launch.kernel = kernel.name;
  launch.grid = {kernel.grid.x, kernel.grid.y, kernel.grid.z};
  launch.block = {kernel.threads.x, kernel.threads.y, kernel.threads.z};
  launch.dynamic_shared_bytes = static_cast<uint32_t>(kernel.shared_bytes);
  return launch;
}

// Runs the blocks of the launch; mistakes that the core finds become std::runtime_error.
void execute(engine::Launch& launch, HostFront& front) {
  try {
    engine::Execution(launch, front).run();
    return;
  } catch (const engine::Fault& fault) {
    fibers().reclaim();
    if (checked_memory != nullptr) record(fault.finding);
    throw std::runtime_error(fault.finding.message);
  } catch (const engine::LaunchMistake& mistake) {
    fibers().reclaim();
    throw std::runtime_error(mistake.problem + "; " + mistake.remedy);
  } catch (...) {
    fibers().reclaim();
    throw;
  }
}

// A thread waits: from here on the core runs the blocks that are left.
void continue_waiting(Turn& now) {
  const uint3 at = *now.registers.thread;
  const dim3& threads = now.kernel.threads;
  engine::Launch launch = launch_of(now.kernel);
  launch.first_block = static_cast<uint64_t>(now.block);
  launch.block_count = static_cast<uint64_t>(now.end - now.block);
  HostFront front(now.kernel, now.registers, fibers());
  front.hand_over(*now.fiber, at.x + threads.x * (at.y + threads.y * at.z), now.request, now.last_site);
  now.front = &front;
  now.plain = false;
  *now.registers.handed_over = now.fiber;
  execute(launch, front);
}

}  // namespace

FiberPool& fibers() {
  static thread_local FiberPool pool(run_on_fiber);
  return pool;
}

void run_blocks(const Kernel& kernel, Registers registers, int64_t begin, int64_t end) {
  require_launchable(kernel);
  const auto shared = registers.extern_shared == nullptr ? shared_memory(kernel.shared_bytes) : nullptr;
  Fiber& fiber = fibers().take();
  Turn now{.kernel = kernel,
           .registers = registers,
           .shared = shared != nullptr ? shared.get() : registers.extern_shared,
           .plain = true,
           .block = begin,
           .end = end,
           .fiber = &fiber,
           .request = {}};
  const Taking taking(now);
  *registers.handed_over = nullptr;
  fiber.resume();
  if (!fiber.ended) return continue_waiting(now);
  const std::exception_ptr error = std::exchange(fiber.error, nullptr);
  fibers().give(fiber);
  if (error) std::rethrow_exception(error);
}

void run_checked(const Kernel& kernel, Registers registers) {
  require_launchable(kernel);
  const std::lock_guard<std::mutex> alone(one_checked_launch);
  engine::Launch launch = launch_of(kernel);
  launch.checks = engine::check_all;
  launch.seed = schedule_seed();
  engine::Checker checker(launch);
  launch.checker = &checker;
  CheckedMemory memory(kernel, registers);
  Turn now{.kernel = kernel, .registers = registers, .shared = memory.dynamic_shared(), .request = {}};
  const Taking taking(now);
  HostFront front(kernel, registers, fibers());
  now.front = &front;
  execute(launch, front);
  memory.kernel_has_written();
}

namespace {

// The running thread ends with an error, as if the kernel had thrown it. (No object here outlives this: the stack that
// it is called on is left.)
void note_error(const char* what, const engine::Location& at) {
  const uint3 &thread = *turn->registers.thread, &block = *turn->registers.block;
  const engine::Access where{{thread.x, thread.y, thread.z}, {block.x, block.y, block.z}, -1, "", at};
  const std::string problem = std::string(what) + " in kernel " + turn->kernel.name +
                              " ends the launch: " + engine::who(where, false) + " at " + engine::where(at);
  Fiber& fiber = turn->plain ? *turn->fiber : *turn->front->running;
  fiber.error = std::make_exception_ptr(std::runtime_error(problem));
  fiber.ended = true;
}

}  // namespace

void stop_launch(const char* what, Line line) {
  if (turn == nullptr) {
    fprintf(stderr, "%s:%d: %s outside a kernel\n", line.file, line.line, what);
    abort();
  }
  Fiber& fiber = turn->plain ? *turn->fiber : *turn->front->running;
  note_error(what, {line.file, line.line, "", ""});
  fiber.leave();
}

void fail_assertion(const char* expression, const char* file, unsigned line, const char* function) {
  if (turn == nullptr) __assert_fail(expression, file, line, function);
  Fiber& fiber = turn->plain ? *turn->fiber : *turn->front->running;
  note_error(("a failed assertion, " + std::string(expression) + ",").c_str(), {file, static_cast<int>(line), "", ""});
  fiber.leave();
}

void end_thread() {
  Fiber& fiber = *turn->front->running;
  fiber.ended = true;
  fiber.leave();  // the loop over threads that it was in does not go on
}

namespace {

// Waits for what `ask` writes into the request; returns the answer. (A request that is copied right after it was
// written field by field costs more than all the rest: the processor cannot forward such stores.)
template <typename Ask>
const Request& wait(Line line, Ask ask) {
  if (turn == nullptr) throw std::logic_error("a barrier or warp operation is called outside a kernel");
  Turn& now = *turn;
  if (line.file != now.last_line.file || line.line != now.last_line.line) {
    now.last_line = line;
    now.last_site = site_of_line(line);
  }
  if (now.plain) [[unlikely]] {
    ask(now.request);
    now.fiber->yield();
  } else {
    engine::current->waiting_at = now.last_site;
    ask(engine::current->request);
    now.front->wait();
  }
  return engine::current->request;
}

}  // namespace

unsigned wait_at_barrier(Wait operation, bool predicate, Line line) {
  wait(line, [&](Request& request) {
    request.operation = static_cast<uint8_t>(operation);
    request.predicate = predicate;
  });
  const engine::Block& block = *engine::current->block;
  switch (operation) {
    case Wait::barrier_count: return block.barrier_true;
    case Wait::barrier_and: return block.barrier_true == block.barrier_threads ? 1 : 0;
    case Wait::barrier_or: return block.barrier_true != 0 ? 1 : 0;
    default: return 0;
  }
}

WarpAnswer meet_warp(Wait operation, unsigned mask, bool predicate, uint64_t value, unsigned lane, unsigned clamp,
                     Line line) {
  const Request& answer = wait(line, [&](Request& request) {
    request.operation = static_cast<uint8_t>(operation);
    request.predicate = predicate;
    request.mask = mask;
    request.lane = lane;
    request.clamp = clamp;
    request.value = value;
  });
  return {answer.value, answer.predicate};
}

void fence(Fence scope) {
  if (engine::current != nullptr && engine::current->block->launch->checker != nullptr)
    engine::current->block->launch->checker->fence(*engine::current, static_cast<engine::Scope>(scope));
}

void* dynamic_shared() {
  return turn->shared;
}

unsigned lane() {
  const uint3& at = *turn->registers.thread;
  const dim3& threads = turn->kernel.threads;
  return (at.x + threads.x * (at.y + threads.y * at.z)) % engine::warp_size;
}

}  // namespace trifold::host
