// Reductions and scans over the members of a tile or a coalesced group.
#pragma once

#include <trifold/cpu/tiles.h>

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

namespace details {

template <class Group>
concept has_warps = requires { Group::is_first_warp(); };

inline thread_block_tile<32> own_warp() {
  return {thread_rank_in_block(), threads_of_block()};
}

// Combines the value with what an atomic holds; returns what it held.
template <class Atomic, class T, class F>
T update(Atomic& atomic, T value, F operation) {
  T old = atomic.load(::std::memory_order_relaxed);
  while (!atomic.compare_exchange_weak(old, operation(old, value), ::std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace details

template <class Group, class T, class F>
T reduce(const Group& group, T value, F operation, Line line = {}) {
  if constexpr (details::has_warps<Group>)
    return group.reduced(value, operation, line);
  else
    return trifold::cpu::reduce(group.mask(), value, operation, line);
}

// One member stores the result in an atomic: combined with its value, or replacing it.
template <class Group, class Atomic, class T, class F>
void reduce_update_async(const Group& group, Atomic& atomic, T value, F operation, Line line = {}) {
  const T sum = reduce(group, value, operation, line);
  if (group.thread_rank() == 0) details::update(atomic, sum, operation);
}
template <class Group, class Atomic, class T, class F>
void reduce_store_async(const Group& group, Atomic& atomic, T value, F operation, Line line = {}) {
  const T sum = reduce(group, value, operation, line);
  if (group.thread_rank() == 0) atomic.store(sum, ::std::memory_order_relaxed);
}

// An inclusive scan.
template <class Group, class T, class F>
T inclusive_scan(const Group& group, T value, F operation, Line line = {}) {
  if constexpr (details::has_warps<Group>) {
    const T own = inclusive_scan(details::own_warp(), value, operation, line);
    const T before = group.of_warps_before(own, operation, line);
    return group.is_first_warp() ? own : static_cast<T>(operation(before, own));
  } else {
    const unsigned rank = group.thread_rank();
    for (unsigned step = 1; step < group.size(); step *= 2) {
      const T before = group.shfl_up(value, step, line);
      if (rank >= step) value = operation(before, value);
    }
    return value;
  }
}
template <class Group, class T>
T inclusive_scan(const Group& group, T value, Line line = {}) {
  return inclusive_scan(group, value, plus<T>(), line);
}
// An exclusive scan; T() for the first member.
template <class Group, class T, class F>
T exclusive_scan(const Group& group, T value, F operation, Line line = {}) {
  if constexpr (details::has_warps<Group>) {
    const auto warp = details::own_warp();
    const T own = inclusive_scan(warp, value, operation, line);
    const T before = group.of_warps_before(own, operation, line), below = warp.shfl_up(own, 1, line);
    if (group.is_first_warp()) return warp.thread_rank() == 0 ? T() : below;
    return warp.thread_rank() == 0 ? before : static_cast<T>(operation(before, below));
  } else {
    const T before = group.shfl_up(inclusive_scan(group, value, operation, line), 1, line);
    return group.thread_rank() == 0 ? T() : before;
  }
}
template <class Group, class T>
T exclusive_scan(const Group& group, T value, Line line = {}) {
  return exclusive_scan(group, value, plus<T>(), line);
}

// The same scans, continued from what an atomic holds; one member adds the group's values to it.
template <class Group, class Atomic, class T, class F>
T inclusive_scan_update(const Group& group, Atomic& atomic, T value, F operation, Line line = {}) {
  const unsigned last = group.size() - 1;
  const T own = inclusive_scan(group, value, operation, line);
  const T old = group.shfl(group.thread_rank() == last ? details::update(atomic, own, operation) : T(), last, line);
  return operation(old, own);
}
template <class Group, class Atomic, class T>
T inclusive_scan_update(const Group& group, Atomic& atomic, T value, Line line = {}) {
  return inclusive_scan_update(group, atomic, value, plus<T>(), line);
}
template <class Group, class Atomic, class T, class F>
T exclusive_scan_update(const Group& group, Atomic& atomic, T value, F operation, Line line = {}) {
  const unsigned last = group.size() - 1;
  const T before = exclusive_scan(group, value, operation, line);
  const bool first = group.thread_rank() == 0;
  const T own = first ? value : static_cast<T>(operation(before, value));
  const T old = group.shfl(group.thread_rank() == last ? details::update(atomic, own, operation) : T(), last, line);
  return first ? old : static_cast<T>(operation(old, before));
}
template <class Group, class Atomic, class T>
T exclusive_scan_update(const Group& group, Atomic& atomic, T value, Line line = {}) {
  return exclusive_scan_update(group, atomic, value, plus<T>(), line);
}

}  // namespace cooperative_groups
