// A CUDA thread that recurses off its stack, or has a frame that does not fit it, ends its launch with a message.
//
// It touches the guard below its stack. The handler of SIGSEGV runs on a stack of its own, knows the guard of the fiber
// that runs, and leaves the fiber for good; every other fault goes to the handler that was there before (Python's
// faulthandler, trifold's guard of tensors), and to the default where there was none.
#pragma once

#include <memory>

namespace trifold::host {

// A stack for this OS thread's signals, where it has none.
class SignalStack {
 public:
  SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack();

 private:
  std::unique_ptr<char[]> memory_;
};

// Takes SIGSEGV, the first time that it is called.
void watch_stacks();

}  // namespace trifold::host
