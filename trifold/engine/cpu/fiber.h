// Fibers: the stacks on which CUDA threads wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

// On x86-64, switching stacks is a few instructions of assembly. Elsewhere, or if the build requests it
// (TRIFOLD_UCONTEXT), it is the C library's, which enters the kernel and takes twenty times as long.
#if defined(__x86_64__) && !defined(TRIFOLD_UCONTEXT)
#define TRIFOLD_FIBER_ASSEMBLY 1
#else
#define TRIFOLD_FIBER_ASSEMBLY 0
#include <ucontext.h>
#endif

namespace trifold::cpu {

// Where a stack's code continues.
#if TRIFOLD_FIBER_ASSEMBLY
using Context = void*;  // the stack pointer; the registers are saved there
#else
using Context = ucontext_t;
#endif

// Code that runs on its own stack. resume() continues it; yield(), called on it, returns to the last caller of
// resume().
class Fiber {
 public:
  // Returns the fiber that continues afterwards; null: the caller of resume().
  using Body = Fiber* (*)();

  Fiber(char* stack, size_t bytes, Body body, Context& home);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();
  void yield();
  // Switches from this running fiber directly to another one, without returning to the caller of resume(). If all
  // fibers do so at one line of code, the processor predicts returns correctly.
  void pass_to(Fiber& next);
  // Discards what runs on the stack, without destroying its objects: the body begins again.
  void restart();
  // A last yield(): the body does not continue, but begins again.
  [[noreturn]] void leave();

  bool holds(uintptr_t address) const { return address - stack_ < bytes_; }
  // Memory below the stack, which an overflow of the stack reaches first: inaccessible, below the first 16,384 stacks.
  bool guard_holds(uintptr_t address) const { return stack_ - 1 - address < guard_bytes; }
  uintptr_t begin() const { return stack_; }
  uintptr_t end() const { return stack_ + bytes_; }

  // a multiple of the page size on all machines; addresses without memory
  static constexpr size_t guard_bytes = 64 << 10;

  bool ended = false;        // the thread that ran on it has exited
  bool ahead = false;        // its thread has run before the core resumed it
  std::exception_ptr error;  // what the kernel threw

 private:
  [[noreturn]] static void enter();

  Context here_{};  // where it continues
  Context& home_;   // where resume() was called
  uintptr_t stack_;
  size_t bytes_;
  Body body_;
  static constinit thread_local Fiber* entering_ [[gnu::tls_model("initial-exec")]];
};

// The fibers of an OS thread. Their number grows to the largest number in use at a time.
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
  size_t guards_ = 0;  // inaccessible ones
};

}  // namespace trifold::cpu
