// Thrust's reductions, which one thread of the device computes from the first item to the last.
#pragma once

#include <trifold/cpu/thrust/algorithm.h>
#include <trifold/cpu/thrust/tuples.h>

namespace thrust {
namespace details {

struct Reduce {
  static constexpr const char* name = "thrust::reduce";

  template <class Where, class In, class T = ValueOf<In>, class Op = ::std::plus<T>>
  static T run(const Where& where, In first, In last, T init = T(), Op op = {}) {
    return where.once(
        [n = last - first, init, op](auto in) mutable {
          T sum = init;
          for (ptrdiff_t i = 0; i < n; ++i) sum = op(sum, value(in, i));
          return sum;
        },
        first);
  }
};
struct TransformReduce {
  static constexpr const char* name = "thrust::transform_reduce";

  template <class Where, class In, class Transform, class T, class Op>
  static T run(const Where& where, In first, In last, Transform transform, T init, Op op) {
    return where.once(
        [n = last - first, transform, init, op](auto in) mutable {
          T sum = init;
          for (ptrdiff_t i = 0; i < n; ++i) sum = op(sum, transform(item(in, i)));
          return sum;
        },
        first);
  }
};
struct InnerProduct {
  static constexpr const char* name = "thrust::inner_product";

  template <class Where, class A, class B, class T, class Sum = ::std::plus<T>, class Product = ::std::multiplies<T>>
  static T run(const Where& where, A first, A last, B second, T init, Sum add = {}, Product multiply = {}) {
    return where.once(
        [n = last - first, init, add, multiply](auto a, auto b) mutable {
          T sum = init;
          for (ptrdiff_t i = 0; i < n; ++i) sum = add(sum, multiply(item(a, i), item(b, i)));
          return sum;
        },
        first, second);
  }
};
// One result for each run of equal keys.
struct ReduceByKey {
  static constexpr const char* name = "thrust::reduce_by_key";

  template <class Where, class Keys, class In, class Found, class Out, class Pred = ::std::equal_to<ValueOf<Keys>>,
            class Op = ::std::plus<ValueOf<In>>>
  static ::std::pair<Found, Out> run(const Where& where, Keys first, Keys last, In in, Found found, Out out,
                                     Pred same = {}, Op op = {}) {
    const ptrdiff_t runs = where.once(
        [n = last - first, same, op](auto keys, auto in, auto found, auto out) mutable {
          ptrdiff_t runs = 0;
          for (ptrdiff_t i = 0; i < n; ++runs) {
            ValueOf<Keys> key = value(keys, i);
            ValueOf<In> sum = value(in, i);
            found[runs] = key;
            for (++i; i < n; ++i) {
              const ValueOf<Keys> next = value(keys, i);
              if (!same(key, next)) break;
              sum = op(sum, value(in, i));
              key = next;
            }
            out[runs] = sum;
          }
          return runs;
        },
        first, in, found, out);
    return {found + runs, out + runs};
  }
};

struct CountIf {
  static constexpr const char* name = "thrust::count_if";

  template <class Where, class In, class Pred>
  static ptrdiff_t run(const Where& where, In first, In last, Pred pred) {
    return where.once(
        [n = last - first, pred](auto in) mutable {
          ptrdiff_t found = 0;
          for (ptrdiff_t i = 0; i < n; ++i) found += pred(item(in, i)) ? 1 : 0;
          return found;
        },
        first);
  }
};
struct Count {
  static constexpr const char* name = "thrust::count";

  template <class Where, class In, class T>
  static ptrdiff_t run(const Where& where, In first, In last, const T& value) {
    return CountIf::run(where, first, last, Equals<T>{value});
  }
};

// The index of the first item for which `pred` has this result; n: there is none.
template <class Where, class In, class Pred>
ptrdiff_t index_of(const Where& where, In first, ptrdiff_t n, Pred pred, bool result) {
  return where.once(
      [n, pred, result](auto in) mutable {
        ptrdiff_t i = 0;
        while (i < n && static_cast<bool>(pred(item(in, i))) != result) ++i;
        return i;
      },
      first);
}
struct FindIf {
  static constexpr const char* name = "thrust::find_if";

  template <class Where, class In, class Pred>
  static In run(const Where& where, In first, In last, Pred pred) {
    return first + index_of(where, first, last - first, pred, true);
  }
};
struct FindIfNot {
  static constexpr const char* name = "thrust::find_if_not";

  template <class Where, class In, class Pred>
  static In run(const Where& where, In first, In last, Pred pred) {
    return first + index_of(where, first, last - first, pred, false);
  }
};
struct Find {
  static constexpr const char* name = "thrust::find";

  template <class Where, class In, class T>
  static In run(const Where& where, In first, In last, const T& value) {
    return first + index_of(where, first, last - first, Equals<T>{value}, true);
  }
};
struct AllOf {
  static constexpr const char* name = "thrust::all_of";

  template <class Where, class In, class Pred>
  static bool run(const Where& where, In first, In last, Pred pred) {
    return index_of(where, first, last - first, pred, false) == last - first;
  }
};
struct AnyOf {
  static constexpr const char* name = "thrust::any_of";

  template <class Where, class In, class Pred>
  static bool run(const Where& where, In first, In last, Pred pred) {
    return index_of(where, first, last - first, pred, true) < last - first;
  }
};
struct NoneOf {
  static constexpr const char* name = "thrust::none_of";

  template <class Where, class In, class Pred>
  static bool run(const Where& where, In first, In last, Pred pred) {
    return !AnyOf::run(where, first, last, pred);
  }
};

// The index of the first pair that differs; n: there is none.
template <class Where, class A, class B, class Pred>
ptrdiff_t index_of_difference(const Where& where, A first, ptrdiff_t n, B second, Pred same) {
  return where.once(
      [n, same](auto a, auto b) mutable {
        ptrdiff_t i = 0;
        while (i < n && same(item(a, i), item(b, i))) ++i;
        return i;
      },
      first, second);
}
struct Equal {
  static constexpr const char* name = "thrust::equal";

  template <class Where, class A, class B, class Pred = ::std::equal_to<>>
  static bool run(const Where& where, A first, A last, B second, Pred same = {}) {
    return index_of_difference(where, first, last - first, second, same) == last - first;
  }
};
struct Mismatch {
  static constexpr const char* name = "thrust::mismatch";

  template <class Where, class A, class B, class Pred = ::std::equal_to<>>
  static ::std::pair<A, B> run(const Where& where, A first, A last, B second, Pred same = {}) {
    const ptrdiff_t i = index_of_difference(where, first, last - first, second, same);
    return {first + i, second + i};
  }
};
struct IsSortedUntil {
  static constexpr const char* name = "thrust::is_sorted";

  template <class Where, class In, class Less = ::std::less<>>
  static In run(const Where& where, In first, In last, Less less = {}) {
    return first + where.once(
                       [n = last - first, less](auto in) mutable {
                         ptrdiff_t i = ::std::min<ptrdiff_t>(n, 1);
                         while (i < n && !less(value(in, i), value(in, i - 1))) ++i;
                         return i;
                       },
                       first);
  }
};
struct IsSorted {
  static constexpr const char* name = "thrust::is_sorted";

  template <class Where, class In, class Less = ::std::less<>>
  static bool run(const Where& where, In first, In last, Less less = {}) {
    return IsSortedUntil::run(where, first, last, less) == last;
  }
};

// The indices of the first smallest and the first largest item.
template <class Where, class In, class Less>
::std::pair<ptrdiff_t, ptrdiff_t> extremes(const Where& where, In first, In last, Less less) {
  return where.once(
      [n = last - first, less](auto in) mutable {
        ::std::pair<ptrdiff_t, ptrdiff_t> found{0, 0};
        for (ptrdiff_t i = 1; i < n; ++i) {
          const ValueOf<In> item = value(in, i);
          if (less(item, value(in, found.first))) found.first = i;
          if (less(value(in, found.second), item)) found.second = i;
        }
        return found;
      },
      first);
}
struct MinElement {
  static constexpr const char* name = "thrust::min_element";

  template <class Where, class In, class Less = ::std::less<>>
  static In run(const Where& where, In first, In last, Less less = {}) {
    return first + extremes(where, first, last, less).first;
  }
};
struct MaxElement {
  static constexpr const char* name = "thrust::max_element";

  template <class Where, class In, class Less = ::std::less<>>
  static In run(const Where& where, In first, In last, Less less = {}) {
    return first + extremes(where, first, last, less).second;
  }
};
struct MinmaxElement {
  static constexpr const char* name = "thrust::minmax_element";

  template <class Where, class In, class Less = ::std::less<>>
  static ::std::pair<In, In> run(const Where& where, In first, In last, Less less = {}) {
    const auto [smallest, largest] = extremes(where, first, last, less);
    return {first + smallest, first + largest};
  }
};

}  // namespace details

using ::std::max, ::std::min;

inline constexpr details::Algorithm<details::Reduce> reduce;
inline constexpr details::Algorithm<details::TransformReduce> transform_reduce;
inline constexpr details::Algorithm<details::InnerProduct> inner_product;
inline constexpr details::Algorithm<details::ReduceByKey> reduce_by_key;
inline constexpr details::Algorithm<details::Count> count;
inline constexpr details::Algorithm<details::CountIf> count_if;
inline constexpr details::Algorithm<details::Find> find;
inline constexpr details::Algorithm<details::FindIf> find_if;
inline constexpr details::Algorithm<details::FindIfNot> find_if_not;
inline constexpr details::Algorithm<details::AllOf> all_of;
inline constexpr details::Algorithm<details::AnyOf> any_of;
inline constexpr details::Algorithm<details::NoneOf> none_of;
inline constexpr details::Algorithm<details::Equal> equal;
inline constexpr details::Algorithm<details::Mismatch> mismatch;
inline constexpr details::Algorithm<details::IsSorted> is_sorted;
inline constexpr details::Algorithm<details::IsSortedUntil> is_sorted_until;
inline constexpr details::Algorithm<details::MinElement> min_element;
inline constexpr details::Algorithm<details::MaxElement> max_element;
inline constexpr details::Algorithm<details::MinmaxElement> minmax_element;

}  // namespace thrust
