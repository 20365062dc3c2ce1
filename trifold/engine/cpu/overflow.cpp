#include "overflow.h"

#include <errno.h>
#include <signal.h>

#include "front.h"
#include "interrupted.h"

namespace trifold::cpu {
namespace {

constexpr size_t signal_stack_bytes = 64 << 10;

struct sigaction previous_action;

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    sigaction(signal, &previous_action, nullptr);
    if (info->si_code <= 0) raise(signal);  // sent by a process; a fault repeats by itself on return
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  Turn* const now = turn;
  const Fiber* const fiber = now == nullptr ? nullptr : now->running();
  if (info->si_code > 0 && fiber != nullptr && fiber->guard_holds(reinterpret_cast<uintptr_t>(info->si_addr)))
    now->leave_full_stack(interrupted(context));
  const int saved_errno = errno;
  pass_on(signal, info, context);
  errno = saved_errno;
}

}  // namespace

SignalStack::SignalStack() {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  memory_ = std::make_unique<char[]>(signal_stack_bytes);
  stack = {};
  stack.ss_sp = memory_.get();
  stack.ss_size = signal_stack_bytes;
  sigaltstack(&stack, nullptr);
}

SignalStack::~SignalStack() {
  stack_t stack{};
  if (memory_ == nullptr || sigaltstack(nullptr, &stack) != 0 || stack.ss_sp != memory_.get()) return;
  stack = {};
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
}

void watch_stacks() {
  static const bool taken = [] {
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    // The handler does not return if it leaves a fiber, and the signal must not stay blocked.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    return sigaction(SIGSEGV, &action, &previous_action) == 0;
  }();
  static_cast<void>(taken);
}

}  // namespace trifold::cpu
