// nvcc's built-in atomic functions (CUDA C++ Programming Guide, "Built-in atomic functions"): cuda::atomic_ref under
// other names. Orders and scopes are constants; a cluster's scope is treated as the device's.
#pragma once

#include <trifold/cpu/cuda_atomic.h>

enum {
  __NV_ATOMIC_RELAXED,
  __NV_ATOMIC_CONSUME,
  __NV_ATOMIC_ACQUIRE,
  __NV_ATOMIC_RELEASE,
  __NV_ATOMIC_ACQ_REL,
  __NV_ATOMIC_SEQ_CST,
};
enum {
  __NV_THREAD_SCOPE_THREAD,
  __NV_THREAD_SCOPE_BLOCK,
  __NV_THREAD_SCOPE_CLUSTER,
  __NV_THREAD_SCOPE_DEVICE,
  __NV_THREAD_SCOPE_SYSTEM,
};

namespace trifold::cpu {

__forceinline__ cuda::memory_order memory_order_of(int order) {
  switch (order) {
    case __NV_ATOMIC_RELAXED: return cuda::memory_order_relaxed;
    case __NV_ATOMIC_CONSUME:
    case __NV_ATOMIC_ACQUIRE: return cuda::memory_order_acquire;
    case __NV_ATOMIC_RELEASE: return cuda::memory_order_release;
    case __NV_ATOMIC_ACQ_REL: return cuda::memory_order_acq_rel;
    default: return cuda::memory_order_seq_cst;
  }
}

// Returns use(place as an atomic object of this scope).
template <class T, class Use>
__forceinline__ auto with_scope(const T* at, int scope, const Use& use) {
  T* const place = const_cast<T*>(at);
  switch (scope) {
    case __NV_THREAD_SCOPE_THREAD:
    case __NV_THREAD_SCOPE_BLOCK: return use(cuda::atomic_ref<T, cuda::thread_scope_block>(*place));
    case __NV_THREAD_SCOPE_CLUSTER:
    case __NV_THREAD_SCOPE_DEVICE: return use(cuda::atomic_ref<T, cuda::thread_scope_device>(*place));
    default: return use(cuda::atomic_ref<T, cuda::thread_scope_system>(*place));
  }
}

}  // namespace trifold::cpu

template <class T>
__forceinline__ T __nv_atomic_load_n(const T* place, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return trifold::cpu::with_scope(place, scope, [=](const auto& object) __attribute__((always_inline)) {
    return object.load(trifold::cpu::memory_order_of(order));
  });
}
template <class T>
__forceinline__ void __nv_atomic_load(const T* place, T* result, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  *result = __nv_atomic_load_n(place, order, scope);
}
template <class T>
__forceinline__ void __nv_atomic_store_n(T* place, trifold::cpu::Same<T> value, int order,
                                         int scope = __NV_THREAD_SCOPE_SYSTEM) {
  trifold::cpu::with_scope(place, scope, [=](const auto& object) __attribute__((always_inline)) {
    object.store(value, trifold::cpu::memory_order_of(order));
  });
}
template <class T>
__forceinline__ void __nv_atomic_store(T* place, T* value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  __nv_atomic_store_n(place, *value, order, scope);
}
template <class T>
__forceinline__ T __nv_atomic_exchange_n(T* place, trifold::cpu::Same<T> value, int order,
                                         int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return trifold::cpu::with_scope(place, scope, [=](const auto& object) __attribute__((always_inline)) {
    return object.exchange(value, trifold::cpu::memory_order_of(order));
  });
}
template <class T>
__forceinline__ void __nv_atomic_exchange(T* place, T* value, T* result, int order,
                                          int scope = __NV_THREAD_SCOPE_SYSTEM) {
  *result = __nv_atomic_exchange_n(place, *value, order, scope);
}
template <class T>
__forceinline__ bool __nv_atomic_compare_exchange_n(T* place, T* expected, trifold::cpu::Same<T> value, bool,
                                                    int success, int, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return trifold::cpu::with_scope(place, scope, [=](const auto& object) __attribute__((always_inline)) {
    return object.compare_exchange_strong(*expected, value, trifold::cpu::memory_order_of(success));
  });
}
template <class T>
__forceinline__ bool __nv_atomic_compare_exchange(T* place, T* expected, T* value, bool weak, int success, int failure,
                                                  int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return __nv_atomic_compare_exchange_n(place, expected, *value, weak, success, failure, scope);
}

#define TRIFOLD_UPDATE(name)                                                                               \
  template <class T>                                                                                       \
  __forceinline__ T __nv_atomic_fetch_##name(T* place, trifold::cpu::Same<T> value, int order,             \
                                             int scope = __NV_THREAD_SCOPE_SYSTEM) {                       \
    return trifold::cpu::with_scope(place, scope, [=](const auto& object) __attribute__((always_inline)) { \
      return object.fetch_##name(value, trifold::cpu::memory_order_of(order));                             \
    });                                                                                                    \
  }                                                                                                        \
  template <class T>                                                                                       \
  __forceinline__ void __nv_atomic_##name(T* place, trifold::cpu::Same<T> value, int order,                \
                                          int scope = __NV_THREAD_SCOPE_SYSTEM) {                          \
    __nv_atomic_fetch_##name(place, value, order, scope);                                                  \
  }
TRIFOLD_UPDATE(add)
TRIFOLD_UPDATE(sub)
TRIFOLD_UPDATE(min)
TRIFOLD_UPDATE(max)
TRIFOLD_UPDATE(and)
TRIFOLD_UPDATE(or)
TRIFOLD_UPDATE(xor)
#undef TRIFOLD_UPDATE

__forceinline__ void __nv_atomic_thread_fence(int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  const cuda::memory_order of_cuda = trifold::cpu::memory_order_of(order);
  switch (scope) {
    case __NV_THREAD_SCOPE_THREAD:
    case __NV_THREAD_SCOPE_BLOCK: return cuda::atomic_thread_fence(of_cuda, cuda::thread_scope_block);
    case __NV_THREAD_SCOPE_CLUSTER:
    case __NV_THREAD_SCOPE_DEVICE: return cuda::atomic_thread_fence(of_cuda, cuda::thread_scope_device);
    default: return cuda::atomic_thread_fence(of_cuda, cuda::thread_scope_system);
  }
}
