// cuda::std::span, which libcu++ has for C++17 as well.
#pragma once

#include <trifold/cpu/cuda_std.h>

#if __cplusplus >= 202002L
#include <span>
#else

#include <array>
#include <cstddef>
#include <iterator>
#include <type_traits>

namespace cuda::std {

inline constexpr size_t dynamic_extent = static_cast<size_t>(-1);

template <class T, size_t extent_of = dynamic_extent>
class span {
 public:
  using element_type = T;
  using value_type = ::std::remove_cv_t<T>;
  using size_type = size_t;
  using iterator = T*;
  static constexpr size_t extent = extent_of;

  constexpr span() = default;
  constexpr span(T* begin, size_t size) : begin_(begin), size_(size) {}
  constexpr span(T* begin, T* end) : begin_(begin), size_(static_cast<size_t>(end - begin)) {}
  template <size_t count>
  constexpr span(T (&array)[count]) : begin_(array), size_(count) {}
  template <class Container, class = ::std::enable_if_t<
                                 ::std::is_convertible_v<decltype(::std::data(::std::declval<Container&>())), T*> > >
  constexpr span(Container& container) : begin_(::std::data(container)), size_(::std::size(container)) {}

  constexpr T* data() const { return begin_; }
  constexpr size_t size() const { return size_; }
  constexpr size_t size_bytes() const { return size_ * sizeof(T); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& operator[](size_t i) const { return begin_[i]; }
  constexpr T& front() const { return begin_[0]; }
  constexpr T& back() const { return begin_[size_ - 1]; }
  constexpr T* begin() const { return begin_; }
  constexpr T* end() const { return begin_ + size_; }
  constexpr span<T> first(size_t count) const { return {begin_, count}; }
  constexpr span<T> last(size_t count) const { return {begin_ + (size_ - count), count}; }
  constexpr span<T> subspan(size_t at, size_t count = dynamic_extent) const {
    return {begin_ + at, count == dynamic_extent ? size_ - at : count};
  }

 private:
  T* begin_ = nullptr;
  size_t size_ = 0;
};
template <class T, size_t count>
span(T (&)[count]) -> span<T, count>;
template <class T>
span(T*, size_t) -> span<T>;

}  // namespace cuda::std

#endif
