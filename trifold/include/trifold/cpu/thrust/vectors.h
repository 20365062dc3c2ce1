// Thrust's vectors: of the host, of the device, and of memory that both share.
#pragma once

#include <trifold/cpu/thrust/copies.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace thrust {

template <class T, class Allocator = ::std::allocator<T>>
class host_vector;

namespace details {

template <class V>
concept IsVector = requires(const V& v) {
  v.begin();
  v.end();
  v.size();
  typename V::value_type;
};

// A vector outside of the host's own memory, whose iterators are pointers. It keeps the line that made it, where its
// memory counts as allocated if no other call did.
template <class T, template <class> class PointerTo>
class DeviceVector {
 public:
  using value_type = T;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  using pointer = PointerTo<T>;
  using const_pointer = PointerTo<const T>;
  using reference = ReferenceOf<pointer>;
  using const_reference = ReferenceOf<const_pointer>;
  using iterator = pointer;
  using const_iterator = const_pointer;
  using reverse_iterator = thrust::reverse_iterator<iterator>;
  using const_reverse_iterator = thrust::reverse_iterator<const_iterator>;

  explicit DeviceVector(Line line = {}) : line_(line) {}
  explicit DeviceVector(size_t n, Line line = {}) : DeviceVector(n, T(), line) {}
  DeviceVector(size_t n, const T& value, Line line = {}) : line_(line) { resize(n, value, line); }
  template <class It>
    requires requires(It& it) { *it; }
  DeviceVector(It first, It last, Line line = {}) : line_(line) {
    assign(first, last, line);
  }
  DeviceVector(::std::initializer_list<T> values, Line line = {}) : DeviceVector(values.begin(), values.end(), line) {}
  template <IsVector Other>
  DeviceVector(const Other& other, Line line = {}) : DeviceVector(other.begin(), other.end(), line) {}
  DeviceVector(const DeviceVector& other, Line line = {}) : DeviceVector(other.begin(), other.end(), line) {}
  DeviceVector(DeviceVector&& other) noexcept : line_(other.line_) { swap(other); }
  ~DeviceVector() { release(); }

  DeviceVector& operator=(const DeviceVector& other) {
    if (this != &other) assign(other.begin(), other.end(), line_);
    return *this;
  }
  DeviceVector& operator=(DeviceVector&& other) noexcept {
    swap(other);
    other.clear();
    return *this;
  }
  template <IsVector Other>
  DeviceVector& operator=(const Other& other) {
    assign(other.begin(), other.end(), line_);
    return *this;
  }
  DeviceVector& operator=(::std::initializer_list<T> values) {
    assign(values.begin(), values.end(), line_);
    return *this;
  }

  iterator begin() { return iterator(memory_); }
  iterator end() { return iterator(memory_ + size_); }
  const_iterator begin() const { return const_iterator(memory_); }
  const_iterator end() const { return const_iterator(memory_ + size_); }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  reverse_iterator rbegin() { return reverse_iterator(end()); }
  reverse_iterator rend() { return reverse_iterator(begin()); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
  const_reverse_iterator crbegin() const { return rbegin(); }
  const_reverse_iterator crend() const { return rend(); }
  pointer data() { return begin(); }
  const_pointer data() const { return begin(); }
  reference operator[](Index n) { return begin()[n]; }
  const_reference operator[](Index n) const { return begin()[n]; }
  reference front() { return *begin(); }
  const_reference front() const { return *begin(); }
  reference back() { return *(end() - 1); }
  const_reference back() const { return *(end() - 1); }

  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  size_t max_size() const { return static_cast<size_t>(-1) / 2 / sizeof(T); }
  bool empty() const { return size_ == 0; }

  void resize(size_t n, Line line = {}) { resize(n, T(), line); }
  void resize(size_t n, const T& value, Line line = {}) {
    if (n > size_) insert(end(), n - size_, value, line);
    size_ = n;
  }
  // Elements beyond the size have no values.
  void reserve(size_t n, Line line = {}) {
    if (n <= capacity_) return;
    T* made = nullptr;
    allocate(made, n, line);
    move_within(made, memory_, size_);
    cudaFree(memory_, line_);
    memory_ = made;
    capacity_ = n;
  }
  void shrink_to_fit(Line line = {}) {
    if (size_ == capacity_) return;
    DeviceVector fitting(begin(), end(), line);
    swap(fitting);
  }
  void clear() { size_ = 0; }
  void push_back(const T& value, Line line = {}) { insert(end(), 1, value, line); }
  template <class... Args>
  void emplace_back(Args&&... args) {
    push_back(T(static_cast<Args&&>(args)...), line_);
  }
  void pop_back() { --size_; }
  iterator erase(const_iterator at) { return erase(at, at + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    const ptrdiff_t at = first - begin(), removed = last - first;
    if (removed > 0) move_within(memory_ + at, memory_ + at + removed, size_ - static_cast<size_t>(at + removed));
    size_ -= static_cast<size_t>(removed);
    return begin() + at;
  }
  iterator insert(const_iterator before, const T& value, Line line = {}) { return insert(before, 1, value, line); }
  iterator insert(const_iterator before, size_t n, const T& value, Line line = {}) {
    const Items<T> values(n, value);
    return insert(before, values.begin(), values.end(), line);
  }
  template <class It>
    requires requires(It& it) { *it; }
  iterator insert(const_iterator before, It first, It last, Line line = {}) {
    const ptrdiff_t at = before - begin();
    const auto n = static_cast<size_t>(::std::distance(first, last));
    if (n == 0) return begin() + at;
    if (size_ + n > capacity_) reserve(::std::max(size_ + n, 2 * capacity_), line);
    move_within(memory_ + at + n, memory_ + at, size_ - static_cast<size_t>(at));
    size_ += n;
    Algorithm<Copy>()(first, last, begin() + at, line);
    return begin() + at;
  }
  void assign(size_t n, const T& value, Line line = {}) {
    clear();
    resize(n, value, line);
  }
  template <class It>
    requires requires(It& it) { *it; }
  void assign(It first, It last, Line line = {}) {
    clear();
    if (const auto n = static_cast<size_t>(::std::distance(first, last)); n > capacity_) {
      release();
      allocate(memory_, n, line);
      capacity_ = n;
    }
    insert(begin(), first, last, line);
  }
  void swap(DeviceVector& other) noexcept {
    ::std::swap(memory_, other.memory_);
    ::std::swap(size_, other.size_);
    ::std::swap(capacity_, other.capacity_);
  }
  friend void swap(DeviceVector& a, DeviceVector& b) noexcept { a.swap(b); }

 private:
  static void allocate(T*& memory, size_t n, Line line) {
    if constexpr (std::is_same_v<pointer, universal_ptr<T>>) {
      require(cudaMallocManaged(&memory, n * sizeof(T), cudaMemAttachGlobal, line), "thrust::universal_vector");
    } else {
      require(cudaMalloc(&memory, n * sizeof(T), line), "thrust::device_vector");
    }
  }
  // Unwritten elements remain so.
  void move_within(T* to, const T* from, size_t n) {
    require(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyDeviceToDevice, line_), "thrust: a move of elements");
  }
  void release() noexcept {
    cudaFree(memory_, line_);
    memory_ = nullptr;
    size_ = capacity_ = 0;
  }

  T* memory_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  Line line_;
};

template <class Allocator>
struct MemoryOf {
  static_assert(sizeof(Allocator) == 0, "on the CPU, vectors have Thrust's own allocators: omit the second argument");
};
template <class T>
struct MemoryOf<device_allocator<T>> {
  using Vector = DeviceVector<T, device_ptr>;
};
template <class T>
struct MemoryOf<universal_allocator<T>> {
  using Vector = DeviceVector<T, universal_ptr>;
};

// The elements of any vector, on the host.
template <IsVector V>
::std::vector<typename V::value_type> on_host(const V& v) {
  ::std::vector<typename V::value_type> items;
  Algorithm<Copy>()(v.begin(), v.end(), ::std::back_inserter(items));
  return items;
}

}  // namespace details

template <class T, class Allocator = device_allocator<T>>
class device_vector : public details::MemoryOf<Allocator>::Vector {
  using Base = typename details::MemoryOf<Allocator>::Vector;

 public:
  using Base::Base;
  using Base::operator=;
  device_vector(details::Line line = {}) : Base(line) {}
  device_vector(const device_vector& other, details::Line line = {}) : Base(other, line) {}
  device_vector(device_vector&&) noexcept = default;
  device_vector& operator=(const device_vector&) = default;
  device_vector& operator=(device_vector&&) noexcept = default;
};
template <class T, class Allocator = universal_allocator<T>>
using universal_vector = device_vector<T, Allocator>;

template <class T, class Allocator>
class host_vector : public ::std::vector<T, Allocator> {
  using Base = ::std::vector<T, Allocator>;

 public:
  using Base::Base;
  using Base::operator=;
  host_vector() = default;
  host_vector(const Base& other) : Base(other) {}
  template <details::IsVector Other>
  host_vector(const Other& other, details::Line line = {}) : Base(other.size()) {
    details::Algorithm<details::Copy>()(other.begin(), other.end(), this->begin(), line);
  }
  template <details::IsVector Other>
  host_vector& operator=(const Other& other) {
    this->resize(other.size());
    details::Algorithm<details::Copy>()(other.begin(), other.end(), this->begin());
    return *this;
  }
};

template <details::IsVector A, details::IsVector B>
bool operator==(const A& a, const B& b) {
  const auto left = details::on_host(a), right = details::on_host(b);
  return ::std::equal(left.begin(), left.end(), right.begin(), right.end());
}
template <details::IsVector A, details::IsVector B>
bool operator!=(const A& a, const B& b) {
  return !(a == b);
}

}  // namespace thrust
