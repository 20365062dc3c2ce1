// How a kernel ends its launch: a failed assertion, a trap.
#pragma once

#include <trifold/cpu.h>

#include <cassert>

// The launch fails, with an error that names the line; the process goes on.
[[noreturn]] inline void __trap(trifold::host::Line line = {}) {
  trifold::host::stop_launch("a trap", line);
}
// A breakpoint, which without a debugger is an error on a GPU as well.
[[noreturn]] inline void __brkpt(trifold::host::Line line = {}) {
  trifold::host::stop_launch("a breakpoint", line);
}

#ifdef __GLIBC__
// What assert() calls: the port's own, so that an assertion that fails in a kernel does not end the process.
// gnu::noreturn as in <assert.h>, which has declared it: clangd takes [[noreturn]] for a declaration that differs.
extern "C" [[gnu::noreturn, gnu::weak, gnu::visibility("hidden")]] void __assert_fail(const char* expression,
                                                                                      const char* file, unsigned line,
                                                                                      const char* function) noexcept {
  trifold::host::fail_assertion(expression, file, line, function);
}
#endif
