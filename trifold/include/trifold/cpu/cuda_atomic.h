// cuda::atomic, cuda::atomic_ref and fences (libcu++, "Extended API: Synchronization Primitives"), of each scope. In
// host code they are the compiler's atomics.
//
// An operation that releases is a fence followed by a relaxed one; one that acquires is followed by a fence. Always
// inlined, so that in a checked program the access is at a line of the kernel.
#pragma once

#include <trifold/cpu/atomics.h>
#include <trifold/cpu/cuda_scopes.h>
#include <trifold/cpu/cuda_std.h>

#include <atomic>
#include <cstddef>
#include <type_traits>

namespace cuda {

using ::std::memory_order;
using ::std::memory_order_acq_rel;
using ::std::memory_order_acquire;
using ::std::memory_order_consume;
using ::std::memory_order_relaxed;
using ::std::memory_order_release;
using ::std::memory_order_seq_cst;

namespace details {

__forceinline__ bool acquires(memory_order order) {
  return order != memory_order_relaxed && order != memory_order_release;
}
__forceinline__ bool releases(memory_order order) {
  return order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

// The part of a fence that a checked kernel needs: atomics acquire without one.
template <thread_scope scope>
__forceinline__ void fence(memory_order order, bool release) {
  if (!trifold::cpu::checked || !trifold::cpu::in_kernel())
    ::std::atomic_thread_fence(order);
  else if (release)
    trifold::cpu::fence(scopes[scope]);
}
template <thread_scope scope>
__forceinline__ void fence_before(memory_order order) {
  if (releases(order)) fence<scope>(memory_order_release, true);
}
template <thread_scope scope>
__forceinline__ void fence_after(memory_order order) {
  if (acquires(order)) fence<scope>(memory_order_acquire, false);
}

template <class T>
concept counts = ::std::is_integral_v<T> && !trifold::cpu::same_as<T, bool>;

// The type of an operand that is added to a pointer.
template <class T>
struct Step {
  using type = T;
};
template <class T>
struct Step<T*> {
  using type = ptrdiff_t;
};

// The operations on an object at `place()` of Self.
template <class Self, class T, thread_scope scope>
class AtomicOperations {
  static_assert(::std::is_trivially_copyable_v<T> &&
                    (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8),
                "on the CPU a cuda::atomic has 1, 2, 4 or 8 bytes");
  using Word = trifold::cpu::Word<sizeof(T)>;
  using Difference = typename Step<T>::type;

 public:
  using value_type = T;
  static constexpr bool is_always_lock_free = true;
  static constexpr bool is_lock_free() { return true; }

  __forceinline__ T load(memory_order order = memory_order_seq_cst) const {
    if (order == memory_order_seq_cst) fence_before<scope>(order);
    Word word;
    if (trifold::cpu::checked && trifold::cpu::in_kernel()) {
      word = static_cast<Word>(trifold::cpu::checked_load(self().place(), sizeof(T), scopes[scope]));
    } else {
      word = __atomic_load_n(reinterpret_cast<const Word*>(self().place()), __ATOMIC_RELAXED);
      if (trifold::cpu::in_kernel()) trifold::cpu::looked();
    }
    fence_after<scope>(order);
    return trifold::cpu::from_bits<T>(word);
  }
  __forceinline__ void store(T value, memory_order order = memory_order_seq_cst) const {
    fence_before<scope>(order);
    const auto word = static_cast<Word>(trifold::cpu::to_bits(value));
    if (trifold::cpu::checked && trifold::cpu::in_kernel())
      trifold::cpu::checked_store(self().place(), sizeof(T), scopes[scope], word);
    else
      __atomic_store_n(reinterpret_cast<Word*>(self().place()), word, __ATOMIC_RELAXED);
  }
  __forceinline__ T exchange(T value, memory_order order = memory_order_seq_cst) const {
    return update([value](T) { return value; }, order);
  }
  __forceinline__ bool compare_exchange_strong(T& expected, T value, memory_order order = memory_order_seq_cst) const {
    const T compared = expected;
    fence_before<scope>(order);
    Word word = trifold::cpu::from_bits<Word>(trifold::cpu::to_bits(compared));
    const auto made = trifold::cpu::from_bits<Word>(trifold::cpu::to_bits(value));
    auto* const at = reinterpret_cast<Word*>(self().place());
    if (trifold::cpu::in_kernel())
      word = trifold::cpu::compare_and_swap<scopes[scope], Word>(at, word, made);
    else
      __atomic_compare_exchange_n(at, &word, made, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    fence_after<scope>(order);
    expected = trifold::cpu::from_bits<T>(word);
    return trifold::cpu::to_bits(expected) == trifold::cpu::to_bits(compared);
  }
  __forceinline__ bool compare_exchange_strong(T& expected, T value, memory_order order, memory_order) const {
    return compare_exchange_strong(expected, value, order);
  }
  __forceinline__ bool compare_exchange_weak(T& expected, T value, memory_order order = memory_order_seq_cst) const {
    return compare_exchange_strong(expected, value, order);
  }
  __forceinline__ bool compare_exchange_weak(T& expected, T value, memory_order order, memory_order) const {
    return compare_exchange_strong(expected, value, order);
  }

  __forceinline__ T fetch_add(Difference by, memory_order order = memory_order_seq_cst) const {
    return update([by](T old) { return sum(old, by); }, order);
  }
  __forceinline__ T fetch_sub(Difference by, memory_order order = memory_order_seq_cst) const {
    return update([by](T old) { return difference(old, by); }, order);
  }
  __forceinline__ T fetch_min(T other, memory_order order = memory_order_seq_cst) const {
    return update([other](T old) { return other < old ? other : old; }, order);
  }
  __forceinline__ T fetch_max(T other, memory_order order = memory_order_seq_cst) const {
    return update([other](T old) { return old < other ? other : old; }, order);
  }
  __forceinline__ T fetch_and(T mask, memory_order order = memory_order_seq_cst) const
    requires counts<T>
  {
    return update([mask](T old) { return static_cast<T>(old & mask); }, order);
  }
  __forceinline__ T fetch_or(T mask, memory_order order = memory_order_seq_cst) const
    requires counts<T>
  {
    return update([mask](T old) { return static_cast<T>(old | mask); }, order);
  }
  __forceinline__ T fetch_xor(T mask, memory_order order = memory_order_seq_cst) const
    requires counts<T>
  {
    return update([mask](T old) { return static_cast<T>(old ^ mask); }, order);
  }

  __forceinline__ operator T() const { return load(); }
  __forceinline__ T operator=(T value) const {
    store(value);
    return value;
  }
  __forceinline__ T operator++(int) const { return fetch_add(1); }
  __forceinline__ T operator--(int) const { return fetch_sub(1); }
  __forceinline__ T operator++() const { return sum(fetch_add(1), 1); }
  __forceinline__ T operator--() const { return difference(fetch_sub(1), 1); }
  __forceinline__ T operator+=(Difference by) const { return sum(fetch_add(by), by); }
  __forceinline__ T operator-=(Difference by) const { return difference(fetch_sub(by), by); }
  __forceinline__ T operator&=(T mask) const { return static_cast<T>(fetch_and(mask) & mask); }
  __forceinline__ T operator|=(T mask) const { return static_cast<T>(fetch_or(mask) | mask); }
  __forceinline__ T operator^=(T mask) const { return static_cast<T>(fetch_xor(mask) ^ mask); }

  // Waits until the value differs from `old`; no notification is needed.
  __forceinline__ void wait(T old, memory_order order = memory_order_seq_cst) const {
    while (trifold::cpu::to_bits(load(order)) == trifold::cpu::to_bits(old)) {
    }
  }
  void notify_one() const {}
  void notify_all() const {}

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }

  // Sums of signed integers wrap.
  static T sum(T a, Difference b) {
    if constexpr (counts<T>)
      return static_cast<T>(static_cast<Word>(a) + static_cast<Word>(b));
    else
      return a + b;
  }
  static T difference(T a, Difference b) {
    if constexpr (counts<T>)
      return static_cast<T>(static_cast<Word>(a) - static_cast<Word>(b));
    else
      return a - b;
  }

  template <class F>
  __forceinline__ T update(F made, memory_order order) const {
    fence_before<scope>(order);
    T old;
    if (trifold::cpu::in_kernel()) {
      old = trifold::cpu::update<scopes[scope]>(self().place(), made);
    } else {
      auto* const at = reinterpret_cast<Word*>(self().place());
      Word word = __atomic_load_n(at, __ATOMIC_RELAXED);
      do {
        old = trifold::cpu::from_bits<T>(word);
      } while (!__atomic_compare_exchange_n(at, &word, static_cast<Word>(trifold::cpu::to_bits(made(old))), false,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
    fence_after<scope>(order);
    return old;
  }
};

}  // namespace details

template <class T, thread_scope scope = thread_scope_system>
class atomic : public details::AtomicOperations<atomic<T, scope>, T, scope> {
 public:
  atomic() = default;
  constexpr atomic(T value) : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
  using details::AtomicOperations<atomic, T, scope>::operator=;

 private:
  friend class details::AtomicOperations<atomic, T, scope>;
  T* place() const { return &value_; }

  alignas(sizeof(T)) mutable T value_;
};

// For an object that is not atomic itself.
template <class T, thread_scope scope = thread_scope_system>
class atomic_ref : public details::AtomicOperations<atomic_ref<T, scope>, T, scope> {
 public:
  static constexpr size_t required_alignment = sizeof(T);

  explicit atomic_ref(T& of) : place_(&of) {}
  atomic_ref(const atomic_ref&) = default;
  atomic_ref& operator=(const atomic_ref&) = delete;
  using details::AtomicOperations<atomic_ref, T, scope>::operator=;

 private:
  friend class details::AtomicOperations<atomic_ref, T, scope>;
  T* place() const { return place_; }

  T* place_;
};

// For threads of this scope. It releases and acquires, except with memory_order_acquire.
__forceinline__ void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
  if (!trifold::cpu::checked || !trifold::cpu::in_kernel())
    ::std::atomic_thread_fence(order);
  else if (order != memory_order_relaxed)
    trifold::cpu::fence(details::scopes[scope]);
}

namespace std {

template <class T>
using atomic = cuda::atomic<T, thread_scope_system>;
template <class T>
using atomic_ref = cuda::atomic_ref<T, thread_scope_system>;
using cuda::atomic_thread_fence;

}  // namespace std

}  // namespace cuda
