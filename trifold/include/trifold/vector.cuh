// Elementwise maps in 16-byte vectors.
#pragma once

#include <trifold/cuda.cuh>

namespace trifold {

inline constexpr int vector_bytes = 16;

// A line of memory.
inline constexpr int line_bytes = 128;

// As many elements as one 16-byte load or store moves.
template <class T>
struct alignas(vector_bytes) Vector {
  static constexpr int size = vector_bytes / sizeof(T);
  T value[size];
};

// How many elements stand before the first 16-byte boundary at or after `pointer`.
template <class T>
__host__ __device__ inline int elements_to_boundary(const T* pointer) {
  return static_cast<int>((-reinterpret_cast<uintptr_t>(pointer) % vector_bytes) / sizeof(T));
}

// One thing for each output of a map: what it makes at one place, or where that goes.
template <class V, int N>
struct Pack {
  V value[N];
};
template <class V, class... More>
Pack(V, More...) -> Pack<V, 1 + sizeof...(More)>;

// Threads in a block of a kernel that maps vectors. Of 64, 128 and 256, 128 does best over all ops on an H200 (up to 2%
// at 2^28 elements).
inline constexpr int vector_block = 128;

// How the threads of a launch share out the elements: `vectors` threads take a vector each, the next `rest` ones an
// element each. The first `head` of these stand before the first vector, the others behind the last one.
struct Share {
  int64_t vectors;
  short head, rest;

  int64_t threads() const { return vectors + rest; }
};

// `n` elements whose first vector begins `head` elements behind the first one.
template <class T>
Share share_out(int64_t n, int head) {
  const int64_t vectors = (n - head) / Vector<T>::size;
  return {vectors, static_cast<short>(head), static_cast<short>(n - vectors * Vector<T>::size)};
}

// out[i] = f(in[i]...) for all elements, in the compute type of T. Where there are several outputs, f makes a Pack of
// as many values; all of a vector's loads come before its stores.
//
// The pointers stand at the first vector, on a 16-byte boundary, thus behind `share.head` elements. The grid has
// share.threads() threads at least, in blocks of `vector_block`. Waits for earlier kernels: to be launched early.
//
// Why one vector a thread, and no streaming hints: at 2^28 elements on an H200, where memory is the bound, two or four
// vectors a thread are up to 4% slower, __ldcs costs up to 10%, and __stcs is worth less than 1% either way.
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
  if (share.rest == 0) return;  // known to the compiler to be no part of the above, whose code therefore comes first

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
