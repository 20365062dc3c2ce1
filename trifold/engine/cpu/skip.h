// Skipped accesses: accesses that compiled code makes and that must have no effect, in a launch that continues after
// them.
//
// The compiler's instrumentation calls the engine before an access, and the engine cannot suppress the access. So the
// bytes hold poison while it is made: a read gets the poison, and a write is lost, because the previous bytes are
// restored when the engine is called next. If the bytes cannot be written, the thread ends at its access.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trifold::cpu {

// Poison is NaN in each floating-point type, and negative in each signed integer type, so that a loop to such a bound
// ends at once.
void fill_with_poison(void* bytes, size_t n);

// The running thread is about to access these bytes, which is skipped.
[[gnu::cold]] void skip_access(uintptr_t address, size_t n);
// Its next access of any of these bytes is to be skipped.
[[gnu::cold]] void skip_next_access_of(uintptr_t begin, uintptr_t end);

// Whether one of the two is pending. Checked launches run one at a time.
extern bool skipping;
// Called at the running thread's next access: whether it is to be skipped. n 0: the thread does something else.
[[gnu::cold]] bool skips_next(uintptr_t address, size_t n);
// Whether bytes from this address on are being skipped.
bool skips(uintptr_t address);
// The thread waits, or has ended.
[[gnu::cold]] void end_skipping();

}  // namespace trifold::cpu
