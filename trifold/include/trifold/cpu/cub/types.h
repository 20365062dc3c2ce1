// CUB's types and operators, of CUB 3.0; those that CUB 3.0 has left to libcu++ (Sum, Max, …) too.
#pragma once

#include <trifold/cpu/cuda_std.h>
#include <trifold/cpu/functional.h>
#include <trifold/cpu/numbers.h>
#include <trifold/cpu/standard.h>
#include <trifold/cuda.cuh>

#include <type_traits>

namespace cub {

using trifold::cpu::Line;

struct NullType {};

template <class K, class V>
struct KeyValuePair {
  using Key = K;
  using Value = V;

  Key key;
  Value value;

  KeyValuePair() {}
  KeyValuePair(const Key& key, const Value& value) : key(key), value(value) {}
  bool operator!=(const KeyValuePair& other) const { return key != other.key || value != other.value; }
};

// Two buffers of the device, of which sorts say which one has the result.
template <class T>
struct DoubleBuffer {
  T* d_buffers[2];
  int selector = 0;

  DoubleBuffer() : d_buffers{nullptr, nullptr} {}
  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
  T* Current() { return d_buffers[selector]; }
  T* Alternate() { return d_buffers[selector ^ 1]; }
};

// Memory for a T whose constructor does not run, as shared memory and unions need.
template <class T>
struct Uninitialized {
  alignas(T) unsigned char bytes[sizeof(T)];

  T& Alias() { return reinterpret_cast<T&>(*this); }
};

using Sum = ::std::plus<>;
using Max = cuda::maximum<>;
using Min = cuda::minimum<>;
using Equality = ::std::equal_to<>;
using Inequality = ::std::not_equal_to<>;
using Difference = ::std::minus<>;
using Division = ::std::divides<>;

template <class Equal>
struct InequalityWrapper {
  Equal op;

  explicit InequalityWrapper(Equal op) : op(op) {}
  template <class T, class U>
  bool operator()(T&& a, U&& b) {
    return !op(a, b);
  }
};

// Pairs of an index and a value: that of the larger or smaller value; among equals, that of the smaller index.
struct ArgMax {
  template <class Key, class T>
  KeyValuePair<Key, T> operator()(const KeyValuePair<Key, T>& a, const KeyValuePair<Key, T>& b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <class Key, class T>
  KeyValuePair<Key, T> operator()(const KeyValuePair<Key, T>& a, const KeyValuePair<Key, T>& b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};

template <class To>
struct CastOp {
  template <class From>
  To operator()(From&& a) const {
    return static_cast<To>(a);
  }
};

inline unsigned LaneId() {
  return trifold::cpu::lane();
}
// The thread's place in a block of these extents.
inline int RowMajorTid(int x, int y, int z) {
  return (z == 1 ? 0 : static_cast<int>(threadIdx.z) * x * y) + (y == 1 ? 0 : static_cast<int>(threadIdx.y) * x) +
         static_cast<int>(threadIdx.x);
}
inline unsigned WarpId() {
  return trifold::cpu::linear(threadIdx, blockDim) / 32;
}
template <class N, class D>
constexpr auto DivideAndRoundUp(N n, D d) {
  return (n + d - 1) / d;
}

// A thread's own items.
template <class T, int items, class Op>
T ThreadReduce(const T (&input)[items], Op op) {
  constexpr bool in_pairs = sizeof(T) < 8 && (trifold::cpu::one_of<Op, ::std::plus<>, ::std::plus<T>> ||
                                              trifold::cpu::one_of<Op, ::std::multiplies<>, ::std::multiplies<T>>);
  if constexpr (in_pairs) {  // CUB's order, which the bits of a float's sum depend on
    T parts[items];
    for (int i = 0; i < items; ++i) parts[i] = input[i];
    for (int step = 1; step < items; step *= 2)
      for (int i = 0; i + step < items; i += 2 * step) parts[i] = op(parts[i], parts[i + step]);
    return parts[0];
  } else {
    T result = input[0];
    for (int i = 1; i < items; ++i) result = op(result, input[i]);
    return result;
  }
}
template <class T, int items, class Op>
T ThreadReduce(const T (&input)[items], Op op, T prefix) {
  T result = prefix;
  for (int i = 0; i < items; ++i) result = op(result, input[i]);
  return result;
}

namespace internal {

// Returns what combines all items and, if it applies, the prefix.
template <int items, class T, class Op>
T ThreadScanExclusive(const T (&input)[items], T (&output)[items], Op op, T prefix, bool applies = true) {
  T exclusive = prefix, inclusive = applies ? static_cast<T>(op(prefix, input[0])) : input[0];
  output[0] = exclusive;
  for (int i = 1; i < items; ++i) {
    exclusive = inclusive;
    inclusive = op(exclusive, input[i]);
    output[i] = exclusive;
  }
  return inclusive;
}
template <int items, class T, class Op>
T ThreadScanInclusive(const T (&input)[items], T (&output)[items], Op op, T prefix, bool applies = true) {
  T inclusive = applies ? static_cast<T>(op(prefix, input[0])) : input[0];
  output[0] = inclusive;
  for (int i = 1; i < items; ++i) output[i] = inclusive = op(inclusive, input[i]);
  return inclusive;
}

}  // namespace internal

}  // namespace cub
