// Memory of the host for algorithms that run in kernels: temporary items, and results. The checks know no such memory
// and would refuse its use in a kernel, so that it is accessed by functions which they do not see.
#pragma once

#include <trifold/cpu/program.h>

#include <cstddef>
#include <cstdlib>

namespace thrust::details {

[[gnu::noinline]] __attribute__((no_sanitize("thread"))) inline void copy_unseen(void* to, const void* from,
                                                                                 size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)  // volatile: or else it may become a call of memcpy, which is checked
    static_cast<volatile unsigned char*>(to)[i] = static_cast<const volatile unsigned char*>(from)[i];
}
template <class T>
T load(const T* from) {
  alignas(T) unsigned char bytes[sizeof(T)];
  copy_unseen(bytes, from, sizeof bytes);
  return *reinterpret_cast<T*>(bytes);
}
template <class T>
void store(T* to, const T& value) {
  copy_unseen(to, &value, sizeof value);
}

// Items that are copied byte by byte, as those of the device are.
template <class T>
class Scratch {
 public:
  explicit Scratch(ptrdiff_t n) : items_(static_cast<T*>(::malloc(static_cast<size_t>(n > 0 ? n : 1) * sizeof(T)))) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { ::free(items_); }

  T* data() const { return items_; }
  T operator[](ptrdiff_t i) const { return load(items_ + i); }
  void set(ptrdiff_t i, const T& value) { store(items_ + i, value); }
  void swap(Scratch& other) {
    T* const own = items_;
    items_ = other.items_;
    other.items_ = own;
  }

 private:
  T* items_;
};

}  // namespace thrust::details
