// CUB's loads and stores with hints for caches, which do nothing here, and iterators of them.
#pragma once

#include <trifold/cpu/cub/types.h>

#include <cstddef>
#include <iterator>

namespace cub {

enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };

template <CacheLoadModifier modifier, class Iterator>
__forceinline__ auto ThreadLoad(Iterator from) {
  return *from;
}
template <CacheStoreModifier modifier, class Iterator, class T>
__forceinline__ void ThreadStore(Iterator to, T value) {
  *to = value;
}

template <CacheLoadModifier modifier, class T, class Offset = ptrdiff_t>
class CacheModifiedInputIterator {
 public:
  using difference_type = Offset;
  using value_type = T;
  using pointer = T*;
  using reference = T;
  using iterator_category = ::std::random_access_iterator_tag;

  T* ptr;

  template <class Qualified>
  CacheModifiedInputIterator(Qualified* pointer) : ptr(const_cast<std::remove_cv_t<Qualified>*>(pointer)) {}

  __forceinline__ T operator*() const { return *ptr; }
  template <class Distance>
  __forceinline__ T operator[](Distance n) const {
    return ptr[n];
  }
  T* operator->() { return ptr; }
  CacheModifiedInputIterator& operator++() { return *this += 1; }
  CacheModifiedInputIterator operator++(int) {
    CacheModifiedInputIterator old = *this;
    ++ptr;
    return old;
  }
  template <class Distance>
  CacheModifiedInputIterator& operator+=(Distance n) {
    ptr += n;
    return *this;
  }
  template <class Distance>
  CacheModifiedInputIterator& operator-=(Distance n) {
    ptr -= n;
    return *this;
  }
  template <class Distance>
  CacheModifiedInputIterator operator+(Distance n) const {
    return ptr + n;
  }
  template <class Distance>
  CacheModifiedInputIterator operator-(Distance n) const {
    return ptr - n;
  }
  Offset operator-(const CacheModifiedInputIterator& other) const { return static_cast<Offset>(ptr - other.ptr); }
  bool operator==(const CacheModifiedInputIterator& other) const { return ptr == other.ptr; }
  bool operator!=(const CacheModifiedInputIterator& other) const { return ptr != other.ptr; }
};

// Writes pass through a reference, which is assigned to.
template <CacheStoreModifier modifier, class T, class Offset = ptrdiff_t>
class CacheModifiedOutputIterator {
 public:
  using difference_type = Offset;
  using value_type = void;
  using pointer = void;
  using reference = T&;
  using iterator_category = ::std::random_access_iterator_tag;

  template <class Qualified>
  CacheModifiedOutputIterator(Qualified* pointer) : ptr_(const_cast<std::remove_cv_t<Qualified>*>(pointer)) {}

  T& operator*() const { return *ptr_; }
  template <class Distance>
  T& operator[](Distance n) const {
    return ptr_[n];
  }
  template <class Distance>
  CacheModifiedOutputIterator operator+(Distance n) const {
    return ptr_ + n;
  }
  template <class Distance>
  CacheModifiedOutputIterator& operator+=(Distance n) {
    ptr_ += n;
    return *this;
  }
  CacheModifiedOutputIterator& operator++() { return *this += 1; }

 private:
  T* ptr_;
};

}  // namespace cub
