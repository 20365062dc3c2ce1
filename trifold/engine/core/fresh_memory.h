// Memory that was allocated and not written: which of its bytes nobody has written since.
//
// Kernels' writes are seen by shadow memory. What others write (torch, the host's own code) is found by comparing with
// the pattern that the memory was filled with. An element that holds the pattern still is unwritten; so is not one that
// was written with the very number that the pattern has there: one in 2^32 of arbitrary elements of four bytes, none of
// wider ones. Of narrower elements a few would be; so up to three bytes between others that were written count as
// written too.
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
  // These bytes were allocated: nobody has written them. Fills them. What was known of them before is forgotten.
  void add(uintptr_t begin, size_t size, size_t element_bytes);
  // The parts of [begin, end) that nobody has written. All of these bytes must be there.
  std::vector<ByteRange> unwritten(uintptr_t begin, uintptr_t end);
  // A launch with this shadow has ended: what it wrote is written.
  void note_launch(const Buffer& buffer);
  void forget_all() { memory_.clear(); }

 private:
  struct Memory {
    uintptr_t end;
    size_t element_bytes;
    std::vector<ByteRange> left;  // that nobody is known to have written, in the order of their addresses
  };
  // Replaces each part of `left` within [begin, end) by those that `parts(its begin, memory, part)` makes of it.
  template <typename Parts>
  void replace(uintptr_t begin, uintptr_t end, Parts&& parts);

  std::map<uintptr_t, Memory> memory_;  // by where it begins
};

}  // namespace trifold::engine
