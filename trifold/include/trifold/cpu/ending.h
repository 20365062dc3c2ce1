// Functions by which a kernel ends its launch: a failed assertion, a trap.
#pragma once

#include <trifold/cpu.h>

#include <cassert>

// The launch fails, with an error that names the line; the process continues.
[[noreturn]] inline void __trap(trifold::cpu::Line line = {}) {
  trifold::cpu::stop_launch("a trap", line);
}
// A breakpoint, which without a debugger is an error on a GPU as well.
[[noreturn]] inline void __brkpt(trifold::cpu::Line line = {}) {
  trifold::cpu::stop_launch("a breakpoint", line);
}

#ifdef __GLIBC__
// assert() calls this function of the port, so that an assertion that fails in a kernel does not end the process.
// gnu::noreturn as in the declaration in <assert.h>: clangd takes [[noreturn]] for a different declaration.
extern "C" [[gnu::noreturn, gnu::weak, gnu::visibility("hidden")]] void __assert_fail(const char* expression,
                                                                                      const char* file, unsigned line,
                                                                                      const char* function) noexcept {
  trifold::cpu::fail_assertion(expression, file, line, function);
}
#endif
