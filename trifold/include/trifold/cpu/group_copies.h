// Copies that the threads of a cooperative group start together. (CUDA C++ Programming Guide, "memcpy_async".)
#pragma once

#include <trifold/cpu/groups.h>
#include <trifold/cpu/pipelines.h>

#include <cstdint>

namespace cooperative_groups {

// Each member copies pieces as wide as the addresses allow; less than 4 bytes wide, they are copied at once.
template <class Group>
void memcpy_async(const Group& group, void* to, const void* from, size_t bytes, Line line = {}) {
  const auto odd = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  const size_t piece = odd % 16 == 0 ? 16 : odd % 8 == 0 ? 8 : odd % 4 == 0 ? 4 : 1;
  for (size_t at = group.thread_rank() * piece; at < bytes; at += group.size() * piece) {
    if (piece == 1)
      static_cast<char*>(to)[at] = static_cast<const char*>(from)[at];
    else
      __pipeline_memcpy_async(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, piece, 0, line);
  }
  __pipeline_commit(line);
}

// All members wait, for all of their copies but the last ones.
template <unsigned Count, class Group>
void wait_prior(const Group& group, Line line = {}) {
  __pipeline_wait_prior(Count, line);
  group.sync(line);
}
template <class Group>
void wait(const Group& group, Line line = {}) {
  wait_prior<0>(group, line);
}

}  // namespace cooperative_groups
