// The functions by which kernels wait for other threads, and other calls into the engine.
#include <stdexcept>

#include "../core/checker.h"
#include "../core/execution.h"
#include "earlier_grid.h"
#include "front.h"
#include "sites.h"
#include "undecided.h"
#include "watchdog.h"

namespace trifold::cpu {

using engine::Operation;
using engine::Request;
using engine::Thread;

static_assert(static_cast<int>(Wait::barrier_or) == static_cast<int>(Operation::barrier_or));
static_assert(static_cast<int>(Wait::sync_warp) == static_cast<int>(Operation::sync_warp));
static_assert(static_cast<int>(Wait::active_mask) == static_cast<int>(Operation::active_mask));
static_assert(static_cast<int>(Wait::cluster_wait) == static_cast<int>(Operation::cluster_wait));
static_assert(static_cast<int>(Wait::named_arrive) == static_cast<int>(Operation::named_arrive));
static_assert(static_cast<int>(Wait::shared_address) == static_cast<int>(Operation::shared_address));
static_assert(static_cast<int>(Wait::mma) == static_cast<int>(Operation::mma));
static_assert(static_cast<int>(Wait::multiply_matrices) == static_cast<int>(Operation::multiply_matrices));

constinit thread_local Turn* turn = nullptr;
constinit thread_local uintptr_t end_of_stack = 0;

void end_thread() {
  if (engine::current->undecided != 0) [[unlikely]]
    decide_before_end(*engine::current);
  turn->front->leave_ring();
  Fiber& fiber = *turn->front->running;
  fiber.ended = true;
  fiber.leave();  // leaves the loop over threads that it was in
}

namespace {

// A thread's request, and its line, as `ask` fills it in. (Copying a request right after its fields were written is
// expensive, since the processor cannot forward such stores.)
template <typename Ask>
Turn& ask_for(Line line, Ask ask) {
  if (turn == nullptr) throw std::logic_error("a barrier or warp operation is called outside a kernel");
  Turn& now = *turn;
  if (overdue != 0) [[unlikely]]
    now.stop_thread(Stop::time, __builtin_return_address(0));
  if (line.file != now.last_line.file || line.line != now.last_line.line) {
    now.last_line = line;
    now.last_site = site_of_line(line);
  }
  if (now.plain) [[unlikely]] {
    ask(now.request);
  } else {
    engine::current->waiting_at = now.last_site;
    ask(engine::current->request);
  }
  return now;
}

// Waits with the request; returns the answer.
template <typename Ask>
const Request& wait(Line line, Ask ask) {
  Turn& now = ask_for(line, ask);
  if (now.plain) [[unlikely]]
    now.fiber->yield();
  else
    now.front->wait();
  return engine::current->request;
}

// Looks at memory before others run: a loop that gives up after some tries must be able to.
constexpr uint32_t looks_in_a_row = 64;

}  // namespace

void poll(engine::Site site, uint32_t looks) {
  Turn& now = *turn;
  if (overdue > overdue_polls) [[unlikely]]
    now.stop_thread(Stop::time, nullptr);
  ++now.polls;
  now.last_line = {nullptr, 0};
  now.last_site = site;
  if (now.plain) {
    now.request.operation = static_cast<uint8_t>(Operation::poll);
    now.request.looks = looks;
    now.fiber->yield();
  } else {
    engine::current->waiting_at = site;
    engine::current->request.operation = static_cast<uint8_t>(Operation::poll);
    engine::current->request.looks = looks;
    now.front->wait();
  }
}

void look(const void* caller) {
  Turn& now = *turn;
  if (now.running() == nullptr) return;
  const uint3& thread = *now.registers.thread;
  const uint64_t block = now.plain ? static_cast<uint64_t>(now.block) : engine::current->block->id;
  Turn::Looks& looks = now.looks;
  const bool same = looks.thread.x == thread.x && looks.thread.y == thread.y && looks.thread.z == thread.z &&
                    looks.block == block && looks.changes == engine::changes;
  if (!same) looks = {thread, block, engine::changes, 0};
  if (++looks.count < looks_in_a_row) return;
  looks.count = 0;
  poll(site_of_address(caller), looks_in_a_row);
}

void looked() {
  if (turn != nullptr) look(__builtin_return_address(0));
}

void pause(Line line) {
  if (turn != nullptr && turn->running() != nullptr) poll(site_of_line(line), 1);
}

void wait_at_barrier(Line line) {
  if (turn == nullptr || turn->front == nullptr || !turn->front->wait_in_ring(Operation::barrier, line))
    wait_at_barrier(Wait::barrier, false, line);
}

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

void wait_at_wider_barrier(Wait operation, Line line) {
  const auto ask = [&](Request& request) {
    request.operation = static_cast<uint8_t>(operation);
    request.predicate = false;
  };
  const bool in_ring = turn != nullptr && turn->front != nullptr;
  if (in_ring && turn->front->wait_in_ring(static_cast<Operation>(operation), line)) return;
  const bool goes_on = operation == Wait::cluster_arrive || operation == Wait::cluster_arrive_relaxed;
  if (!goes_on || turn == nullptr || turn->plain) {
    wait(line, ask);
  } else {
    ask_for(line, ask).front->arrive();
  }
}

unsigned wait_at_named_barrier(Wait operation, unsigned number, unsigned threads, bool predicate, Line line) {
  return static_cast<unsigned>(meet_warp(operation, 0, predicate, 0, number, threads, line).value);
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

void meet_whole_warp(Wait operation, Together& own, Line line) {
  meet_warp(operation, 0xffffffff, false, reinterpret_cast<uint64_t>(&own), 0, 0, line);
}

namespace {

// For the running thread, by the frame pointers that checked builds keep (trifold/build/recipe.py).
Calls calls_to_engine(const CpuFront& front) {
  const Range text = front.kernel_text();
  Calls calls{};
  size_t count = 0;
  auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  while (count < calls.size() && front.running->holds(frame)) {
    const auto* const record = reinterpret_cast<const uintptr_t*>(frame);
    const uintptr_t caller_frame = record[0], return_address = record[1];
    if (return_address >= text.begin && return_address < text.end)
      calls[count++] = reinterpret_cast<const void*>(return_address);
    else if (count != 0)
      break;
    if (caller_frame <= frame || caller_frame % sizeof(uintptr_t) != 0) break;
    frame = caller_frame;
  }
  return calls;
}

}  // namespace

void begin_operation(Operation operation, Line line) {
  const auto ask = [&](Request& request) { request.operation = static_cast<uint8_t>(operation); };
  if (turn == nullptr || turn->plain) {
    wait(line, ask);
    return;
  }
  CpuFront& front = *ask_for(line, ask).front;
  Thread& thread = *engine::current;
  if (operation != Operation::shared_address && thread.block->launch->checker != nullptr)
    thread.waiting_at = site_of_call(line, calls_to_engine(front));
  front.end_access();
}

bool wait_for_phase(engine::MBarrierWait& phase, Line line) {
  const engine::Site site = engine::current->waiting_at;  // with its callers
  return wait(line,
              [&](Request& request) {
                engine::current->waiting_at = site;
                request.operation = static_cast<uint8_t>(Operation::mbarrier_wait);
                request.value = reinterpret_cast<uint64_t>(&phase);
              })
      .predicate;
}

void fence(Scope scope) {
  if (turn != nullptr) look(__builtin_return_address(0));
  if (engine::current != nullptr && engine::current->block->launch->checker != nullptr)
    engine::current->block->launch->checker->fence(*engine::current, static_cast<engine::Scope>(scope));
}

void wait_for_earlier_grid() {
  if (earlier_of_running() != nullptr && engine::current != nullptr)
    engine::current->block->launch->checker->wait_for_earlier_grid(*engine::current);
}

void let_next_grid_begin() {
  if (turn != nullptr) turn->lets_next_begin = true;
}

Clusters clusters() {
  const Kernel& kernel = turn->kernel;
  return {kernel.cluster, kernel.clusters_given};
}

bool is_cooperative() {
  return turn->kernel.cooperative;
}

void* map_shared(const void* address, unsigned rank, Line line) {
  if (rank >= turn->kernel.cluster.x * turn->kernel.cluster.y * turn->kernel.cluster.z)
    stop_launch("a rank that no block of the cluster has, for map_shared_rank,", line);
  if (turn->plain) return const_cast<void*>(address);  // no other block runs
  const engine::Block* const owner = turn->front->owner_of_shared(address);
  if (owner == nullptr)
    stop_launch("an address that is not of shared memory of the cluster, for map_shared_rank,", line);
  return turn->front->in_block(address, *owner, *owner->cluster->blocks[rank]);
}

unsigned rank_of_shared(const void* address, Line line) {
  if (turn->plain) return 0;
  const engine::Block* const owner = turn->front->owner_of_shared(address);
  if (owner == nullptr)
    stop_launch("an address that is not of shared memory of the cluster, for query_shared_rank,", line);
  return owner->rank;
}

void* dynamic_shared() {
  return turn->shared;
}

unsigned lane() {
  const uint3& at = *turn->registers.thread;
  const dim3& threads = turn->kernel.threads;
  return (at.x + threads.x * (at.y + threads.y * at.z)) % engine::warp_size;
}

}  // namespace trifold::cpu
