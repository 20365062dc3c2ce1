// libcu++'s scopes of threads, and what its atomics and fences of a scope are for the checks.
#pragma once

#include <trifold/cpu.h>

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

namespace details {

// A thread's own is seen by its block as a block's.
inline constexpr trifold::host::Scope scopes[] = {trifold::host::Scope::system, trifold::host::Scope::device,
                                                  trifold::host::Scope::block, trifold::host::Scope::block};

}  // namespace details

}  // namespace cuda
