// Stacks on which CUDA threads wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

// Switching stacks is a few instructions of assembly on x86-64; elsewhere, or where the build asks for it
// (TRIFOLD_UCONTEXT), it is the C library's, which also enters the kernel and takes twenty times as long.
#if defined(__x86_64__) && !defined(TRIFOLD_UCONTEXT)
#define TRIFOLD_FIBER_ASSEMBLY 1
#else
#define TRIFOLD_FIBER_ASSEMBLY 0
#include <ucontext.h>
#endif

namespace trifold::host {

// Where a stack's code goes on.
#if TRIFOLD_FIBER_ASSEMBLY
using Context = void*;  // the stack pointer; the registers lie there
#else
using Context = ucontext_t;
#endif

// What runs on a stack of its own. resume() goes there; yield(), called there, comes back to who last called resume().
class Fiber {
 public:
  // Returns the fiber that goes on afterwards; null: who resumed this one does.
  using Body = Fiber* (*)();

  Fiber(char* stack, size_t bytes, Body body, Context& home);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();
  void yield();
  // From this fiber, which runs, to another one, without going home. All that do so from one line of code to each other
  // keep the processor's predictions of returns right.
  void pass_to(Fiber& next);
  // Forgets what runs on the stack (objects there are not destroyed): the body begins anew.
  void restart();
  // yield() for the last time: the body does not go on, but begins anew.
  [[noreturn]] void leave();

  bool holds(uintptr_t address) const { return address - stack_ < bytes_; }
  // Inaccessible memory below the stack: who recurses too deep comes there.
  bool guard_holds(uintptr_t address) const { return stack_ - 1 - address < guard_bytes; }
  uintptr_t begin() const { return stack_; }
  uintptr_t end() const { return stack_ + bytes_; }

  static constexpr size_t guard_bytes = 64 << 10;  // a whole page on all machines; only addresses, no memory

  bool ended = false;        // the thread that ran on it has exited
  bool ahead = false;        // its thread has run before the core asked for it
  std::exception_ptr error;  // what the kernel threw

 private:
  [[noreturn]] static void enter();

  Context here_{};  // while it does not run
  Context& home_;   // where resume() was called
  uintptr_t stack_;
  size_t bytes_;
  Body body_;
  static constinit thread_local Fiber* entering_ [[gnu::tls_model("initial-exec")]];
};

// The fibers of an OS thread. Their number grows to the most that were needed at a time.
class FiberPool {
 public:
  FiberPool(Fiber::Body body, size_t stack_bytes) : body_(body), stack_bytes_(stack_bytes) {}
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;
  ~FiberPool();

  Fiber& take();
  void give(Fiber& fiber) { free_.push_back(&fiber); }
  // Takes back all fibers, whatever they run.
  void reclaim();

 private:
  void grow();

  Fiber::Body body_;
  size_t stack_bytes_;
  Context home_{};
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  std::vector<char*> maps_;
};

}  // namespace trifold::host
