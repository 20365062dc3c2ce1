// Thrust's iterators. Each has raw(), the same iterator for kernels, on plain pointers; and pointers(), a tuple of
// these.
#pragma once

#include <trifold/cpu/thrust/memory.h>
#include <trifold/cpu/thrust/tuples.h>

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace thrust {

using ::std::advance;
using ::std::distance;
using ::std::iterator_traits;
using ::std::next;
using ::std::prev;
using ::std::random_access_iterator_tag;

namespace details {

using trifold::cpu::remove_cvref_t;

// The iterator that a kernel gets. (Those of std::vector are a class of g++'s library.)
template <class Pointer, class Container>
Pointer raw(const __gnu_cxx::__normal_iterator<Pointer, Container>& it) {
  return it.base();
}
template <class Iterator>
auto raw(const Iterator& it) {
  if constexpr (requires { it.raw(); }) {
    return it.raw();
  } else {
    return it;
  }
}
template <class Iterator>
using Raw = decltype(raw(std::declval<const Iterator&>()));

// The pointers in a raw iterator, which are a kernel's arguments.
template <class Iterator>
auto pointers(const Iterator& it) {
  if constexpr (std::is_pointer_v<Iterator>) {
    return ::std::tuple<Iterator>(it);
  } else if constexpr (requires { it.pointers(); }) {
    return it.pointers();
  } else {
    return ::std::tuple<>();
  }
}

template <class Iterator>
using ReferenceOf = decltype(*std::declval<Iterator&>());
template <class Iterator>
using ValueOf = std::remove_cv_t<typename std::iterator_traits<Iterator>::value_type>;

// The operators of a random access iterator, from Self's dereference(), advance(n) and distance_to(other).
template <class Self, class Value, class Ref, class Difference = ptrdiff_t>
class Facade {
 public:
  static constexpr System thrust_system = System::any;

  using iterator_category = std::random_access_iterator_tag;
  using value_type = Value;
  using difference_type = Difference;
  using pointer = std::add_pointer_t<Ref>;
  using reference = Ref;

  Ref operator*() const { return self().dereference(); }
  Ref operator[](Difference n) const { return (self() + n).dereference(); }
  auto operator->() const
    requires std::is_lvalue_reference_v<Ref>
  {
    return &**this;
  }
  Self& operator+=(Difference n) {
    self().advance(n);
    return self();
  }
  Self& operator-=(Difference n) { return *this += -n; }
  Self& operator++() { return *this += 1; }
  Self& operator--() { return *this -= 1; }
  Self operator++(int) {
    const Self old = self();
    ++*this;
    return old;
  }
  Self operator--(int) {
    const Self old = self();
    --*this;
    return old;
  }
  Self operator+(Difference n) const {
    Self there = self();
    there += n;
    return there;
  }
  Self operator-(Difference n) const { return *this + -n; }
  friend Self operator+(Difference n, const Self& it) { return it + n; }
  friend Difference operator-(const Self& a, const Self& b) { return b.distance_to(a); }
  friend bool operator==(const Self& a, const Self& b) { return a.distance_to(b) == 0; }
  friend bool operator!=(const Self& a, const Self& b) { return a.distance_to(b) != 0; }
  friend bool operator<(const Self& a, const Self& b) { return a.distance_to(b) > 0; }
  friend bool operator>(const Self& a, const Self& b) { return b < a; }
  friend bool operator<=(const Self& a, const Self& b) { return !(b < a); }
  friend bool operator>=(const Self& a, const Self& b) { return !(a < b); }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace details

template <class Iterator>
using iterator_value_t = typename std::iterator_traits<Iterator>::value_type;
template <class Iterator>
using iterator_reference_t = typename std::iterator_traits<Iterator>::reference;
template <class Iterator>
using iterator_difference_t = typename std::iterator_traits<Iterator>::difference_type;
template <class Iterator>
struct iterator_value {
  using type = iterator_value_t<Iterator>;
};
template <class Iterator>
struct iterator_reference {
  using type = iterator_reference_t<Iterator>;
};
template <class Iterator>
struct iterator_difference {
  using type = iterator_difference_t<Iterator>;
};

// Template parameters that the CPU ignores, such as an iterator's system, have Thrust's place in the list.
struct use_default {};

template <class T, class System = use_default, class Traversal = use_default, class Difference = use_default>
class counting_iterator : public details::Facade<counting_iterator<T, System, Traversal, Difference>, T, T> {
 public:
  counting_iterator() = default;
  explicit counting_iterator(T value) : value_(value) {}

  const T& base() const { return value_; }
  T dereference() const { return value_; }
  void advance(ptrdiff_t n) { value_ = static_cast<T>(value_ + n); }
  ptrdiff_t distance_to(const counting_iterator& other) const {
    if constexpr (requires { other.value_ - value_; } && !std::is_arithmetic_v<T>) {
      return other.value_ - value_;
    } else {
      return static_cast<ptrdiff_t>(other.value_) - static_cast<ptrdiff_t>(value_);
    }
  }

 private:
  T value_{};
};
template <class T>
counting_iterator<T> make_counting_iterator(T value) {
  return counting_iterator<T>(value);
}

template <class T, class Incrementable = use_default, class System = use_default>
class constant_iterator : public details::Facade<constant_iterator<T, Incrementable, System>, T, T> {
 public:
  constant_iterator() = default;
  constant_iterator(const T& value, ptrdiff_t at = 0) : value_(value), at_(at) {}

  const T& value() const { return value_; }
  T dereference() const { return value_; }
  void advance(ptrdiff_t n) { at_ += n; }
  ptrdiff_t distance_to(const constant_iterator& other) const { return other.at_ - at_; }

 private:
  T value_{};
  ptrdiff_t at_ = 0;
};
template <class T>
constant_iterator<T> make_constant_iterator(T value, ptrdiff_t at = 0) {
  return {value, at};
}

namespace details {

// What a write to it is given to; `Give` is called with the value.
template <class Give>
struct Sink {
  Give give;

  template <class T>
  const Sink& operator=(const T& value) const {
    give(value);
    return *this;
  }
  const Sink& operator=(const Sink&) const { return *this; }
};
struct Nothing {
  template <class T>
  void operator()(const T&) const {}
};

}  // namespace details

template <class System = use_default>
class discard_iterator
    : public details::Facade<discard_iterator<System>, details::Nothing, details::Sink<details::Nothing>> {
 public:
  discard_iterator(ptrdiff_t at = 0) : at_(at) {}

  details::Sink<details::Nothing> dereference() const { return {}; }
  void advance(ptrdiff_t n) { at_ += n; }
  ptrdiff_t distance_to(const discard_iterator& other) const { return other.at_ - at_; }

 private:
  ptrdiff_t at_;
};
inline discard_iterator<> make_discard_iterator(ptrdiff_t at = 0) {
  return {at};
}

namespace details {

template <class F, class Iterator>
using Transformed = std::invoke_result_t<F&, ReferenceOf<Raw<Iterator>>>;
template <class Given, class Else>
using Default = std::conditional_t<std::is_same_v<Given, use_default>, Else, Given>;

}  // namespace details

template <class F, class Iterator, class Ref = use_default, class Value = use_default,
          class Result = details::Default<Ref, details::Transformed<F, Iterator>>>
class transform_iterator : public details::Facade<transform_iterator<F, Iterator, Ref, Value, Result>,
                                                  details::Default<Value, details::remove_cvref_t<Result>>, Result> {
 public:
  static constexpr System thrust_system = details::system_of<Iterator>();

  transform_iterator() = default;
  explicit transform_iterator(const Iterator& base, F f = F()) : base_(base), f_(f) {}

  const Iterator& base() const { return base_; }
  F functor() const { return f_; }
  Result dereference() const {
    F f = f_;
    return f(*base_);
  }
  void advance(ptrdiff_t n) { base_ += n; }
  ptrdiff_t distance_to(const transform_iterator& other) const { return other.base_ - base_; }
  auto raw() const { return transform_iterator<F, details::Raw<Iterator>, Ref, Value>(details::raw(base_), f_); }
  auto pointers() const { return details::pointers(base_); }

 private:
  Iterator base_{};
  F f_{};
};
template <class F, class Iterator>
transform_iterator<F, Iterator> make_transform_iterator(Iterator base, F f) {
  return transform_iterator<F, Iterator>(base, f);
}

template <class Elements, class Indices>
class permutation_iterator : public details::Facade<permutation_iterator<Elements, Indices>, details::ValueOf<Elements>,
                                                    details::ReferenceOf<Elements>> {
 public:
  static constexpr System thrust_system = details::system_of_all<Elements, Indices>();

  permutation_iterator() = default;
  permutation_iterator(Elements elements, Indices indices) : elements_(elements), indices_(indices) {}

  const Indices& base() const { return indices_; }
  details::ReferenceOf<Elements> dereference() const {
    const details::ValueOf<Indices> index = *indices_;
    return *(elements_ + static_cast<ptrdiff_t>(index));
  }
  void advance(ptrdiff_t n) { indices_ += n; }
  ptrdiff_t distance_to(const permutation_iterator& other) const { return other.indices_ - indices_; }
  auto raw() const {
    return permutation_iterator<details::Raw<Elements>, details::Raw<Indices>>(details::raw(elements_),
                                                                               details::raw(indices_));
  }
  auto pointers() const { return ::std::tuple_cat(details::pointers(elements_), details::pointers(indices_)); }

 private:
  Elements elements_{};
  Indices indices_{};
};
template <class Elements, class Indices>
permutation_iterator<Elements, Indices> make_permutation_iterator(Elements elements, Indices indices) {
  return {elements, indices};
}

template <class Iterator>
class reverse_iterator
    : public details::Facade<reverse_iterator<Iterator>, details::ValueOf<Iterator>, details::ReferenceOf<Iterator>> {
 public:
  static constexpr System thrust_system = details::system_of<Iterator>();

  reverse_iterator() = default;
  explicit reverse_iterator(Iterator base) : base_(base) {}
  template <class Other, class = std::enable_if_t<std::is_convertible_v<Other, Iterator>>>
  reverse_iterator(const reverse_iterator<Other>& other) : base_(other.base()) {}

  const Iterator& base() const { return base_; }
  details::ReferenceOf<Iterator> dereference() const { return *(base_ - 1); }
  void advance(ptrdiff_t n) { base_ -= n; }
  ptrdiff_t distance_to(const reverse_iterator& other) const { return base_ - other.base_; }
  auto raw() const { return reverse_iterator<details::Raw<Iterator>>(details::raw(base_)); }
  auto pointers() const { return details::pointers(base_); }

 private:
  Iterator base_{};
};
template <class Iterator>
reverse_iterator<Iterator> make_reverse_iterator(Iterator base) {
  return reverse_iterator<Iterator>(base);
}

}  // namespace thrust
