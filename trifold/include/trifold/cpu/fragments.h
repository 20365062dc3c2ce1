// nvcuda::wmma: products of matrices that a warp holds in fragments (CUDA C++ Programming Guide, "Warp Matrix
// Functions"). All 32 lanes call each function together.
//
// The mapping of elements to lanes is unspecified. Here, consecutive lanes have consecutive elements in the order of
// the fragment's layout, so that they load adjacent memory. As on a GPU, a half factor has 16 elements per lane, of
// which lanes share some.
#pragma once

#include <trifold/cpu/products.h>
#include <trifold/cpu/qualifiers.h>
#include <trifold/cuda.cuh>

#include <cstdint>
#include <type_traits>

namespace nvcuda::wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
namespace precision {
struct tf32;
}
enum layout_t { mem_row_major, mem_col_major };

namespace details {

using trifold::cpu::Line;
using trifold::cpu::same_as;
using trifold::cpu::Together;
using trifold::cpu::Wait;

inline constexpr int lanes = 32;

template <class T, class... Types>
inline constexpr bool one_of = (same_as<T, Types> || ...);

// Valid shapes and types.
template <int m, int n, int k, class T>
inline constexpr bool is_factor =
    m == 16 && n == 16 && k == 8 ? same_as<T, precision::tf32>
    : m == 8 && n == 8 && k == 4 ? same_as<T, double>
                                 : k == 16 && m * n == 256 && (m == 8 || m == 16 || m == 32) &&
                                       one_of<T, __half, __nv_bfloat16, signed char, unsigned char>;
template <int m, int n, int k, class T>
inline constexpr bool is_sum =
    m == 8 && n == 8 ? k == 4 && same_as<T, double>
    : k == 8         ? m == 16 && n == 16 && same_as<T, float>
                     : k == 16 && m * n == 256 && (m == 8 || m == 16 || m == 32) && one_of<T, __half, float, int>;

// The types in memory and in a fragment.
template <class T>
using Stored = std::conditional_t<same_as<T, precision::tf32>, float, T>;

// A matrix of this many rows and columns, with `count` elements in each lane.
template <int rows_, int columns_, int count, class T, bool by_rows_>
struct alignas(8) Fragment {
  static constexpr int rows = rows_, columns = columns_;
  static constexpr bool by_rows = by_rows_;
  enum { num_elements = count, num_storage_elements = count };
  using element_type = T;
  using storage_element_type = Stored<T>;
  storage_element_type x[count];

  static TRIFOLD_OF_THE_WARP int place(int lane, int i) { return (lane * count + i) % (rows * columns); }
  static TRIFOLD_OF_THE_WARP int row(int lane, int i) {
    return by_rows ? place(lane, i) / columns : place(lane, i) % rows;
  }
  static TRIFOLD_OF_THE_WARP int column(int lane, int i) {
    return by_rows ? place(lane, i) % columns : place(lane, i) / rows;
  }
};

template <int rows, int columns, class T, bool by_rows>
using Factor = Fragment<rows, columns, same_as<T, __half> ? 16 : rows * columns / lanes, T, by_rows>;

}  // namespace details

template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment;

template <int m, int n, int k, class T, class Layout>
class fragment<matrix_a, m, n, k, T, Layout> : public details::Factor<m, k, T, details::same_as<Layout, row_major>> {
  static_assert(details::is_factor<m, n, k, T>, "wmma has no such shape for this type");
};
template <int m, int n, int k, class T, class Layout>
class fragment<matrix_b, m, n, k, T, Layout> : public details::Factor<k, n, T, details::same_as<Layout, row_major>> {
  static_assert(details::is_factor<m, n, k, T>, "wmma has no such shape for this type");
};
template <int m, int n, int k, class T>
class fragment<accumulator, m, n, k, T> : public details::Fragment<m, n, m * n / details::lanes, T, true> {
  static_assert(details::is_sum<m, n, k, T>, "wmma has no such shape for this type");
};

namespace details {

// The lanes synchronise without exchanging data.
inline void meet(Wait operation, Line line) {
  Together own{[](Together* const(&)[lanes]) {}};
  trifold::cpu::meet_whole_warp(operation, own, line);
}

template <class T>
void require_matrix(const T* matrix, unsigned stride, Line line) {
  if (reinterpret_cast<uintptr_t>(matrix) % 32 != 0)
    trifold::cpu::stop_launch("a matrix of wmma that does not begin at a multiple of 32 bytes", line);
  if (sizeof(T) > 1 && stride * sizeof(T) % 16 != 0)
    trifold::cpu::stop_launch("a matrix of wmma whose rows do not lie a multiple of 16 bytes apart", line);
}

// The place of a lane's element in memory.
template <class F>
__forceinline__ size_t offset(int i, unsigned stride, bool by_rows) {
  const int lane = static_cast<int>(trifold::cpu::lane());
  const auto row = static_cast<size_t>(F::row(lane, i)), column = static_cast<size_t>(F::column(lane, i));
  return by_rows ? row * stride + column : column * stride + row;
}

template <class F, class T>
__forceinline__ void load(F& to, const T* from, unsigned stride, bool by_rows, Line line) {
  require_matrix(from, stride, line);
  meet(Wait::load_matrix, line);
  for (int i = 0; i < F::num_elements; ++i) to.x[i] = from[offset<F>(i, stride, by_rows)];
}

// A lane's operands and result of mma_sync.
template <class D, class A, class B, class C, bool saturates>
struct Multiplication : Together {
  A a;
  B b;
  C c;
  D d;

  template <class T>
  static TRIFOLD_OF_THE_WARP auto factor(Stored<T> x) {
    if constexpr (same_as<T, precision::tf32>)
      return trifold::cpu::as_factor(trifold::cpu::bit_cast<trifold::cpu::Tf32>(x));
    else
      return trifold::cpu::as_factor(x);
  }

  static TRIFOLD_OF_THE_WARP void multiply(Together* const (&all)[lanes]) {
    using T = typename A::element_type;
    using Number = decltype(factor<T>(Stored<T>()));
    using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, Number>;
    Number left[A::rows][A::columns], right[B::rows][B::columns];
    Sum sums[C::rows][C::columns];
    for (int lane = 0; lane < lanes; ++lane) {
      const auto& own = *static_cast<Multiplication*>(all[lane]);
      for (int i = 0; i < A::num_elements; ++i) left[A::row(lane, i)][A::column(lane, i)] = factor<T>(own.a.x[i]);
      for (int i = 0; i < B::num_elements; ++i) right[B::row(lane, i)][B::column(lane, i)] = factor<T>(own.b.x[i]);
      for (int i = 0; i < C::num_elements; ++i)
        sums[C::row(lane, i)][C::column(lane, i)] = static_cast<Sum>(own.c.x[i]);
    }
    trifold::cpu::add_products(sums, left, right);
    for (int lane = 0; lane < lanes; ++lane) {
      auto& own = *static_cast<Multiplication*>(all[lane]);
      for (int i = 0; i < D::num_elements; ++i)
        own.d.x[i] =
            trifold::cpu::from_sum<typename D::element_type, saturates>(sums[D::row(lane, i)][D::column(lane, i)]);
    }
  }
};

template <bool saturates, class D, class A, class B, class C>
void multiply(D& d, const A& a, const B& b, const C& c, Line line) {
  using Own = Multiplication<D, A, B, C, saturates>;
  Own own;
  own.run = &Own::multiply;
  own.a = a;
  own.b = b;
  own.c = c;
  trifold::cpu::meet_whole_warp(Wait::multiply_matrices, own, line);
  d = own.d;
}

}  // namespace details

// Rounded to the 10 bits of fraction of tf32, ties away from zero.
inline float __float_to_tf32(float x) {
  const auto bits = trifold::cpu::bit_cast<uint32_t>(x);
  const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
  return finite ? trifold::cpu::bit_cast<float>((bits + 0x1000u) & 0xffffe000u) : x;
}

template <class Use, int m, int n, int k, class T, class Layout>
__forceinline__ void fill_fragment(fragment<Use, m, n, k, T, Layout>& f,
                                   const trifold::cpu::Same<details::Stored<T>>& value) {
  for (auto& each : f.x) each = value;
}

// `stride`: the number of elements from a row, or column, to the next.
template <class Use, int m, int n, int k, class T, class Layout>
__forceinline__ void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f, const details::Stored<T>* from,
                                      unsigned stride, trifold::cpu::Line line = {}) {
  static_assert(!details::same_as<Use, accumulator>, "the layout of an accumulator is an argument");
  details::load(f, from, stride, f.by_rows, line);
}
template <int m, int n, int k, class T>
__forceinline__ void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const T* from, unsigned stride,
                                      layout_t layout, trifold::cpu::Line line = {}) {
  details::load(f, from, stride, layout == mem_row_major, line);
}
template <int m, int n, int k, class T>
__forceinline__ void store_matrix_sync(T* to, const fragment<accumulator, m, n, k, T>& f, unsigned stride,
                                       layout_t layout, trifold::cpu::Line line = {}) {
  details::require_matrix(to, stride, line);
  details::meet(details::Wait::store_matrix, line);
  using F = fragment<accumulator, m, n, k, T>;
  for (int i = 0; i < F::num_elements; ++i) to[details::offset<F>(i, stride, layout == mem_row_major)] = f.x[i];
}

// d = a · b + c
template <int m, int n, int k, class T, class LayoutA, class LayoutB, class C, class D>
__forceinline__ void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, T, LayoutA>& a,
                              const fragment<matrix_b, m, n, k, T, LayoutB>& b,
                              const fragment<accumulator, m, n, k, C>& c, trifold::cpu::Line line = {}) {
  details::multiply<false>(d, a, b, c, line);
}
// For integers, whose sums saturate if the last argument is true.
template <int m, int n, int k, class T, class LayoutA, class LayoutB>
__forceinline__ void mma_sync(fragment<accumulator, m, n, k, int>& d, const fragment<matrix_a, m, n, k, T, LayoutA>& a,
                              const fragment<matrix_b, m, n, k, T, LayoutB>& b,
                              const fragment<accumulator, m, n, k, int>& c, bool saturates,
                              trifold::cpu::Line line = {}) {
  if (saturates)
    details::multiply<true>(d, a, b, c, line);
  else
    details::multiply<false>(d, a, b, c, line);
}

}  // namespace nvcuda::wmma
