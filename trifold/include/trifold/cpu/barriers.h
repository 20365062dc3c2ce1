// Barriers of a block's threads, and fences.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/qualifiers.h>

namespace trifold::cpu {

__forceinline__ unsigned threads_of_block() {
  return blockDim.x * blockDim.y * blockDim.z;
}

// A barrier by its number, for this many threads, some of which may only arrive; number 0 of the whole block is
// __syncthreads(). Returns the number of true predicates, to threads that wait.
inline unsigned wait_at_numbered_barrier(Wait operation, unsigned number, unsigned threads, bool predicate, Line line) {
  const unsigned all = threads_of_block();
  if (number == 0 && threads == all && operation == Wait::named_barrier)
    return wait_at_barrier(Wait::barrier_count, predicate, line);
  if (number == 0)
    stop_launch("barrier 0, which is that of __syncthreads(), for a part of the block (take one of 1 to 15),", line);
  if (number > 15) stop_launch("a barrier with a number above 15", line);
  if (threads == 0 || (threads % 32 != 0 && threads != all))
    stop_launch("a barrier for a count of threads that is no multiple of 32", line);
  return wait_at_named_barrier(operation, number, threads, predicate, line);
}

}  // namespace trifold::cpu

inline void __barrier_sync(unsigned number, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  wait_at_numbered_barrier(Wait::named_barrier, number, threads_of_block(), false, line);
}
inline void __barrier_sync_count(unsigned number, unsigned threads, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  wait_at_numbered_barrier(Wait::named_barrier, number, threads, false, line);
}

// Launches run one after the other, so only the checks use these.
inline void cudaGridDependencySynchronize() {
  if constexpr (trifold::cpu::checked) trifold::cpu::wait_for_earlier_grid();
}
inline void cudaTriggerProgrammaticLaunchCompletion() {
  if constexpr (trifold::cpu::checked) trifold::cpu::let_next_grid_begin();
}

inline void __syncthreads(trifold::cpu::Line line = {}) {
  trifold::cpu::wait_at_barrier(line);
}
inline int __syncthreads_count(int predicate, trifold::cpu::Line line = {}) {
  return static_cast<int>(trifold::cpu::wait_at_barrier(trifold::cpu::Wait::barrier_count, predicate != 0, line));
}
inline int __syncthreads_and(int predicate, trifold::cpu::Line line = {}) {
  return static_cast<int>(trifold::cpu::wait_at_barrier(trifold::cpu::Wait::barrier_and, predicate != 0, line));
}
inline int __syncthreads_or(int predicate, trifold::cpu::Line line = {}) {
  return static_cast<int>(trifold::cpu::wait_at_barrier(trifold::cpu::Wait::barrier_or, predicate != 0, line));
}

inline void __threadfence() {
  trifold::cpu::fence(trifold::cpu::Scope::device);
}
inline void __threadfence_block() {
  trifold::cpu::fence(trifold::cpu::Scope::block);
}
inline void __threadfence_system() {
  trifold::cpu::fence(trifold::cpu::Scope::system);
}
