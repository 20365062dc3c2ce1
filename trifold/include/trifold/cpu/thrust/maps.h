// Thrust's algorithms that treat each item for itself: on the device, each is a thread's.
#pragma once

#include <trifold/cpu/thrust/copies.h>

namespace thrust {
namespace details {

struct ForEachN {
  static constexpr const char* name = "thrust::for_each";

  template <class Where, class In, class N, class F>
  static In run(const Where& where, In first, N n, F f) {
    where.each(
        n,
        [f](ptrdiff_t i, auto in) mutable {
          auto&& one = in[i];  // an lvalue: the functor may take a reference
          f(one);
        },
        first);
    return first + n;
  }
};
struct ForEach {
  static constexpr const char* name = "thrust::for_each";

  template <class Where, class In, class F>
  static In run(const Where& where, In first, In last, F f) {
    return ForEachN::run(where, first, last - first, f);
  }
};

struct Transform {
  static constexpr const char* name = "thrust::transform";

  template <class Where, class In, class Out, class Op>
  static Out run(const Where& where, In first, In last, Out out, Op op) {
    where.each(last - first, [op](ptrdiff_t i, auto in, auto out) mutable { out[i] = op(item(in, i)); }, first, out);
    return out + (last - first);
  }
  template <class Where, class A, class B, class Out, class Op>
  static Out run(const Where& where, A first, A last, B second, Out out, Op op) {
    where.each(
        last - first, [op](ptrdiff_t i, auto a, auto b, auto out) mutable { out[i] = op(item(a, i), item(b, i)); },
        first, second, out);
    return out + (last - first);
  }
};
struct TransformIf {
  static constexpr const char* name = "thrust::transform_if";

  template <class Where, class In, class Out, class Op, class Pred>
  static Out run(const Where& where, In first, In last, Out out, Op op, Pred pred) {
    return run(where, first, last, first, out, op, pred);
  }
  template <class Where, class In, class Stencil, class Out, class Op, class Pred>
  static Out run(const Where& where, In first, In last, Stencil stencil, Out out, Op op, Pred pred) {
    where.each(
        last - first,
        [op, pred](ptrdiff_t i, auto in, auto stencil, auto out) mutable {
          if (pred(item(stencil, i))) out[i] = op(item(in, i));
        },
        first, stencil, out);
    return out + (last - first);
  }
  template <class Where, class A, class B, class Stencil, class Out, class Op, class Pred>
  static Out run(const Where& where, A first, A last, B second, Stencil stencil, Out out, Op op, Pred pred) {
    where.each(
        last - first,
        [op, pred](ptrdiff_t i, auto a, auto b, auto stencil, auto out) mutable {
          if (pred(item(stencil, i))) out[i] = op(item(a, i), item(b, i));
        },
        first, second, stencil, out);
    return out + (last - first);
  }
};

struct Tabulate {
  static constexpr const char* name = "thrust::tabulate";

  template <class Where, class Out, class Op>
  static void run(const Where& where, Out first, Out last, Op op) {
    where.each(last - first, [op](ptrdiff_t i, auto out) mutable { out[i] = op(i); }, first);
  }
};
struct Sequence {
  static constexpr const char* name = "thrust::sequence";

  template <class Where, class Out, class T = ValueOf<Out>, class Step = T>
  static void run(const Where& where, Out first, Out last, T init = T(0), Step step = Step(1)) {
    where.each(
        last - first,
        [init, step](ptrdiff_t i, auto out) {
          out[i] = static_cast<T>(init + static_cast<T>(step) * static_cast<T>(i));
        },
        first);
  }
};
struct Fill {
  static constexpr const char* name = "thrust::fill";

  template <class Where, class Out, class T>
  static void run(const Where& where, Out first, Out last, const T& value) {
    where.each(last - first, [value](ptrdiff_t i, auto out) { out[i] = static_cast<ValueOf<Out>>(value); }, first);
  }
};
struct FillN {
  static constexpr const char* name = "thrust::fill_n";

  template <class Where, class Out, class N, class T>
  static Out run(const Where& where, Out first, N n, const T& value) {
    Fill::run(where, first, first + n, value);
    return first + n;
  }
};
// On the device, each thread has its own copy of the generator, so that a state does not advance.
struct Generate {
  static constexpr const char* name = "thrust::generate";

  template <class Where, class Out, class G>
  static void run(const Where& where, Out first, Out last, G g) {
    where.each(last - first, [g](ptrdiff_t i, auto out) mutable { out[i] = g(); }, first);
  }
};
struct GenerateN {
  static constexpr const char* name = "thrust::generate_n";

  template <class Where, class Out, class N, class G>
  static Out run(const Where& where, Out first, N n, G g) {
    Generate::run(where, first, first + n, g);
    return first + n;
  }
};

// The truth of a stencil's item.
struct IsTrue {
  template <class T>
  bool operator()(const T& x) const {
    return static_cast<bool>(x);
  }
};

struct Gather {
  static constexpr const char* name = "thrust::gather";

  template <class Where, class Map, class In, class Out>
  static Out run(const Where& where, Map first, Map last, In in, Out out) {
    where.each(
        last - first, [](ptrdiff_t i, auto map, auto in, auto out) { out[i] = item(in, item(map, i)); }, first, in,
        out);
    return out + (last - first);
  }
};
struct GatherIf {
  static constexpr const char* name = "thrust::gather_if";

  template <class Where, class Map, class Stencil, class In, class Out, class Pred = IsTrue>
  static Out run(const Where& where, Map first, Map last, Stencil stencil, In in, Out out, Pred pred = {}) {
    where.each(
        last - first,
        [pred](ptrdiff_t i, auto map, auto stencil, auto in, auto out) mutable {
          if (pred(item(stencil, i))) out[i] = item(in, item(map, i));
        },
        first, stencil, in, out);
    return out + (last - first);
  }
};
// Two items for one place are a race.
struct Scatter {
  static constexpr const char* name = "thrust::scatter";

  template <class Where, class In, class Map, class Out>
  static void run(const Where& where, In first, In last, Map map, Out out) {
    where.each(
        last - first, [](ptrdiff_t i, auto in, auto map, auto out) { out[item(map, i)] = item(in, i); }, first, map,
        out);
  }
};
struct ScatterIf {
  static constexpr const char* name = "thrust::scatter_if";

  template <class Where, class In, class Map, class Stencil, class Out, class Pred = IsTrue>
  static void run(const Where& where, In first, In last, Map map, Stencil stencil, Out out, Pred pred = {}) {
    where.each(
        last - first,
        [pred](ptrdiff_t i, auto in, auto map, auto stencil, auto out) mutable {
          if (pred(item(stencil, i))) out[item(map, i)] = item(in, i);
        },
        first, map, stencil, out);
  }
};

struct ReplaceIf {
  static constexpr const char* name = "thrust::replace_if";

  template <class Where, class It, class Pred, class T>
  static void run(const Where& where, It first, It last, Pred pred, const T& value) {
    run(where, first, last, first, pred, value);
  }
  template <class Where, class It, class Stencil, class Pred, class T>
  static void run(const Where& where, It first, It last, Stencil stencil, Pred pred, const T& value) {
    where.each(
        last - first,
        [pred, value](ptrdiff_t i, auto it, auto stencil) mutable {
          if (pred(item(stencil, i))) it[i] = value;
        },
        first, stencil);
  }
};
struct Replace {
  static constexpr const char* name = "thrust::replace";

  template <class Where, class It, class T>
  static void run(const Where& where, It first, It last, const T& old, const T& value) {
    ReplaceIf::run(where, first, last, Equals<T>{old}, value);
  }
};
struct ReplaceCopyIf {
  static constexpr const char* name = "thrust::replace_copy_if";

  template <class Where, class In, class Out, class Pred, class T>
  static Out run(const Where& where, In first, In last, Out out, Pred pred, const T& value) {
    return run(where, first, last, first, out, pred, value);
  }
  template <class Where, class In, class Stencil, class Out, class Pred, class T>
  static Out run(const Where& where, In first, In last, Stencil stencil, Out out, Pred pred, const T& value) {
    where.each(
        last - first,
        [pred, value](ptrdiff_t i, auto in, auto stencil, auto out) mutable {
          out[i] = pred(item(stencil, i)) ? static_cast<ValueOf<In>>(value) : details::value(in, i);
        },
        first, stencil, out);
    return out + (last - first);
  }
};
struct ReplaceCopy {
  static constexpr const char* name = "thrust::replace_copy";

  template <class Where, class In, class Out, class T>
  static Out run(const Where& where, In first, In last, Out out, const T& old, const T& value) {
    return ReplaceCopyIf::run(where, first, last, out, Equals<T>{old}, value);
  }
};

struct SwapRanges {
  static constexpr const char* name = "thrust::swap_ranges";

  template <class Where, class A, class B>
  static B run(const Where& where, A first, A last, B second) {
    where.each(
        last - first,
        [](ptrdiff_t i, auto a, auto b) {
          const ValueOf<A> old = a[i];
          a[i] = value(b, i);
          b[i] = old;
        },
        first, second);
    return second + (last - first);
  }
};
struct Reverse {
  static constexpr const char* name = "thrust::reverse";

  template <class Where, class It>
  static void run(const Where& where, It first, It last) {
    const ptrdiff_t n = last - first;
    SwapRanges::run(where, first, first + n / 2, reverse_iterator<It>(last));
  }
};
struct ReverseCopy {
  static constexpr const char* name = "thrust::reverse_copy";

  template <class Where, class In, class Out>
  static Out run(const Where& where, In first, In last, Out out) {
    return Copy::run(where, reverse_iterator<In>(last), reverse_iterator<In>(first), out);
  }
};

}  // namespace details

using ::std::swap;

inline constexpr details::Algorithm<details::ForEach> for_each;
inline constexpr details::Algorithm<details::ForEachN> for_each_n;
inline constexpr details::Algorithm<details::Transform> transform;
inline constexpr details::Algorithm<details::TransformIf> transform_if;
inline constexpr details::Algorithm<details::Tabulate> tabulate;
inline constexpr details::Algorithm<details::Sequence> sequence;
inline constexpr details::Algorithm<details::Fill> fill;
inline constexpr details::Algorithm<details::FillN> fill_n;
inline constexpr details::Algorithm<details::Fill> uninitialized_fill;
inline constexpr details::Algorithm<details::FillN> uninitialized_fill_n;
inline constexpr details::Algorithm<details::Generate> generate;
inline constexpr details::Algorithm<details::GenerateN> generate_n;
inline constexpr details::Algorithm<details::Gather> gather;
inline constexpr details::Algorithm<details::GatherIf> gather_if;
inline constexpr details::Algorithm<details::Scatter> scatter;
inline constexpr details::Algorithm<details::ScatterIf> scatter_if;
inline constexpr details::Algorithm<details::Replace> replace;
inline constexpr details::Algorithm<details::ReplaceIf> replace_if;
inline constexpr details::Algorithm<details::ReplaceCopy> replace_copy;
inline constexpr details::Algorithm<details::ReplaceCopyIf> replace_copy_if;
inline constexpr details::Algorithm<details::SwapRanges> swap_ranges;
inline constexpr details::Algorithm<details::Reverse> reverse;
inline constexpr details::Algorithm<details::ReverseCopy> reverse_copy;

}  // namespace thrust
