// What the threads of a block do together, and fences.
#pragma once

#include <trifold/host.h>

inline void __syncthreads(trifold::host::Line line = {}) {
  trifold::host::wait_at_barrier(line);
}
inline int __syncthreads_count(int predicate, trifold::host::Line line = {}) {
  return static_cast<int>(trifold::host::wait_at_barrier(trifold::host::Wait::barrier_count, predicate != 0, line));
}
inline int __syncthreads_and(int predicate, trifold::host::Line line = {}) {
  return static_cast<int>(trifold::host::wait_at_barrier(trifold::host::Wait::barrier_and, predicate != 0, line));
}
inline int __syncthreads_or(int predicate, trifold::host::Line line = {}) {
  return static_cast<int>(trifold::host::wait_at_barrier(trifold::host::Wait::barrier_or, predicate != 0, line));
}

inline void __threadfence() {
  trifold::host::fence(trifold::host::Scope::device);
}
inline void __threadfence_block() {
  trifold::host::fence(trifold::host::Scope::block);
}
inline void __threadfence_system() {
  trifold::host::fence(trifold::host::Scope::system);
}
