// The place of a block of GPU memory in the memory that is mapped for it: arithmetic only, no driver calls.
//
//     end mode      no access | canary · block · (< 16 bytes) | no access
//     start mode    no access | block · canary                | no access
//
// The driver maps whole granules, 2 MiB on current GPUs.
#pragma once

#include <stddef.h>

#include <algorithm>

#include "guard_report.h"

namespace trifold::guard {

// The alignment for vector loads. Memory from torch's own allocator has more; kernels that need it say so, and those
// that load 16 bytes at once from fresh memory are right.
inline constexpr size_t device_alignment = 16;
// Damage is looked for up to this far from a block, on either side; the other placement finds writes farther away.
inline constexpr size_t canary_bytes = size_t{64} << 10;

// Bytes to map for a block.
inline constexpr size_t slot_size(size_t size, size_t granule) {
  return round_up(size, granule);
}

// Where a block begins in its slot.
inline constexpr size_t block_offset(size_t size, size_t slot, Mode mode) {
  return mode == end_mode ? slot - round_up(size, device_alignment) : 0;
}

// Bytes of a slot, from `begin` to `end`.
struct Part {
  size_t begin, end;
  size_t size() const { return end - begin; }
};

inline constexpr Part canary_before(size_t offset) {
  return {offset - std::min(offset, canary_bytes), offset};
}

inline constexpr Part canary_after(size_t offset, size_t size, size_t slot) {
  return {offset + size, std::min(slot, offset + size + canary_bytes)};
}

}  // namespace trifold::guard
