// Elementwise maps in 16-byte vectors.
#pragma once

#include <trifold/cuda.cuh>

namespace trifold {

inline constexpr int vector_bytes = 16;

// A cache line.
inline constexpr int line_bytes = 128;

// As many elements as one 16-byte load or store moves.
template <class T>
struct alignas(vector_bytes) Vector {
  static constexpr int size = vector_bytes / sizeof(T);
  T value[size];
};

// The number of elements from `pointer` to the first 16-byte boundary at or after it.
template <class T>
__host__ __device__ inline int elements_to_boundary(const T* pointer) {
  return static_cast<int>((-reinterpret_cast<uintptr_t>(pointer) % vector_bytes) / sizeof(T));
}

// One value per output of a map: its result for one element, or the pointer to store it at.
template <class V, int N>
struct Pack {
  V value[N];
};
template <class V, class... More>
Pack(V, More...) -> Pack<V, 1 + sizeof...(More)>;

// Threads in a block of a kernel that maps vectors. Of 64, 128 and 256, 128 is fastest over all ops on an H200 (by up
// to 2% at 2^28 elements).
inline constexpr int vector_block = 128;

// The assignment of elements to threads: the first `vectors` threads have a vector each, the next `rest` an element
// each, of which the first `head` precede the first vector, and the others follow the last one.
struct Share {
  int64_t vectors;
  short head, rest;

  int64_t threads() const { return vectors + rest; }
};

// For `n` elements whose first vector starts at element `head`.
template <class T>
Share share_out(int64_t n, int head) {
  const int64_t vectors = (n - head) / Vector<T>::size;
  return {vectors, static_cast<short>(head), static_cast<short>(n - vectors * Vector<T>::size)};
}

// out[i] = f(in[i]...) for all elements, in the compute type of T. With several outputs, f returns a Pack of as many
// values; all loads of a vector precede its stores.
//
// The pointers point to the first vector, on a 16-byte boundary, thus `share.head` elements after the first. The grid
// has at least share.threads() threads, in blocks of `vector_block`. Waits for earlier kernels: can be launched early.
//
// Why one vector per thread, and no cache hints: at 2^28 elements on an H200, bound by memory, two or four vectors per
// thread are up to 4% slower, __ldcs costs up to 10%, and __stcs changes less than 1% either way.
template <class T, int N, class F, class... In>
__device__ __forceinline__ void map_vectors(F f, Pack<T*, N> out, Share share, const In*... in) {
  using C = compute_t<T>;
  constexpr int size = Vector<T>::size;
  const int64_t i = thread_index<vector_block>(), first = i * size;
  wait_for_earlier_kernels();
  if (i < share.vectors) {
    Vector<T> result[N];
    [&](const Vector<In>... input) {
#pragma unroll
      for (int k = 0; k < size; ++k) {
        const Pack<C, N> made = f(C(input.value[k])...);
#pragma unroll
        for (int j = 0; j < N; ++j) result[j].value[k] = T(made.value[j]);
      }
    }(*reinterpret_cast<const Vector<In>*>(in + first)...);
#pragma unroll
    for (int j = 0; j < N; ++j) *reinterpret_cast<Vector<T>*>(out.value[j] + first) = result[j];
  }
  if (share.rest == 0) return;  // lets the compiler place the code above first

  const int64_t beyond = i - share.vectors;
  if (beyond < 0 || beyond >= share.rest) return;
  const int64_t element = beyond - share.head + (beyond < share.head ? 0 : share.vectors * size);
  const Pack<C, N> made = f(C(in[element])...);
#pragma unroll
  for (int j = 0; j < N; ++j) out.value[j][element] = T(made.value[j]);
}

template <class T, class F, class... In>
__device__ __forceinline__ void map_vectors(F f, T* out, Share share, const In*... in) {
  map_vectors([&](auto... x) { return Pack{f(x...)}; }, Pack{out}, share, in...);
}

}  // namespace trifold
