// Reductions and scans over the members of a tile or a coalesced group.
#pragma once

#include <trifold/cpu/groups.h>

#include <atomic>

namespace cooperative_groups {

// The names are those of the operations and their symbols: only a macro can define them.
#define TRIFOLD_OPERATION(name, expression)                             \
  template <class T>                                                    \
  struct name {                                                         \
    T operator()(T a, T b) const { return static_cast<T>(expression); } \
  };
TRIFOLD_OPERATION(plus, a + b)
TRIFOLD_OPERATION(less, b < a ? b : a)
TRIFOLD_OPERATION(greater, a < b ? b : a)
TRIFOLD_OPERATION(bit_and, a& b)
TRIFOLD_OPERATION(bit_or, a | b)
TRIFOLD_OPERATION(bit_xor, a ^ b)
#undef TRIFOLD_OPERATION

template <class Group, class T, class F>
T reduce(const Group& group, T value, F operation, Line line = {}) {
  return trifold::host::reduce(group.mask(), value, operation, line);
}

// One member stores the result in an atomic: combined with its value, or replacing it.
template <class Group, class Atomic, class T, class F>
void reduce_update_async(const Group& group, Atomic& atomic, T value, F operation, Line line = {}) {
  const T sum = reduce(group, value, operation, line);
  if (group.thread_rank() != 0) return;
  T old = atomic.load(::std::memory_order_relaxed);
  while (!atomic.compare_exchange_weak(old, operation(old, sum), ::std::memory_order_relaxed)) {
  }
}
template <class Group, class Atomic, class T, class F>
void reduce_store_async(const Group& group, Atomic& atomic, T value, F operation, Line line = {}) {
  const T sum = reduce(group, value, operation, line);
  if (group.thread_rank() == 0) atomic.store(sum, ::std::memory_order_relaxed);
}

// An inclusive scan.
template <class Group, class T, class F>
T inclusive_scan(const Group& group, T value, F operation, Line line = {}) {
  const unsigned rank = group.thread_rank();
  for (unsigned step = 1; step < group.size(); step *= 2) {
    const T before = group.shfl_up(value, step, line);
    if (rank >= step) value = operation(before, value);
  }
  return value;
}
template <class Group, class T>
T inclusive_scan(const Group& group, T value, Line line = {}) {
  return inclusive_scan(group, value, plus<T>(), line);
}
// An exclusive scan; T() for the first member.
template <class Group, class T, class F>
T exclusive_scan(const Group& group, T value, F operation, Line line = {}) {
  const T before = group.shfl_up(inclusive_scan(group, value, operation, line), 1, line);
  return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T>
T exclusive_scan(const Group& group, T value, Line line = {}) {
  return exclusive_scan(group, value, plus<T>(), line);
}

}  // namespace cooperative_groups
