// Copies that the threads of a cooperative group start together. (CUDA C++ Programming Guide, "memcpy_async".)
#pragma once

#include <trifold/cpu/cuda_copies.h>
#include <trifold/cpu/groups.h>
#include <trifold/cpu/pipelines.h>

#include <cstddef>

namespace cooperative_groups {

template <class Group>
void memcpy_async(const Group& group, void* to, const void* from, size_t bytes, Line line = {}) {
  cuda::details::start_copies(group, to, from, bytes, line);
  __pipeline_commit(line);
}
// For elements: as many as exist and as fit.
template <class Group, class T, class U>
void memcpy_async(const Group& group, T* to, size_t room, const U* from, size_t count, Line line = {}) {
  memcpy_async(group, to, from, min(room * sizeof(T), count * sizeof(U)), line);
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
