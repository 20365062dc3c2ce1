// Ends a launch that takes too long, and lets other threads run while one polls memory by a loop that does not call the
// engine.
//
// A thread of the process looks at the launches every few milliseconds. It sends a signal to the OS thread of a launch
// that has run during two looks, so that short launches, and threads that launch nothing, are never interrupted. (A
// timer of the process would interrupt Python's and torch's system calls.) The OS thread's processor time is measured,
// so that a debugger or a busy machine ends no launch, and a stop in a debugger does not change which thread runs next.
// The signal is SIGURG, which is ignored by default and which debuggers pass on silently. Its handler acts only while
// the launch's own code runs, and not a function that it called (which may hold a lock); such a call ends, or calls the
// engine, which looks at `overdue`.
#pragma once

#include <trifold/cpu.h>

#include <cstdint>

namespace trifold::cpu {

// Looks since this OS thread's launch exceeded its time.
extern constinit thread_local volatile uint32_t overdue [[gnu::tls_model("initial-exec")]];

// While the object exists, this OS thread runs a launch of the kernel.
class Watched {
 public:
  explicit Watched(const Kernel& kernel);
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched();
};

}  // namespace trifold::cpu
