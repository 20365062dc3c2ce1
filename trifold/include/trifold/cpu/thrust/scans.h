// Thrust's scans and differences of neighbours, which one thread of the device computes in order: results may overwrite
// the items.
#pragma once

#include <trifold/cpu/thrust/algorithm.h>

namespace thrust {
namespace details {

// out[i] = all items up to i, each transformed. `init`, if there is one, comes first.
template <class T, class Where, class In, class Out, class Transform, class Op>
Out scan_inclusive(const Where& where, In first, In last, Out out, Transform transform, std::optional<T> init, Op op) {
  where.once(
      [n = last - first, transform, sum = init, op](auto in, auto out) mutable {
        for (ptrdiff_t i = 0; i < n; ++i) {
          T next = transform(item(in, i));
          if (sum.has_value()) next = op(*sum, next);
          sum = next;
          out[i] = next;
        }
      },
      first, out);
  return out + (last - first);
}
template <class T, class Where, class In, class Out, class Transform, class Op>
Out scan_exclusive(const Where& where, In first, In last, Out out, Transform transform, T init, Op op) {
  where.once(
      [n = last - first, transform, sum = init, op](auto in, auto out) mutable {
        for (ptrdiff_t i = 0; i < n; ++i) {
          const T next = op(sum, transform(item(in, i)));
          out[i] = sum;
          sum = next;
        }
      },
      first, out);
  return out + (last - first);
}

struct Same {
  template <class T>
  T operator()(const T& x) const {
    return x;
  }
};
template <class Op, class A, class B>
using Accumulated = remove_cvref_t<std::invoke_result_t<Op&, A, B>>;

struct InclusiveScan {
  static constexpr const char* name = "thrust::inclusive_scan";

  template <class Where, class In, class Out, class Op = ::std::plus<>>
  static Out run(const Where& where, In first, In last, Out out, Op op = {}) {
    return scan_inclusive<ValueOf<In>>(where, first, last, out, Same(), {}, op);
  }
  template <class Where, class In, class Out, class T, class Op>
  static Out run(const Where& where, In first, In last, Out out, T init, Op op) {
    using Sum = Accumulated<Op, ValueOf<In>, T>;
    return scan_inclusive<Sum>(where, first, last, out, Same(), static_cast<Sum>(init), op);
  }
};
struct ExclusiveScan {
  static constexpr const char* name = "thrust::exclusive_scan";

  template <class Where, class In, class Out, class T = ValueOf<In>, class Op = ::std::plus<>>
  static Out run(const Where& where, In first, In last, Out out, T init = T(), Op op = {}) {
    return scan_exclusive<T>(where, first, last, out, Same(), init, op);
  }
};
struct TransformInclusiveScan {
  static constexpr const char* name = "thrust::transform_inclusive_scan";

  template <class Where, class In, class Out, class Transform, class Op>
  static Out run(const Where& where, In first, In last, Out out, Transform transform, Op op) {
    using T = remove_cvref_t<std::invoke_result_t<Transform&, ValueOf<In>>>;
    return scan_inclusive<T>(where, first, last, out, transform, {}, op);
  }
  template <class Where, class In, class Out, class Transform, class T, class Op>
  static Out run(const Where& where, In first, In last, Out out, Transform transform, T init, Op op) {
    using Sum = Accumulated<Op, remove_cvref_t<std::invoke_result_t<Transform&, ValueOf<In>>>, T>;
    return scan_inclusive<Sum>(where, first, last, out, transform, static_cast<Sum>(init), op);
  }
};
struct TransformExclusiveScan {
  static constexpr const char* name = "thrust::transform_exclusive_scan";

  template <class Where, class In, class Out, class Transform, class T, class Op>
  static Out run(const Where& where, In first, In last, Out out, Transform transform, T init, Op op) {
    return scan_exclusive<T>(where, first, last, out, transform, init, op);
  }
};

// Each run of equal keys has its own scan.
struct InclusiveScanByKey {
  static constexpr const char* name = "thrust::inclusive_scan_by_key";

  template <class Where, class Keys, class In, class Out, class Pred = ::std::equal_to<>, class Op = ::std::plus<>>
  static Out run(const Where& where, Keys first, Keys last, In in, Out out, Pred same = {}, Op op = {}) {
    where.once(
        [n = last - first, same, op](auto keys, auto in, auto out) mutable {
          std::optional<ValueOf<Keys>> key;
          std::optional<ValueOf<In>> sum;
          for (ptrdiff_t i = 0; i < n; ++i) {
            const ValueOf<Keys> next = value(keys, i);
            const ValueOf<In> item = value(in, i);
            sum = key.has_value() && same(*key, next) ? static_cast<ValueOf<In>>(op(*sum, item)) : item;
            key.emplace(next);
            out[i] = *sum;
          }
        },
        first, in, out);
    return out + (last - first);
  }
};
struct ExclusiveScanByKey {
  static constexpr const char* name = "thrust::exclusive_scan_by_key";

  template <class Where, class Keys, class In, class Out, class T = ValueOf<In>, class Pred = ::std::equal_to<>,
            class Op = ::std::plus<>>
  static Out run(const Where& where, Keys first, Keys last, In in, Out out, T init = T(), Pred same = {}, Op op = {}) {
    where.once(
        [n = last - first, init, same, op](auto keys, auto in, auto out) mutable {
          std::optional<ValueOf<Keys>> key;
          T sum = init;
          for (ptrdiff_t i = 0; i < n; ++i) {
            const ValueOf<Keys> next = value(keys, i);
            const ValueOf<In> item = value(in, i);
            if (key.has_value() && !same(*key, next)) sum = init;
            key.emplace(next);
            out[i] = sum;
            sum = static_cast<T>(op(sum, item));
          }
        },
        first, in, out);
    return out + (last - first);
  }
};

// The first result is the first item.
struct AdjacentDifference {
  static constexpr const char* name = "thrust::adjacent_difference";

  template <class Where, class In, class Out, class Op = ::std::minus<>>
  static Out run(const Where& where, In first, In last, Out out, Op op = {}) {
    where.once(
        [n = last - first, op](auto in, auto out) mutable {
          std::optional<ValueOf<In>> before;
          for (ptrdiff_t i = 0; i < n; ++i) {
            const ValueOf<In> item = value(in, i);
            if (before.has_value()) {
              out[i] = op(item, *before);
            } else {
              out[i] = item;
            }
            before.emplace(item);
          }
        },
        first, out);
    return out + (last - first);
  }
};

}  // namespace details

inline constexpr details::Algorithm<details::InclusiveScan> inclusive_scan;
inline constexpr details::Algorithm<details::ExclusiveScan> exclusive_scan;
inline constexpr details::Algorithm<details::TransformInclusiveScan> transform_inclusive_scan;
inline constexpr details::Algorithm<details::TransformExclusiveScan> transform_exclusive_scan;
inline constexpr details::Algorithm<details::InclusiveScanByKey> inclusive_scan_by_key;
inline constexpr details::Algorithm<details::ExclusiveScanByKey> exclusive_scan_by_key;
inline constexpr details::Algorithm<details::AdjacentDifference> adjacent_difference;

}  // namespace thrust
