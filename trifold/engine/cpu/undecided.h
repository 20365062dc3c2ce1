// Accesses whose correctness depends on the running thread's next step (core/checker.h). These functions are called
// before that step, or before its finding, if Thread::undecided is not 0. A wrong access ends the launch, unless that
// continues after findings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "../core/checker.h"

namespace trifold::cpu {

// Checker::write() recorded a violation among writes: the write is about to happen.
[[gnu::cold]] void decide_after_write(uintptr_t address, size_t n, engine::Site site);
// The write has not happened yet: a function that the compiler calls is about to do it.
bool is_undecided_write(const void* address, size_t n);

// compare: for a compare-and-swap, the bits that memory is compared with.
[[gnu::cold]] void decide_before_access(engine::Thread& thread, uintptr_t address, size_t n,
                                        std::optional<uint64_t> compare = {});
// The thread's access races with one of this other thread.
[[gnu::cold]] void decide_before_race(engine::Thread& thread, uint32_t other);
[[gnu::cold]] void decide_before_wait(engine::Thread& thread);  // its request says for what
[[gnu::cold]] void decide_before_end(engine::Thread& thread);

}  // namespace trifold::cpu
