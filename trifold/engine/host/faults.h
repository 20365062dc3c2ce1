// Accesses of memory that end a launch: each becomes a finding of the thread that runs, whose access does not happen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "../core/checker.h"
#include "memory.h"

namespace trifold::host {

// No region has these bytes.
[[noreturn, gnu::cold]] void out_of_bounds(uintptr_t address, size_t n, engine::AccessType type, engine::Site site);
[[noreturn, gnu::cold]] void misaligned(const Region& region, uintptr_t address, size_t n, engine::AccessType type,
                                        engine::Site site);
// Memory is loaded or stored as a type that may not begin at this address. Returns where the access itself, which
// follows, is found outside all regions.
void misaligned_type(std::string_view type, uintptr_t address, size_t alignment, engine::AccessType access,
                     engine::Site site);
// A kernel writes constant memory.
[[noreturn, gnu::cold]] void constant_written(const Region& region, uintptr_t address, size_t n,
                                              engine::AccessType type, engine::Site site);
// Checker::awaited() has left its violation: a warning, and the thread goes on.
[[gnu::cold]] void not_awaited(const Region& region, size_t n, engine::Site site);
// Checker::compare_write() has left its violation, of writes of the same bits: a warning, and the thread goes on.
[[gnu::cold]] void wrote_same_bits(const Region& region, size_t n, engine::Site site);
// The checker has left its violation.
[[noreturn, gnu::cold]] void violated(const Region& region, size_t n, engine::Site site);

// An index outside the extent that an array is declared with; what lies there may well be memory of the kernel's: the
// next row, the struct's next member, another variable on the stack.
struct DeclaredIndex {
  const char* file;
  int line, column;  // of a bracket around the index
  int64_t index, extent;
};
// Returns where the access itself, which follows, is found outside all regions.
void outside_declared_bounds(const DeclaredIndex& at, engine::Site site);

}  // namespace trifold::host
