// Thrust's sorts, merges and operations on sorted sets. Sorts are stable.
#pragma once

#include <trifold/cpu/thrust/algorithm.h>
#include <trifold/cpu/thrust/tuples.h>

namespace thrust {
namespace details {

// Merges pairs of sorted runs of `width` items, given by their indices.
template <class T, class Less>
__attribute__((no_sanitize("thread"))) void merge_runs(const T* items, const ptrdiff_t* from, ptrdiff_t* to,
                                                       ptrdiff_t n, ptrdiff_t width, Less& less) {
  constexpr bool plain = std::is_arithmetic_v<T>;  // compared without calls
  for (ptrdiff_t begin = 0; begin < n; begin += 2 * width) {
    const ptrdiff_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
    ptrdiff_t a = begin, b = middle;
    for (ptrdiff_t at = begin; at < end; ++at) {
      bool takes_second = a == middle;
      if (a < middle && b < end) {
        if constexpr (plain && trifold::cpu::one_of<Less, ::std::less<>, ::std::less<T>>) {
          takes_second = items[from[b]] < items[from[a]];
        } else if constexpr (plain && trifold::cpu::one_of<Less, ::std::greater<>, ::std::greater<T>>) {
          takes_second = items[from[b]] > items[from[a]];
        } else {
          takes_second = less(load(items + from[b]), load(items + from[a]));
        }
      }
      to[at] = takes_second ? from[b++] : from[a++];
    }
  }
}
template <class Iterator>
void take_items(Iterator it, ptrdiff_t n, Scratch<ValueOf<Iterator>>& items) {
  for (ptrdiff_t i = 0; i < n; ++i) items.set(i, value(it, i));
}
// Finds the indices of the items in their sorted order.
template <class Iterator, class Less>
void find_order(Iterator it, ptrdiff_t n, Less& less, Scratch<ptrdiff_t>& order) {
  Scratch<ValueOf<Iterator>> items(n);
  take_items(it, n, items);
  for (ptrdiff_t i = 0; i < n; ++i) order.set(i, i);
  Scratch<ptrdiff_t> merged(n);
  for (ptrdiff_t width = 1; width < n; width *= 2) {
    merge_runs(items.data(), order.data(), merged.data(), n, width, less);
    order.swap(merged);
  }
}
template <class Iterator>
void permute(Iterator it, ptrdiff_t n, const Scratch<ptrdiff_t>& order) {
  Scratch<ValueOf<Iterator>> items(n);
  take_items(it, n, items);
  for (ptrdiff_t i = 0; i < n; ++i) it[i] = items[order[i]];
}

struct Sort {
  static constexpr const char* name = "thrust::sort";

  template <class Where, class It, class Less = ::std::less<>>
  static void run(const Where& where, It first, It last, Less less = {}) {
    where.once(
        [n = last - first, less](auto it) mutable {
          Scratch<ptrdiff_t> order(n);
          find_order(it, n, less, order);
          permute(it, n, order);
        },
        first);
  }
};
struct SortByKey {
  static constexpr const char* name = "thrust::sort_by_key";

  template <class Where, class Keys, class Values, class Less = ::std::less<>>
  static void run(const Where& where, Keys first, Keys last, Values values, Less less = {}) {
    where.once(
        [n = last - first, less](auto keys, auto values) mutable {
          Scratch<ptrdiff_t> order(n);
          find_order(keys, n, less, order);
          permute(keys, n, order);
          permute(values, n, order);
        },
        first, values);
  }
};

// Which items two sorted ranges contribute: those of one alone, and for equal ones the first range's; or, in a merge,
// all.
struct Takes {
  bool first, second, both, all = false;
};
// Calls write(out index, whether from the first range, index) for each result; returns how many there are.
template <class A, class B, class Less, class Write>
ptrdiff_t combine(A a, ptrdiff_t a_count, B b, ptrdiff_t b_count, Less& less, Takes takes, const Write& write) {
  ptrdiff_t made = 0;
  for (ptrdiff_t i = 0, j = 0; i < a_count || j < b_count;) {
    const bool second = i == a_count || (j < b_count && less(value(b, j), value(a, i)));
    const bool first = !second && (takes.all || j == b_count || less(value(a, i), value(b, j)));
    if (second ? takes.second : first ? takes.first : takes.both) write(made++, !second, second ? j : i);
    if (!first) ++j;
    if (!second) ++i;
  }
  return made;
}
template <class Where, class A, class B, class Out, class Less>
Out combined(const Where& where, A a, A a_end, B b, B b_end, Out out, Less less, Takes takes) {
  return out + where.once(
                   [a_count = a_end - a, b_count = b_end - b, less, takes](auto a, auto b, auto out) mutable {
                     return combine(a, a_count, b, b_count, less, takes, [&](ptrdiff_t at, bool first, ptrdiff_t i) {
                       if (first) {
                         out[at] = value(a, i);
                       } else {
                         out[at] = value(b, i);
                       }
                     });
                   },
                   a, b, out);
}

struct Merge {
  static constexpr const char* name = "thrust::merge";

  template <class Where, class A, class B, class Out, class Less = ::std::less<>>
  static Out run(const Where& where, A a, A a_end, B b, B b_end, Out out, Less less = {}) {
    return combined(where, a, a_end, b, b_end, out, less, {true, true, true, true});
  }
};
struct MergeByKey {
  static constexpr const char* name = "thrust::merge_by_key";

  template <class Where, class A, class B, class AValues, class BValues, class Keys, class Values,
            class Less = ::std::less<>>
  static ::std::pair<Keys, Values> run(const Where& where, A a, A a_end, B b, B b_end, AValues a_values,
                                       BValues b_values, Keys keys, Values values, Less less = {}) {
    const ptrdiff_t made = where.once(
        [a_count = a_end - a, b_count = b_end - b, less](auto a, auto b, auto a_values, auto b_values, auto keys,
                                                         auto values) mutable {
          return combine(a, a_count, b, b_count, less, {true, true, true, true},
                         [&](ptrdiff_t at, bool first, ptrdiff_t i) {
                           if (first) {
                             keys[at] = value(a, i), values[at] = value(a_values, i);
                           } else {
                             keys[at] = value(b, i), values[at] = value(b_values, i);
                           }
                         });
        },
        a, b, a_values, b_values, keys, values);
    return {keys + made, values + made};
  }
};
struct SetUnion {
  static constexpr const char* name = "thrust::set_union";

  template <class Where, class A, class B, class Out, class Less = ::std::less<>>
  static Out run(const Where& where, A a, A a_end, B b, B b_end, Out out, Less less = {}) {
    return combined(where, a, a_end, b, b_end, out, less, {true, true, true});
  }
};
struct SetIntersection {
  static constexpr const char* name = "thrust::set_intersection";

  template <class Where, class A, class B, class Out, class Less = ::std::less<>>
  static Out run(const Where& where, A a, A a_end, B b, B b_end, Out out, Less less = {}) {
    return combined(where, a, a_end, b, b_end, out, less, {false, false, true});
  }
};
struct SetDifference {
  static constexpr const char* name = "thrust::set_difference";

  template <class Where, class A, class B, class Out, class Less = ::std::less<>>
  static Out run(const Where& where, A a, A a_end, B b, B b_end, Out out, Less less = {}) {
    return combined(where, a, a_end, b, b_end, out, less, {true, false, false});
  }
};
struct SetSymmetricDifference {
  static constexpr const char* name = "thrust::set_symmetric_difference";

  template <class Where, class A, class B, class Out, class Less = ::std::less<>>
  static Out run(const Where& where, A a, A a_end, B b, B b_end, Out out, Less less = {}) {
    return combined(where, a, a_end, b, b_end, out, less, {true, true, false});
  }
};

}  // namespace details

inline constexpr details::Algorithm<details::Sort> sort;
inline constexpr details::Algorithm<details::Sort> stable_sort;
inline constexpr details::Algorithm<details::SortByKey> sort_by_key;
inline constexpr details::Algorithm<details::SortByKey> stable_sort_by_key;
inline constexpr details::Algorithm<details::Merge> merge;
inline constexpr details::Algorithm<details::MergeByKey> merge_by_key;
inline constexpr details::Algorithm<details::SetUnion> set_union;
inline constexpr details::Algorithm<details::SetIntersection> set_intersection;
inline constexpr details::Algorithm<details::SetDifference> set_difference;
inline constexpr details::Algorithm<details::SetSymmetricDifference> set_symmetric_difference;

}  // namespace thrust
