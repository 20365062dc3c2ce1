// A CUDA thread that overflows its stack ends its launch with a message.
//
// It touches the guard below its stack. The handler of SIGSEGV runs on its own stack, recognises the guard of the
// running fiber, and leaves the fiber for good. Any other fault is passed to the previous handler (Python's
// faulthandler, trifold's guard of tensors), or to the default.
#pragma once

#include <memory>

namespace trifold::cpu {

// A stack for this OS thread's signals, if it has none.
class SignalStack {
 public:
  SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack();

 private:
  std::unique_ptr<char[]> memory_;
};

// Installs the handler of SIGSEGV, at the first call.
void watch_stacks();

}  // namespace trifold::cpu
