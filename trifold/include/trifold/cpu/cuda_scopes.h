// libcu++'s scopes of threads, and the scopes of its atomics and fences for the checks.
#pragma once

#include <trifold/cpu.h>

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

namespace details {

// Thread scope is treated as block scope.
inline constexpr trifold::cpu::Scope scopes[] = {trifold::cpu::Scope::system, trifold::cpu::Scope::device,
                                                 trifold::cpu::Scope::block, trifold::cpu::Scope::block};

}  // namespace details

}  // namespace cuda
