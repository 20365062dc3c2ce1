// Thrust's binary searches, for one value, or for each of a range.
#pragma once

#include <trifold/cpu/thrust/algorithm.h>
#include <trifold/cpu/thrust/tuples.h>

namespace thrust {
namespace details {

// The index of the first item that is not before the value (`upper`: that the value is before).
template <class It, class T, class Less>
ptrdiff_t bound(const It& it, ptrdiff_t n, const T& wanted, Less& less, bool upper) {
  ptrdiff_t begin = 0;
  for (ptrdiff_t end = n; begin < end;) {
    const ptrdiff_t middle = begin + (end - begin) / 2;
    const ValueOf<It> item = it[middle];
    if (upper ? !less(wanted, item) : less(item, wanted)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}
template <class Where, class It, class T, class Less>
It search(const Where& where, It first, It last, const T& wanted, Less less, bool upper) {
  return first + where.once([n = last - first, wanted, less,
                             upper](auto it) mutable { return bound(it, n, wanted, less, upper); },
                            first);
}
template <class Where, class It, class Values, class Out, class Less>
Out search_all(const Where& where, It first, It last, Values values, Values values_end, Out out, Less less,
               bool upper) {
  where.each(
      values_end - values,
      [n = last - first, less, upper](ptrdiff_t i, auto it, auto values, auto out) mutable {
        out[i] = bound(it, n, value(values, i), less, upper);
      },
      first, values, out);
  return out + (values_end - values);
}
template <class It, class T, class Less>
bool contains(const It& it, ptrdiff_t n, const T& wanted, Less& less) {
  const ptrdiff_t at = bound(it, n, wanted, less, false);
  return at < n && !less(wanted, value(it, at));
}

struct LowerBound {
  static constexpr const char* name = "thrust::lower_bound";

  template <class Where, class It, class T, class Less = ::std::less<>>
  static It run(const Where& where, It first, It last, const T& wanted, Less less = {}) {
    return search(where, first, last, wanted, less, false);
  }
  template <class Where, class It, class Values, class Out, class Less = ::std::less<>>
  static Out run(const Where& where, It first, It last, Values values, Values values_end, Out out, Less less = {}) {
    return search_all(where, first, last, values, values_end, out, less, false);
  }
};
struct UpperBound {
  static constexpr const char* name = "thrust::upper_bound";

  template <class Where, class It, class T, class Less = ::std::less<>>
  static It run(const Where& where, It first, It last, const T& wanted, Less less = {}) {
    return search(where, first, last, wanted, less, true);
  }
  template <class Where, class It, class Values, class Out, class Less = ::std::less<>>
  static Out run(const Where& where, It first, It last, Values values, Values values_end, Out out, Less less = {}) {
    return search_all(where, first, last, values, values_end, out, less, true);
  }
};
struct EqualRange {
  static constexpr const char* name = "thrust::equal_range";

  template <class Where, class It, class T, class Less = ::std::less<>>
  static ::std::pair<It, It> run(const Where& where, It first, It last, const T& wanted, Less less = {}) {
    return {search(where, first, last, wanted, less, false), search(where, first, last, wanted, less, true)};
  }
};
struct BinarySearch {
  static constexpr const char* name = "thrust::binary_search";

  template <class Where, class It, class T, class Less = ::std::less<>>
  static bool run(const Where& where, It first, It last, const T& wanted, Less less = {}) {
    return where.once([n = last - first, wanted, less](auto it) mutable { return contains(it, n, wanted, less); },
                      first);
  }
  template <class Where, class It, class Values, class Out, class Less = ::std::less<>>
  static Out run(const Where& where, It first, It last, Values values, Values values_end, Out out, Less less = {}) {
    where.each(
        values_end - values,
        [n = last - first, less](ptrdiff_t i, auto it, auto values, auto out) mutable {
          out[i] = contains(it, n, value(values, i), less);
        },
        first, values, out);
    return out + (values_end - values);
  }
};

}  // namespace details

inline constexpr details::Algorithm<details::LowerBound> lower_bound;
inline constexpr details::Algorithm<details::UpperBound> upper_bound;
inline constexpr details::Algorithm<details::EqualRange> equal_range;
inline constexpr details::Algorithm<details::BinarySearch> binary_search;

}  // namespace thrust
