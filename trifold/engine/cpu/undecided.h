// Accesses of which only the running thread's next step tells whether they are right (core/checker.h). Called before
// that step, or before its finding, where Thread::undecided is not 0. What was wrong ends the launch, unless that goes
// on after findings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "../core/checker.h"

namespace trifold::host {

// Checker::write() has left a violation among writes: the write is about to happen.
[[gnu::cold]] void decide_after_write(uintptr_t address, size_t n, engine::Site site);
// It has not happened yet: it is what a function that the compiler calls is about to do.
bool is_undecided_write(const void* address, size_t n);

// compare: of a compare-and-swap, the bits that it compares memory with.
[[gnu::cold]] void decide_before_access(engine::Thread& thread, uintptr_t address, size_t n,
                                        std::optional<uint64_t> compare = {});
// The thread's access races with one of this other thread.
[[gnu::cold]] void decide_before_race(engine::Thread& thread, uint32_t other);
[[gnu::cold]] void decide_before_wait(engine::Thread& thread);  // its request says for what
[[gnu::cold]] void decide_before_end(engine::Thread& thread);

}  // namespace trifold::host
