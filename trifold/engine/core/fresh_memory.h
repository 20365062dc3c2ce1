// Memory that was allocated and not written: which of its bytes are still unwritten.
//
// Shadow memory sees kernels' writes. Writes by others (torch, host code) are found by comparing with the pattern that
// the memory was filled with. An element that still holds the pattern is unwritten. An element written with just that
// number is also taken for unwritten: one in 2^32 of arbitrary elements of four bytes, none of wider ones. For narrower
// elements this would be frequent; so up to three bytes between written ones count as written too.
//
// The pattern is a quiet NaN in each floating type, differs from place to place, and has no byte that is 0, 1 or 255.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "shadow.h"

namespace trifold::engine {

class FreshMemory {
 public:
  // These bytes were allocated and are unwritten. Fills them. Discards what was recorded of them before.
  void add(uintptr_t begin, size_t size, size_t element_bytes);
  // The unwritten parts of [begin, end). All of these bytes must be accessible.
  std::vector<ByteRange> unwritten(uintptr_t begin, uintptr_t end);
  // A launch with this shadow has ended: the bytes that it wrote are written.
  void note_launch(const Buffer& buffer);
  void forget_all() { memory_.clear(); }

 private:
  struct Memory {
    uintptr_t end;
    size_t element_bytes;
    std::vector<ByteRange> left;  // unwritten as far as known, in the order of their addresses
  };
  // Replaces each part of `left` within [begin, end) by the result of `parts(its begin, memory, part)`.
  template <typename Parts>
  void replace(uintptr_t begin, uintptr_t end, Parts&& parts);

  std::map<uintptr_t, Memory> memory_;  // by their beginnings
};

}  // namespace trifold::engine
