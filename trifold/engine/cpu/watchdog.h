// Ends a launch that takes too long, and lets other threads run where one polls memory in a way that calls nothing of
// ours.
//
// One thread of the process looks at the launches every few milliseconds. It sends a signal to the OS thread of one
// that has run through two looks, so that short launches, and threads that launch nothing, are never disturbed: a timer
// of the process would interrupt Python's and torch's system calls. What counts is the OS thread's processor time, so
// that a debugger or a busy machine ends no launch, and a stop in a debugger does not change which thread runs next.
// The signal is SIGURG: its default is to be ignored, and debuggers pass it on in silence. Its handler acts only where
// the launch's own code runs, not in a function that it called (which may hold a lock); such a call ends, or comes to
// one of ours, which looks at `overdue`.
#pragma once

#include <trifold/cpu.h>

#include <cstdint>

namespace trifold::host {

// Looks since the time of this OS thread's launch was up.
extern constinit thread_local volatile uint32_t overdue [[gnu::tls_model("initial-exec")]];

// This OS thread runs a launch of the kernel, for as long as the object lives.
class Watched {
 public:
  explicit Watched(const Kernel& kernel);
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched();
};

}  // namespace trifold::host
