// Elementwise maps in 16-byte vectors.
#pragma once

#include <trifold/cuda.cuh>

namespace trifold {

inline constexpr int vector_bytes = 16;

// As many elements as one 16-byte load or store moves.
template <class T>
struct alignas(vector_bytes) Vector {
  static constexpr int size = vector_bytes / sizeof(T);
  T value[size];
};

// How many elements stand before the first 16-byte boundary at or after `pointer`.
template <class T>
__host__ __device__ inline int64_t elements_to_boundary(const T* pointer) {
  const auto past = reinterpret_cast<uintptr_t>(pointer) % vector_bytes;
  return past == 0 ? 0 : static_cast<int64_t>((vector_bytes - past) / sizeof(T));
}

// out[i] = f(in[i]...) for i < n, one vector a thread, in the compute type of T.
//
// All pointers must lie equally far from a 16-byte boundary. The elements before the first boundary and after the last
// whole vector (fewer than one vector each) are done one by one by the first threads of the grid, which must
// have at least max(n / Vector<T>::size, 2 * Vector<T>::size) threads.
template <class T, class F, class... In>
__device__ __forceinline__ void map_vectors(F f, T* out, int64_t n, const In*... in) {
  using C = compute_t<T>;
  constexpr int size = Vector<T>::size;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t to_boundary = elements_to_boundary(out);
  const int64_t head = to_boundary < n ? to_boundary : n;
  const int64_t vectors = (n - head) / size;
  const int64_t tail = head + vectors * size;

  if (thread < vectors) {
    const int64_t first = head + thread * size;
    Vector<T> result;
    [&](const Vector<In>... input) {
#pragma unroll
      for (int k = 0; k < size; ++k) result.value[k] = T(f(C(input.value[k])...));
    }(*reinterpret_cast<const Vector<In>*>(in + first)...);
    *reinterpret_cast<Vector<T>*>(out + first) = result;
  }
  const int64_t single = thread < head ? thread : tail + (thread - head);
  if (single < head || (thread >= head && single < n)) out[single] = T(f(C(in[single])...));
}

}  // namespace trifold
