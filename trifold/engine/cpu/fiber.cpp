#include "fiber.h"

#include <sys/mman.h>

#include <atomic>
#include <new>

namespace trifold::cpu {
namespace {

constexpr size_t stacks_in_map = 32;

// A guard divides a mapping, and Linux gives a process 65,530 of them (vm.max_map_count): after so many stacks of the
// process, the others have no guards.
constexpr size_t most_guards = 16 << 10;
std::atomic<size_t> guards{0};

}  // namespace

constinit thread_local Fiber* Fiber::entering_ = nullptr;

#if TRIFOLD_FIBER_ASSEMBLY

// Saves the callee-saved registers (System V ABI, x86-64, 3.2.1) and the stack pointer, and continues on the other
// stack.
extern "C" void trifold_cpu_switch(void** save, void* to);
asm(R"(.text
.globl trifold_cpu_switch
.hidden trifold_cpu_switch
.type trifold_cpu_switch,@function
trifold_cpu_switch:
  .cfi_startproc
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .cfi_endproc
.size trifold_cpu_switch,.-trifold_cpu_switch
)");

namespace {

void switch_contexts(Context& save, Context& to) {
  trifold_cpu_switch(&save, to);
}

}  // namespace

void Fiber::restart() {
  // Stacks at equal distances would share a few sets of the cache: each begins a little lower than the previous one.
  const size_t colour = stack_ / bytes_ % 21 * 192;
  auto* top = reinterpret_cast<void**>(stack_ + bytes_ - colour);
  *--top = nullptr;  // the return address of enter(): a debugger's backtrace ends here
  *--top = reinterpret_cast<void*>(&Fiber::enter);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  here_ = top;
}

#else

namespace {

void switch_contexts(Context& save, Context& to) {
  swapcontext(&save, &to);
}

}  // namespace

void Fiber::restart() {
  getcontext(&here_);
  here_.uc_stack.ss_sp = reinterpret_cast<void*>(stack_);
  here_.uc_stack.ss_size = bytes_;
  here_.uc_link = nullptr;
  makecontext(&here_, reinterpret_cast<void (*)()>(&Fiber::enter), 0);
}

#endif

Fiber::Fiber(char* stack, size_t bytes, Body body, Context& home)
    : home_(home), stack_(reinterpret_cast<uintptr_t>(stack)), bytes_(bytes), body_(body) {
  restart();
}

void Fiber::resume() {
  entering_ = this;
  switch_contexts(home_, here_);
}

void Fiber::yield() {
  switch_contexts(here_, home_);
}

void Fiber::pass_to(Fiber& next) {
  entering_ = &next;
  switch_contexts(here_, next.here_);
}

void Fiber::leave() {
  restart();
  Context nowhere;
  switch_contexts(nowhere, home_);
  __builtin_unreachable();
}

// Runs one body after the other, each time that it is resumed after leave().
void Fiber::enter() {
  Fiber& self = *entering_;
  for (;;) {
    Fiber* next = nullptr;
    try {
      next = self.body_();
    } catch (...) {
      self.error = std::current_exception();
    }
    self.ended = true;
    if (next != nullptr) {
      self.pass_to(*next);
    } else {
      self.yield();
    }
  }
}

FiberPool::~FiberPool() {
  for (char* const map : maps_) munmap(map, stacks_in_map * (stack_bytes_ + Fiber::guard_bytes));
  guards -= guards_;
}

Fiber& FiberPool::take() {
  if (free_.empty()) grow();
  Fiber& fiber = *free_.back();
  free_.pop_back();
  fiber.ended = false;
  return fiber;
}

void FiberPool::reclaim() {
  free_.clear();
  for (const auto& fiber : fibers_) {
    fiber->error = nullptr;
    fiber->ahead = false;
    fiber->restart();
    free_.push_back(fiber.get());
  }
}

void FiberPool::grow() {
  const size_t each = stack_bytes_ + Fiber::guard_bytes;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
  void* const memory = mmap(nullptr, stacks_in_map * each, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const map = static_cast<char*>(memory);
  maps_.push_back(map);
  const bool guarded = guards.fetch_add(stacks_in_map) < most_guards;
  if (guarded)
    guards_ += stacks_in_map;
  else
    guards -= stacks_in_map;
  for (size_t i = 0; i < stacks_in_map; ++i) {
    // A thread whose recursion overflows its stack faults in the guard (overflow.h) before it reaches another stack.
    char* const stack = map + i * each + Fiber::guard_bytes;
    if (guarded && mprotect(stack - Fiber::guard_bytes, Fiber::guard_bytes, PROT_NONE) != 0) throw std::bad_alloc();
    free_.push_back(fibers_.emplace_back(std::make_unique<Fiber>(stack, stack_bytes_, body_, home_)).get());
  }
}

}  // namespace trifold::cpu
