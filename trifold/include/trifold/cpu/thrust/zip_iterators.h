// Thrust's iterators of tuples, functions of tuples' elements, and iterators that pass on what is written to them.
#pragma once

#include <trifold/cpu/thrust/iterators.h>

namespace thrust {

template <class Iterators>
class zip_iterator;

template <class... Iterators>
class zip_iterator<::std::tuple<Iterators...>>
    : public details::Facade<zip_iterator<::std::tuple<Iterators...>>, ::std::tuple<details::ValueOf<Iterators>...>,
                             ::std::tuple<details::ReferenceOf<Iterators>...>> {
  using All = ::std::tuple<Iterators...>;

 public:
  static constexpr System thrust_system = details::system_of_all<Iterators...>();

  zip_iterator() = default;
  zip_iterator(All iterators) : iterators_(iterators) {}
  template <class... Others, class = std::enable_if_t<std::is_convertible_v<::std::tuple<Others...>, All>>>
  zip_iterator(const zip_iterator<::std::tuple<Others...>>& other) : iterators_(other.get_iterator_tuple()) {}

  const All& get_iterator_tuple() const { return iterators_; }
  ::std::tuple<details::ReferenceOf<Iterators>...> dereference() const {
    return ::std::apply([](const Iterators&... it) { return ::std::tuple<details::ReferenceOf<Iterators>...>(*it...); },
                        iterators_);
  }
  void advance(ptrdiff_t n) {
    ::std::apply([n](Iterators&... it) { ((it += n), ...); }, iterators_);
  }
  ptrdiff_t distance_to(const zip_iterator& other) const {
    return ::std::get<0>(other.iterators_) - ::std::get<0>(iterators_);
  }
  auto raw() const {
    return ::std::apply(
        [](const Iterators&... it) {
          return zip_iterator<::std::tuple<details::Raw<Iterators>...>>(
              ::std::tuple<details::Raw<Iterators>...>(details::raw(it)...));
        },
        iterators_);
  }
  auto pointers() const {
    return ::std::apply([](const Iterators&... it) { return ::std::tuple_cat(details::pointers(it)...); }, iterators_);
  }

 private:
  All iterators_;
};

template <class... Iterators>
zip_iterator<::std::tuple<Iterators...>> make_zip_iterator(::std::tuple<Iterators...> iterators) {
  return {iterators};
}
template <class First, class... Iterators>
  requires requires(First& it) { *it; }
zip_iterator<::std::tuple<First, Iterators...>> make_zip_iterator(First first, Iterators... others) {
  return {::std::tuple<First, Iterators...>(first, others...)};
}

// Calls a function with the elements of a tuple.
template <class F>
class zip_function {
 public:
  explicit zip_function(F f) : f_(f) {}

  template <class Tuple>
  decltype(auto) operator()(Tuple&& items) const {
    F f = f_;
    return ::std::apply(f, std::forward<Tuple>(items));
  }

 private:
  F f_;
};
template <class F>
zip_function<F> make_zip_function(F f) {
  return zip_function<F>(f);
}

namespace details {

template <class F, class Iterator>
struct WriteTransformed {
  Iterator to;
  F f;

  template <class T>
  void operator()(const T& value) const {
    F own = f;
    *to = own(value);
  }
};
template <class F>
struct WriteIndexed {
  ptrdiff_t index;
  F f;

  template <class T>
  void operator()(const T& value) const {
    F own = f;
    own(index, value);
  }
};

}  // namespace details

// *it = x writes f(x).
template <class F, class Iterator>
class transform_output_iterator
    : public details::Facade<transform_output_iterator<F, Iterator>, details::ValueOf<Iterator>,
                             details::Sink<details::WriteTransformed<F, Iterator>>> {
 public:
  static constexpr System thrust_system = details::system_of<Iterator>();

  transform_output_iterator(Iterator base, F f) : base_(base), f_(f) {}

  const Iterator& base() const { return base_; }
  details::Sink<details::WriteTransformed<F, Iterator>> dereference() const { return {{base_, f_}}; }
  void advance(ptrdiff_t n) { base_ += n; }
  ptrdiff_t distance_to(const transform_output_iterator& other) const { return other.base_ - base_; }
  auto raw() const { return transform_output_iterator<F, details::Raw<Iterator>>(details::raw(base_), f_); }
  auto pointers() const { return details::pointers(base_); }

 private:
  Iterator base_;
  F f_;
};
template <class F, class Iterator>
transform_output_iterator<F, Iterator> make_transform_output_iterator(Iterator base, F f) {
  return {base, f};
}

// *it = x calls f(index, x).
template <class F, class System = use_default>
class tabulate_output_iterator : public details::Facade<tabulate_output_iterator<F, System>, details::Nothing,
                                                        details::Sink<details::WriteIndexed<F>>> {
 public:
  explicit tabulate_output_iterator(F f, ptrdiff_t index = 0) : f_(f), index_(index) {}

  details::Sink<details::WriteIndexed<F>> dereference() const { return {{index_, f_}}; }
  void advance(ptrdiff_t n) { index_ += n; }
  ptrdiff_t distance_to(const tabulate_output_iterator& other) const { return other.index_ - index_; }

 private:
  F f_;
  ptrdiff_t index_;
};
template <class F>
tabulate_output_iterator<F> make_tabulate_output_iterator(F f, ptrdiff_t index = 0) {
  return tabulate_output_iterator<F>(f, index);
}

}  // namespace thrust
