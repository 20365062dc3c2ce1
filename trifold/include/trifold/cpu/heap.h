// A kernel's own heap: malloc, free, new and delete of device code, which trifold/build/heap_text.py rewrites to these.
// Host code that runs the same __host__ __device__ function uses the C library's heap.
#pragma once

#include <trifold/cpu.h>

#include <cstdlib>
#include <type_traits>

namespace trifold::cpu {

inline void* heap_malloc(size_t bytes, Line line = {}) {
  return in_kernel() ? allocate_on_heap(bytes, line) : std::malloc(bytes);
}
inline void heap_free(void* memory, Line line = {}) {
  in_kernel() ? free_on_heap(memory, line) : std::free(memory);
}

// new (on_heap()) T
struct OnHeap {
  Line line;
};
inline OnHeap on_heap(Line line = {}) {
  return {line};
}

template <class T>
void heap_delete(T* object, Line line = {}) {
  if (object == nullptr) return;
  void* whole = const_cast<std::remove_cv_t<T>*>(object);
  if constexpr (std::is_polymorphic_v<T>) whole = const_cast<void*>(dynamic_cast<const volatile void*>(object));
  object->~T();
  heap_free(whole, line);
}
// An array of objects with destructors is preceded by their number (Itanium C++ ABI, 2.7).
template <class T>
void heap_delete_array(T* array, Line line = {}) {
  if (array == nullptr) return;
  void* const first = const_cast<std::remove_cv_t<T>*>(array);
  if constexpr (std::is_trivially_destructible_v<T>) {
    heap_free(first, line);
  } else {
    constexpr size_t header = alignof(T) > sizeof(size_t) ? alignof(T) : sizeof(size_t);
    for (size_t i = static_cast<const size_t*>(first)[-1]; i > 0; --i) array[i - 1].~T();
    heap_free(static_cast<char*>(first) - header, line);
  }
}

}  // namespace trifold::cpu

// Null where the heap is full, as on a GPU.
inline void* operator new(size_t bytes, trifold::cpu::OnHeap heap) noexcept {
  return trifold::cpu::heap_malloc(bytes, heap.line);
}
inline void* operator new[](size_t bytes, trifold::cpu::OnHeap heap) noexcept {
  return trifold::cpu::heap_malloc(bytes, heap.line);
}
// Called if a constructor throws.
inline void operator delete(void* memory, trifold::cpu::OnHeap heap) noexcept {
  trifold::cpu::heap_free(memory, heap.line);
}
inline void operator delete[](void* memory, trifold::cpu::OnHeap heap) noexcept {
  trifold::cpu::heap_free(memory, heap.line);
}
