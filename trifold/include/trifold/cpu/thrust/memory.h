// Thrust's pointers into memory of the device: the host reads and writes it through references, by copies.
#pragma once

#include <trifold/cpu/thrust/errors.h>
#include <trifold/cpu/thrust/policies.h>

#include <cstddef>
#include <iterator>

namespace thrust {

template <class T>
class device_ptr;
template <class T>
class device_reference;

namespace details {

// A subscript, and the line that has it: operator[] has no room for a default argument.
struct Index {
  ptrdiff_t index;
  Line line;

  template <class N, class = std::enable_if_t<std::is_convertible_v<N, ptrdiff_t>>>
  Index(N n, Line line = {}) : index(static_cast<ptrdiff_t>(n)), line(line) {}
};

inline void copy_bytes(void* to, const void* from, size_t bytes, Line line) {
  require(cudaMemcpy(to, from, bytes, cudaMemcpyDefault, line), "thrust: a copy of elements");
}

// Arithmetic of pointers that are iterators of the device. Self has a member `pointer_`, the raw pointer.
template <class Self, class T, class Ref>
class DevicePointer {
 public:
  static constexpr System thrust_system = System::device;

  using iterator_category = std::random_access_iterator_tag;
  using value_type = std::remove_cv_t<T>;
  using element_type = T;
  using difference_type = ptrdiff_t;
  using pointer = Self;
  using reference = Ref;
  using raw_pointer = T*;

  DevicePointer() = default;
  explicit DevicePointer(T* pointer) : pointer_(pointer) {}

  T* get() const { return pointer_; }
  T* raw() const { return pointer_; }
  Self base() const { return self(); }
  explicit operator bool() const { return pointer_ != nullptr; }

  Self& operator+=(ptrdiff_t n) {
    pointer_ += n;
    return static_cast<Self&>(*this);
  }
  Self& operator-=(ptrdiff_t n) { return *this += -n; }
  Self& operator++() { return *this += 1; }
  Self& operator--() { return *this -= 1; }
  Self operator++(int) {
    const Self old = self();
    ++pointer_;
    return old;
  }
  Self operator--(int) {
    const Self old = self();
    --pointer_;
    return old;
  }
  Self operator+(ptrdiff_t n) const { return Self(pointer_ + n); }
  Self operator-(ptrdiff_t n) const { return Self(pointer_ - n); }
  friend Self operator+(ptrdiff_t n, const Self& p) { return p + n; }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }

  T* pointer_ = nullptr;
};

template <class P>
concept IsDevicePointer = requires(const P& p) {
  typename P::raw_pointer;
  p.get();
};

template <IsDevicePointer A, IsDevicePointer B>
ptrdiff_t operator-(const A& a, const B& b) {
  return a.get() - b.get();
}
template <IsDevicePointer A, IsDevicePointer B>
bool operator==(const A& a, const B& b) {
  return a.get() == b.get();
}
template <IsDevicePointer A, IsDevicePointer B>
bool operator!=(const A& a, const B& b) {
  return a.get() != b.get();
}
template <IsDevicePointer A, IsDevicePointer B>
bool operator<(const A& a, const B& b) {
  return a.get() < b.get();
}
template <IsDevicePointer A, IsDevicePointer B>
bool operator>(const A& a, const B& b) {
  return a.get() > b.get();
}
template <IsDevicePointer A, IsDevicePointer B>
bool operator<=(const A& a, const B& b) {
  return a.get() <= b.get();
}
template <IsDevicePointer A, IsDevicePointer B>
bool operator>=(const A& a, const B& b) {
  return a.get() >= b.get();
}

}  // namespace details

template <class T>
class device_ptr : public details::DevicePointer<device_ptr<T>, T, device_reference<T>> {
  using Base = details::DevicePointer<device_ptr<T>, T, device_reference<T>>;

 public:
  device_ptr() = default;
  device_ptr(std::nullptr_t) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  explicit device_ptr(U* pointer) : Base(pointer) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  device_ptr(const device_ptr<U>& other) : Base(other.get()) {}

  device_reference<T> operator*() const { return device_reference<T>(*this); }
  device_reference<T> operator[](details::Index n) const { return device_reference<T>(*this + n.index, n.line); }
};
template <>
class device_ptr<void> {
 public:
  using raw_pointer = void*;

  device_ptr() = default;
  explicit device_ptr(void* pointer) : pointer_(pointer) {}
  template <class U>
  device_ptr(const device_ptr<U>& other) : pointer_(other.get()) {}
  void* get() const { return pointer_; }

 private:
  void* pointer_ = nullptr;
};

// Memory that host and device share: the host accesses it like its own.
template <class T>
class universal_ptr : public details::DevicePointer<universal_ptr<T>, T, T&> {
  using Base = details::DevicePointer<universal_ptr<T>, T, T&>;

 public:
  universal_ptr() = default;
  universal_ptr(std::nullptr_t) {}
  explicit universal_ptr(T* pointer) : Base(pointer) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  universal_ptr(const universal_ptr<U>& other) : Base(other.get()) {}

  T& operator*() const { return *this->get(); }
  T* operator->() const { return this->get(); }
  T& operator[](details::Index n) const { return this->get()[n.index]; }
};

template <class T>
class device_reference {
 public:
  using value_type = std::remove_cv_t<T>;
  using pointer = device_ptr<T>;

  explicit device_reference(const pointer& at, details::Line line = {nullptr, 0}) : at_(at.get()), line_(line) {}
  device_reference(const device_reference&) = default;
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  device_reference(const device_reference<U>& other) : at_((&other).get()) {}

  pointer operator&() const { return pointer(at_); }
  operator value_type() const {
    if (trifold::cpu::in_kernel()) return *at_;
    alignas(value_type) unsigned char bytes[sizeof(value_type)];
    details::copy_bytes(bytes, at_, sizeof bytes, line_);
    return *reinterpret_cast<value_type*>(bytes);
  }

  const device_reference& operator=(const value_type& value) const {
    if (trifold::cpu::in_kernel()) {
      *at_ = value;
    } else {
      details::copy_bytes(at_, &value, sizeof value, line_);
    }
    return *this;
  }
  const device_reference& operator=(const device_reference& other) const { return *this = value_type(other); }
  template <class U>
  const device_reference& operator=(const device_reference<U>& other) const {
    return *this = static_cast<value_type>(static_cast<std::remove_cv_t<U>>(other));
  }

  const device_reference& operator++() const { return *this += 1; }
  const device_reference& operator--() const { return *this -= 1; }
  value_type operator++(int) const {
    const value_type old = *this;
    *this += 1;
    return old;
  }
  value_type operator--(int) const {
    const value_type old = *this;
    *this -= 1;
    return old;
  }
  template <class U>
  const device_reference& operator+=(const U& other) const {
    return *this = static_cast<value_type>(value_type(*this) + other);
  }
  template <class U>
  const device_reference& operator-=(const U& other) const {
    return *this = static_cast<value_type>(value_type(*this) - other);
  }
  template <class U>
  const device_reference& operator*=(const U& other) const {
    return *this = static_cast<value_type>(value_type(*this) * other);
  }
  template <class U>
  const device_reference& operator/=(const U& other) const {
    return *this = static_cast<value_type>(value_type(*this) / other);
  }
  template <class U>
  const device_reference& operator%=(const U& other) const {
    return *this = static_cast<value_type>(value_type(*this) % other);
  }
  template <class U>
  const device_reference& operator|=(const U& other) const {
    return *this = static_cast<value_type>(value_type(*this) | other);
  }
  template <class U>
  const device_reference& operator&=(const U& other) const {
    return *this = static_cast<value_type>(value_type(*this) & other);
  }
  template <class U>
  const device_reference& operator^=(const U& other) const {
    return *this = static_cast<value_type>(value_type(*this) ^ other);
  }

  friend void swap(const device_reference& a, const device_reference& b) {
    const value_type old = a;
    a = b;
    b = old;
  }
  template <class Stream>
    requires requires(Stream& stream) { stream.rdbuf(); }
  friend Stream& operator<<(Stream& stream, const device_reference& reference) {
    stream << value_type(reference);
    return stream;
  }

 private:
  T* at_;
  details::Line line_;
};

template <class T>
T* raw_pointer_cast(T* pointer) {
  return pointer;
}
template <details::IsDevicePointer P>
auto raw_pointer_cast(const P& pointer) {
  return pointer.get();
}
template <class T>
T& raw_reference_cast(T& reference) {
  return reference;
}
template <class T>
T& raw_reference_cast(const device_reference<T>& reference) {
  return *(&reference).get();
}
template <class T>
device_ptr<T> device_pointer_cast(T* pointer) {
  return device_ptr<T>(pointer);
}
template <class T>
device_ptr<T> device_pointer_cast(const device_ptr<T>& pointer) {
  return pointer;
}

template <class T>
device_ptr<T> device_malloc(size_t count, details::Line line = {}) {
  T* made = nullptr;
  details::require(cudaMalloc(&made, count * sizeof(T), line), "thrust::device_malloc");
  return device_ptr<T>(made);
}
inline device_ptr<void> device_malloc(size_t bytes, details::Line line = {}) {
  return device_ptr<void>(device_malloc<char>(bytes, line));
}
template <class T>
void device_free(device_ptr<T> pointer, details::Line line = {}) {
  details::require(cudaFree(pointer.get(), line), "thrust::device_free");
}
// An array of copies of a value.
template <class T>
device_ptr<T> device_new(size_t count, const T& value, details::Line line = {}) {
  const device_ptr<T> made = device_malloc<T>(count, line);
  for (size_t i = 0; i < count; ++i) details::copy_bytes(made.get() + i, &value, sizeof value, line);
  return made;
}
template <class T>
device_ptr<T> device_new(size_t count = 1, details::Line line = {}) {
  return device_new(count, T(), line);
}
template <class T>
void device_delete(device_ptr<T> pointer, size_t = 0, details::Line line = {}) {
  device_free(pointer, line);
}

// thrust::malloc and free of an execution policy: of the device's memory.
template <class T, class Policy>
device_ptr<T> malloc(const Policy&, size_t count, details::Line line = {}) {
  static_assert(Policy::system == System::device, "the CPU has thrust::malloc of the device's memory");
  return device_malloc<T>(count, line);
}
template <class Policy, class Pointer>
void free(const Policy&, Pointer pointer, details::Line line = {}) {
  details::require(cudaFree(raw_pointer_cast(pointer), line), "thrust::free");
}

// Names of the memory of vectors: no other allocators run on the CPU.
template <class T>
struct device_allocator {
  using value_type = T;
};
template <class T>
struct universal_allocator {
  using value_type = T;
};

}  // namespace thrust
