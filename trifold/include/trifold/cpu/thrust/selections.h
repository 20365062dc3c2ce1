// Thrust's algorithms that keep some items, in their order: one thread of the device goes through them, so that the
// result may be in the items' place.
#pragma once

#include <trifold/cpu/thrust/algorithm.h>
#include <trifold/cpu/thrust/tuples.h>

namespace thrust {
namespace details {

// Writes the items whose stencil gives this result to `out`; returns how many there are.
template <class Where, class In, class Stencil, class Out, class Pred>
ptrdiff_t keep(const Where& where, In first, ptrdiff_t n, Stencil stencil, Out out, Pred pred, bool result) {
  return where.once(
      [n, pred, result](auto in, auto stencil, auto out) mutable {
        ptrdiff_t kept = 0;
        for (ptrdiff_t i = 0; i < n; ++i)
          if (static_cast<bool>(pred(item(stencil, i))) == result) out[kept++] = value(in, i);
        return kept;
      },
      first, stencil, out);
}

struct CopyIf {
  static constexpr const char* name = "thrust::copy_if";

  template <class Where, class In, class Out, class Pred>
  static Out run(const Where& where, In first, In last, Out out, Pred pred) {
    return run(where, first, last, first, out, pred);
  }
  template <class Where, class In, class Stencil, class Out, class Pred>
  static Out run(const Where& where, In first, In last, Stencil stencil, Out out, Pred pred) {
    return out + keep(where, first, last - first, stencil, out, pred, true);
  }
};
struct RemoveCopyIf {
  static constexpr const char* name = "thrust::remove_copy_if";

  template <class Where, class In, class Out, class Pred>
  static Out run(const Where& where, In first, In last, Out out, Pred pred) {
    return run(where, first, last, first, out, pred);
  }
  template <class Where, class In, class Stencil, class Out, class Pred>
  static Out run(const Where& where, In first, In last, Stencil stencil, Out out, Pred pred) {
    return out + keep(where, first, last - first, stencil, out, pred, false);
  }
};
struct RemoveCopy {
  static constexpr const char* name = "thrust::remove_copy";

  template <class Where, class In, class Out, class T>
  static Out run(const Where& where, In first, In last, Out out, const T& value) {
    return RemoveCopyIf::run(where, first, last, out, Equals<T>{value});
  }
};
struct RemoveIf {
  static constexpr const char* name = "thrust::remove_if";

  template <class Where, class It, class Pred>
  static It run(const Where& where, It first, It last, Pred pred) {
    return run(where, first, last, first, pred);
  }
  template <class Where, class It, class Stencil, class Pred>
  static It run(const Where& where, It first, It last, Stencil stencil, Pred pred) {
    return first + keep(where, first, last - first, stencil, first, pred, false);
  }
};
struct Remove {
  static constexpr const char* name = "thrust::remove";

  template <class Where, class It, class T>
  static It run(const Where& where, It first, It last, const T& value) {
    return RemoveIf::run(where, first, last, Equals<T>{value});
  }
};

struct UniqueByKeyCopy {
  static constexpr const char* name = "thrust::unique_by_key_copy";

  template <class Where, class Keys, class Values, class OutKeys, class OutValues, class Pred = ::std::equal_to<>>
  static ::std::pair<OutKeys, OutValues> run(const Where& where, Keys first, Keys last, Values values, OutKeys out,
                                             OutValues out_values, Pred same = {}) {
    const ptrdiff_t kept = where.once(
        [n = last - first, same](auto keys, auto values, auto out, auto out_values) mutable {
          ptrdiff_t kept = 0;
          std::optional<ValueOf<Keys>> before;
          for (ptrdiff_t i = 0; i < n; ++i) {
            const ValueOf<Keys> key = value(keys, i);
            if (!before.has_value() || !same(*before, key)) {
              out[kept] = key;
              out_values[kept++] = value(values, i);
            }
            before.emplace(key);
          }
          return kept;
        },
        first, values, out, out_values);
    return {out + kept, out_values + kept};
  }
};
struct UniqueByKey {
  static constexpr const char* name = "thrust::unique_by_key";

  template <class Where, class Keys, class Values, class Pred = ::std::equal_to<>>
  static ::std::pair<Keys, Values> run(const Where& where, Keys first, Keys last, Values values, Pred same = {}) {
    return UniqueByKeyCopy::run(where, first, last, values, first, values, same);
  }
};
struct UniqueCopy {
  static constexpr const char* name = "thrust::unique_copy";

  template <class Where, class In, class Out, class Pred = ::std::equal_to<>>
  static Out run(const Where& where, In first, In last, Out out, Pred same = {}) {
    return UniqueByKeyCopy::run(where, first, last, counting_iterator<ptrdiff_t>(0), out, discard_iterator<>(), same)
        .first;
  }
};
struct Unique {
  static constexpr const char* name = "thrust::unique";

  template <class Where, class It, class Pred = ::std::equal_to<>>
  static It run(const Where& where, It first, It last, Pred same = {}) {
    return UniqueCopy::run(where, first, last, first, same);
  }
};
struct UniqueCount {
  static constexpr const char* name = "thrust::unique_count";

  template <class Where, class In, class Pred = ::std::equal_to<>>
  static ptrdiff_t run(const Where& where, In first, In last, Pred same = {}) {
    return UniqueCopy::run(where, first, last, discard_iterator<>(), same) - discard_iterator<>();
  }
};

struct PartitionCopy {
  static constexpr const char* name = "thrust::partition_copy";

  template <class Where, class In, class Yes, class No, class Pred>
  static ::std::pair<Yes, No> run(const Where& where, In first, In last, Yes yes, No no, Pred pred) {
    return run(where, first, last, first, yes, no, pred);
  }
  template <class Where, class In, class Stencil, class Yes, class No, class Pred>
  static ::std::pair<Yes, No> run(const Where& where, In first, In last, Stencil stencil, Yes yes, No no, Pred pred) {
    const ptrdiff_t n = last - first, kept = keep(where, first, n, stencil, yes, pred, true);
    return {yes + kept, no + keep(where, first, n, stencil, no, pred, false)};
  }
};
struct Partition {
  static constexpr const char* name = "thrust::partition";

  template <class Where, class It, class Pred>
  static It run(const Where& where, It first, It last, Pred pred) {
    return run(where, first, last, first, pred);
  }
  template <class Where, class It, class Stencil, class Pred>
  static It run(const Where& where, It first, It last, Stencil stencil, Pred pred) {
    return first + where.once(
                       [n = last - first, pred](auto it, auto stencil) mutable {
                         Scratch<ValueOf<It>> others(n);
                         ptrdiff_t kept = 0;
                         for (ptrdiff_t i = 0; i < n; ++i) {
                           if (pred(item(stencil, i))) {
                             it[kept++] = value(it, i);
                           } else {
                             others.set(i - kept, value(it, i));
                           }
                         }
                         for (ptrdiff_t i = kept; i < n; ++i) it[i] = others[i - kept];
                         return kept;
                       },
                       first, stencil);
  }
};
struct PartitionPoint {
  static constexpr const char* name = "thrust::partition_point";

  template <class Where, class In, class Pred>
  static In run(const Where& where, In first, In last, Pred pred) {
    return first + where.once(
                       [n = last - first, pred](auto in) mutable {
                         ptrdiff_t i = 0;
                         while (i < n && pred(item(in, i))) ++i;
                         return i;
                       },
                       first);
  }
};
struct IsPartitioned {
  static constexpr const char* name = "thrust::is_partitioned";

  template <class Where, class In, class Pred>
  static bool run(const Where& where, In first, In last, Pred pred) {
    return where.once(
        [n = last - first, pred](auto in) mutable {
          ptrdiff_t i = 0;
          while (i < n && pred(item(in, i))) ++i;
          while (i < n && !pred(item(in, i))) ++i;
          return i == n;
        },
        first);
  }
};

}  // namespace details

inline constexpr details::Algorithm<details::CopyIf> copy_if;
inline constexpr details::Algorithm<details::Remove> remove;
inline constexpr details::Algorithm<details::RemoveIf> remove_if;
inline constexpr details::Algorithm<details::RemoveCopy> remove_copy;
inline constexpr details::Algorithm<details::RemoveCopyIf> remove_copy_if;
inline constexpr details::Algorithm<details::Unique> unique;
inline constexpr details::Algorithm<details::UniqueCopy> unique_copy;
inline constexpr details::Algorithm<details::UniqueCount> unique_count;
inline constexpr details::Algorithm<details::UniqueByKey> unique_by_key;
inline constexpr details::Algorithm<details::UniqueByKeyCopy> unique_by_key_copy;
inline constexpr details::Algorithm<details::Partition> partition;
inline constexpr details::Algorithm<details::Partition> stable_partition;
inline constexpr details::Algorithm<details::PartitionCopy> partition_copy;
inline constexpr details::Algorithm<details::PartitionCopy> stable_partition_copy;
inline constexpr details::Algorithm<details::PartitionPoint> partition_point;
inline constexpr details::Algorithm<details::IsPartitioned> is_partitioned;

}  // namespace thrust
