// rope: rotary position embedding (Su et al. 2021, "RoFormer"). For each head of q and k, a matrix x of `positions`
// rows of 2·pairs columns, the numbers in columns i and i + pairs of row t are rotated by the angle whose cosine and
// sine are in tables of positions × pairs:
//
//   out[t, i]         = x[t, i]·cos[t, i] - x[t, i + pairs]·sin[t, i]
//   out[t, i + pairs] = x[t, i + pairs]·cos[t, i] + x[t, i]·sin[t, i]
//
// Backward is the rotation by the negative angle: the same kernel with -sin.
//
// q and k are read once and written once, 2·sizeof(T) bytes an element: bound by memory. The tables are small in
// comparison, but would be read once per head from the L2 cache: as many bytes again as x. So a thread processes its
// columns of several heads, and holds their cosine and sine in registers; all loads of these heads precede the first
// store. q and k share one launch. Half types are computed in float and rounded once.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int rope_block = 256;    // most threads
inline constexpr int heads_a_thread = 4;  // of q or of k

// Where the heads of a tensor begin: head h = (o, i) with i < inner, two dimensions with a stride each.
struct Heads {
  int64_t count, inner, outer_stride, inner_stride, row_stride;

  __device__ __forceinline__ int64_t begin(int64_t head) const {
    return head / inner * outer_stride + head % inner * inner_stride;
  }
};

// The unit of a load: `size` contiguous numbers.
template <class T, int size>
struct alignas(size * sizeof(T)) Piece {
  T value[size];
};

// Rotates columns pair ... pair + size - 1, and those `pairs` after them, in row `position` of heads_a_thread heads
// from `first` on, or of as many as there are. `out` is contiguous.
template <class T, int size, class C>
__device__ __forceinline__ void rotate_heads(const T* x, const Heads& heads, T* out, int64_t first, int64_t position,
                                             int64_t positions, int64_t pair, int64_t pairs, const C (&cos)[size],
                                             const C (&sin)[size]) {
  using P = Piece<T, size>;
  P low[heads_a_thread], high[heads_a_thread];
  int64_t inner = first % heads.inner;  // incremented: a 64-bit division per head would delay its loads
  const T* from = x + heads.begin(first) + position * heads.row_stride + pair;
#pragma unroll
  for (int h = 0; h < heads_a_thread; ++h) {
    if (first + h >= heads.count) break;
    low[h] = *reinterpret_cast<const P*>(from);
    high[h] = *reinterpret_cast<const P*>(from + pairs);
    from += heads.inner_stride;
    if (++inner == heads.inner) {
      inner = 0;
      from += heads.outer_stride - heads.inner * heads.inner_stride;
    }
  }
#pragma unroll
  for (int h = 0; h < heads_a_thread; ++h) {
    if (first + h >= heads.count) break;
    P turned_low, turned_high;
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const C x1(low[h].value[i]), x2(high[h].value[i]);
      turned_low.value[i] = T(x1 * cos[i] - x2 * sin[i]);
      turned_high.value[i] = T(x2 * cos[i] + x1 * sin[i]);
    }
    T* to = out + ((first + h) * positions + position) * 2 * pairs + pair;
    *reinterpret_cast<P*>(to) = turned_low;
    *reinterpret_cast<P*>(to + pairs) = turned_high;
  }
}

// threadIdx.x indexes pieces of `size` columns, y positions, z groups of heads: those of q, then those of k.
template <class T, int size>
__global__ void rope_kernel(const T* q, Heads q_heads, const T* k, Heads k_heads, const T* cos, const T* sin,
                            T* __restrict__ q_out, T* __restrict__ k_out, int64_t positions, int64_t pairs,
                            bool inverse) {
  using C = trifold::compute_t<T>;
  trifold::wait_for_earlier_kernels();
  const int64_t position = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (position >= positions) return;
  const int64_t q_groups = (q_heads.count + heads_a_thread - 1) / heads_a_thread;
  const int64_t k_groups = (k_heads.count + heads_a_thread - 1) / heads_a_thread;
  for (int64_t pair = threadIdx.x * size; pair < pairs; pair += blockDim.x * size) {
    const auto c = *reinterpret_cast<const Piece<T, size>*>(cos + position * pairs + pair);
    const auto s = *reinterpret_cast<const Piece<T, size>*>(sin + position * pairs + pair);
    C cosine[size], sine[size];
#pragma unroll
    for (int i = 0; i < size; ++i) {
      cosine[i] = C(c.value[i]);
      sine[i] = inverse ? -C(s.value[i]) : C(s.value[i]);
    }
    const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.z;
    for (int64_t group = static_cast<int64_t>(blockIdx.y) * blockDim.z + threadIdx.z; group < q_groups + k_groups;
         group += step) {
      if (group < q_groups)
        rotate_heads<T>(q, q_heads, q_out, group * heads_a_thread, position, positions, pair, pairs, cosine, sine);
      else
        rotate_heads<T>(k, k_heads, k_out, (group - q_groups) * heads_a_thread, position, positions, pair, pairs,
                        cosine, sine);
    }
  }
}
