// cuda::latch and cuda::counting_semaphore (libcu++): counters in memory, which waiting threads poll.
#pragma once

#include <trifold/cpu/cuda_atomic.h>

#include <climits>
#include <cstddef>

namespace cuda {

template <thread_scope scope>
class latch {
 public:
  explicit constexpr latch(ptrdiff_t expected) : left_(expected) {}
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;

  static constexpr ptrdiff_t(max)() { return PTRDIFF_MAX; }

  __forceinline__ void count_down(ptrdiff_t by = 1) { left().fetch_sub(by, memory_order_release); }
  __forceinline__ bool try_wait() const { return left().load(memory_order_acquire) == 0; }
  __forceinline__ void wait() const {
    while (!try_wait()) {
    }
  }
  __forceinline__ void arrive_and_wait(ptrdiff_t by = 1) {
    count_down(by);
    wait();
  }

 private:
  atomic_ref<ptrdiff_t, scope> left() const { return atomic_ref<ptrdiff_t, scope>(left_); }

  mutable ptrdiff_t left_;
};

template <thread_scope scope, ptrdiff_t most = INT_MAX>
class counting_semaphore {
 public:
  constexpr counting_semaphore(ptrdiff_t count = 0) : count_(count) {}
  counting_semaphore(const counting_semaphore&) = delete;
  counting_semaphore& operator=(const counting_semaphore&) = delete;

  static constexpr ptrdiff_t(max)() { return most; }

  __forceinline__ void release(ptrdiff_t by = 1) { count().fetch_add(by, memory_order_release); }
  __forceinline__ bool try_acquire() {
    ptrdiff_t old = count().load(memory_order_acquire);
    while (old > 0)
      if (count().compare_exchange_weak(old, old - 1, memory_order_acquire)) return true;
    return false;
  }
  __forceinline__ void acquire() {
    while (!try_acquire()) {
    }
  }

 private:
  atomic_ref<ptrdiff_t, scope> count() const { return atomic_ref<ptrdiff_t, scope>(count_); }

  mutable ptrdiff_t count_;
};
template <thread_scope scope>
using binary_semaphore = counting_semaphore<scope, 1>;

}  // namespace cuda
