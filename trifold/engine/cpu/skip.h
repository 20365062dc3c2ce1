// Accesses that do not happen although compiled code makes them, in a launch that goes on after them.
//
// The compiler's instrumentation calls the engine before an access, and does not let it leave the access out. So the
// bytes hold poison while it is made: a read gets that, and what a write leaves is lost, because what they held before
// comes back when the engine is next called. Where they cannot be written, the thread ends at its access.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trifold::host {

// NaN in each floating-point type, and negative in each signed integer type, so that a loop to such a bound ends at
// once.
void fill_with_poison(void* bytes, size_t n);

// The running thread is about to access these bytes.
[[gnu::cold]] void skip_access(uintptr_t address, size_t n);
// It is going to, with its next access of any of them.
[[gnu::cold]] void skip_next_access_of(uintptr_t begin, uintptr_t end);

// One of the two holds. Checked launches run one at a time.
extern bool skipping;
// The running thread comes to its next access; whether that is to be skipped. n 0: it does something else.
[[gnu::cold]] bool skips_next(uintptr_t address, size_t n);
// Whether bytes from this address on are skipped now.
bool skips(uintptr_t address);
// It waits, or has ended.
[[gnu::cold]] void end_skipping();

}  // namespace trifold::host
