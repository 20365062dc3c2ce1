// Fibers alone: order, values on their stacks, exceptions, leaving for good, passing to each other. Exits with 1, and
// says what is wrong, where a case fails. tests/cpu/test_fiber.py builds it for both ways to switch stacks.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../trifold/engine/cpu/fiber.h"

using trifold::cpu::Fiber;
using trifold::cpu::FiberPool;

namespace {

constexpr size_t stack_bytes = 64 << 10;

std::function<Fiber*()> work;
Fiber* running = nullptr;
int failures = 0;

Fiber* run() {
  return work();
}

void expect(bool right, const char* what) {
  if (right) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

void resume(Fiber& fiber) {
  running = &fiber;
  fiber.resume();
}

void values_survive_a_switch() {
  FiberPool pool(run, stack_bytes);
  std::vector<double> sums;
  work = [&] {
    Fiber& self = *running;
    double sum = 0;
    for (int i = 1; i <= 10; ++i) {
      sum += 0.5 * i;
      self.yield();
    }
    sums.push_back(sum);
    return nullptr;
  };
  std::vector<Fiber*> fibers;
  for (int i = 0; i < 100; ++i) fibers.push_back(&pool.take());
  for (int round = 0; round <= 10; ++round)
    for (Fiber* const fiber : fibers) resume(*fiber);
  bool all = sums.size() == 100;
  for (const double sum : sums) all &= sum == 27.5;
  expect(all, "sums on a hundred stacks");
  for (Fiber* const fiber : fibers) all &= fiber->ended;
  expect(all, "all have ended");
}

void a_stack_is_aligned_as_the_processor_needs() {
  FiberPool pool(run, stack_bytes);
  bool aligned = false;
  work = [&] {
    alignas(16) volatile char local[16] = {1};
    aligned = reinterpret_cast<uintptr_t>(&local) % 16 == 0 && running->holds(reinterpret_cast<uintptr_t>(&local));
    std::string text = std::to_string(0.1) + std::to_string(local[0]);  // library code with aligned moves
    aligned &= text == "0.1000001";
    return nullptr;
  };
  resume(pool.take());
  expect(aligned, "alignment");
}

void an_exception_is_kept() {
  FiberPool pool(run, stack_bytes);
  work = [&]() -> Fiber* {
    running->yield();
    throw std::runtime_error("thrown on a fiber");
  };
  Fiber& fiber = pool.take();
  resume(fiber);
  expect(fiber.error == nullptr, "no exception yet");
  resume(fiber);
  std::string text;
  try {
    if (fiber.error) std::rethrow_exception(fiber.error);
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  expect(fiber.ended && text == "thrown on a fiber", "the exception's text");
}

void who_leaves_begins_anew() {
  FiberPool pool(run, stack_bytes);
  int begun = 0, gone_on = 0;
  work = [&]() -> Fiber* {
    if (++begun == 1) {
      running->leave();
      ++gone_on;
    }
    return nullptr;
  };
  Fiber& fiber = pool.take();
  resume(fiber);
  expect(!fiber.ended, "it has left, not ended");
  resume(fiber);
  expect(fiber.ended && begun == 2 && gone_on == 0, "it begins anew");
  pool.reclaim();
}

void there_may_be_more_stacks_than_the_process_may_have_mappings() {
  FiberPool pool(run, stack_bytes);
  constexpr int count = 70000;
  int ended = 0;
  work = [&]() -> Fiber* {
    ++ended;
    return nullptr;
  };
  for (int i = 0; i < count; ++i) resume(pool.take());
  expect(ended == count, "as many stacks as a cooperative grid has threads");
}

void fibers_pass_to_each_other() {
  FiberPool pool(run, stack_bytes);
  std::string order;
  std::vector<Fiber*> ring;
  size_t at = 0;
  work = [&]() -> Fiber* {
    for (int round = 0; round < 2; ++round) {
      order += static_cast<char>('a' + at);
      Fiber& self = *ring[at];
      at = (at + 1) % ring.size();
      self.pass_to(*ring[at]);
    }
    order += static_cast<char>('A' + at);
    return ++at < ring.size() ? ring[at] : nullptr;
  };
  for (int i = 0; i < 3; ++i) ring.push_back(&pool.take());
  resume(*ring[0]);
  expect(order == "abcabcABC", order.c_str());
}

void a_guard_lies_below_each_stack() {
  FiberPool pool(run, stack_bytes);
  Fiber& fiber = pool.take();
  expect(fiber.guard_holds(fiber.begin() - 1) && fiber.guard_holds(fiber.begin() - Fiber::guard_bytes), "its guard");
  expect(!fiber.guard_holds(fiber.begin()) && !fiber.guard_holds(fiber.begin() - Fiber::guard_bytes - 1), "no more");
}

}  // namespace

int main() {
  values_survive_a_switch();
  a_stack_is_aligned_as_the_processor_needs();
  an_exception_is_kept();
  who_leaves_begins_anew();
  there_may_be_more_stacks_than_the_process_may_have_mappings();
  fibers_pass_to_each_other();
  a_guard_lies_below_each_stack();
  return failures == 0 ? 0 : 1;
}
