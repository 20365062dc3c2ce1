// quantize_int8: for each of `rows` rows of `columns` numbers x, scale = max|x| / 127 and q = round(x / scale), so that
// q·scale is x to within scale / 2.
//
// Rows of x begin `x_stride` elements apart; those of q follow one another. x is read once and q written once:
// sizeof(T) + 1 bytes an element, or 2·sizeof(T) + 1 where a row is too long for registers and is read twice.
//
// The quotient is the correctly rounded one, and halves go to the even number. A row whose scale rounds to 0, such as
// one of zeros or of no number, has scale 1 and q = 0; one with nan or an infinity, or of float64 whose scale leaves
// the range of float32, has scale nan or inf, and q = 0.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/reduce.cuh>
#include <trifold/vector.cuh>

inline constexpr int quantize_block = trifold::threads_per_block;

// The scale of a row, and what it makes of a number.
template <class C>
struct Quantizer {
  float scale;
  C inverse;

  explicit __device__ __forceinline__ Quantizer(C largest) {
    scale = static_cast<float>(largest / C(127));
    if (scale == 0.0f) scale = 1.0f;
    inverse = C(1) / C(scale);
  }

  // x / scale in three operations, where a division takes more than memory leaves time for. The remainder of a first
  // quotient is exact, and what it adds makes the second one right to the last bit (Markstein 1990), unless it is
  // subnormal.
  __device__ __forceinline__ C quotient(C x) const {
    if (scale < 1e-30f) return x / C(scale);
    const C close = x * inverse;
    return fma(fma(-close, C(scale), x), inverse, close);
  }

  __device__ __forceinline__ int8_t operator()(C x) const {
    if (!isfinite(scale)) return 0;
    // A scale that is subnormal has few bits, and quotients may then exceed 127.
    return static_cast<int8_t>(static_cast<int>(rint(fmin(fmax(quotient(x), C(-127)), C(127)))));
  }
};

// V numbers that one load or store moves; 1 where rows do not begin at 16-byte boundaries, or end between them.
template <class T, int V>
struct alignas(sizeof(T) * V) Piece {
  T value[V];

  template <class C>
  __device__ __forceinline__ C larger(C largest) const {
#pragma unroll
    for (int j = 0; j < V; ++j) largest = trifold::Max{}(largest, static_cast<C>(fabs(C(value[j]))));
    return largest;
  }

  template <class C>
  __device__ __forceinline__ Piece<int8_t, V> quantized(const Quantizer<C>& quantizer) const {
    Piece<int8_t, V> q;
#pragma unroll
    for (int j = 0; j < V; ++j) q.value[j] = quantizer(C(value[j]));
    return q;
  }
};

template <int V, class T>
__device__ __forceinline__ const Piece<T, V>& piece_at(const T* row, int64_t i) {
  return *reinterpret_cast<const Piece<T, V>*>(row + i);
}
template <int V>
__device__ __forceinline__ Piece<int8_t, V>& piece_at(int8_t* row, int64_t i) {
  return *reinterpret_cast<Piece<int8_t, V>*>(row + i);
}

// A block a row, in two passes over it: the largest size, then the quotients.
template <class T>
__global__ void quantize_int8_kernel(const T* x, int64_t x_stride, int8_t* q, float* scales, int64_t rows,
                                     int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * x_stride;
    int8_t* out = q + row * columns;
    C largest = 0;
    for (int64_t i = threadIdx.x; i < columns; i += quantize_block) largest = piece_at<1>(in, i).larger(largest);
    largest = trifold::block_max<quantize_block>(largest);
    const Quantizer<C> quantizer(largest);
    if (threadIdx.x == 0) scales[row] = quantizer.scale;
    for (int64_t i = threadIdx.x; i < columns; i += quantize_block)
      piece_at<1>(out, i) = piece_at<1>(in, i).quantized(quantizer);
  }
}

inline constexpr int quantize_numbers = 32;  // a thread, in registers

// The largest of a team's values, a warp's or the block's.
template <int team, class C>
__device__ __forceinline__ C team_max(C value) {
  if constexpr (team == trifold::warp_threads) {
    return trifold::warp_max(value);
  } else {
    return trifold::block_max<team>(value);
  }
}

// The same in one pass: a team of threads, a warp or the block, holds its row in registers.
template <class T, int V, int team>
__global__ void __launch_bounds__(team > quantize_block ? team : quantize_block)
    quantize_int8_rows_kernel(const T* x, int64_t x_stride, int8_t* q, float* scales, int64_t rows, int columns) {
  using C = trifold::compute_t<T>;
  constexpr int teams = (team > quantize_block ? team : quantize_block) / team, pieces = quantize_numbers / V;
  const int thread = static_cast<int>(threadIdx.x) % team;
  trifold::wait_for_earlier_kernels();
  const int64_t step = static_cast<int64_t>(gridDim.x) * teams;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * teams + threadIdx.x / team; row < rows; row += step) {
    const T* in = x + row * x_stride;
    int8_t* out = q + row * columns;
    Piece<T, V> held[pieces];
#pragma unroll
    for (int k = 0; k < pieces; ++k) {
      const int i = (k * team + thread) * V;
      if (i < columns) held[k] = piece_at<V>(in, i);
    }
    C largest = 0;
#pragma unroll
    for (int k = 0; k < pieces; ++k)
      if ((k * team + thread) * V < columns) largest = held[k].larger(largest);
    const Quantizer<C> quantizer(team_max<team>(largest));
    if (thread == 0) scales[row] = quantizer.scale;
#pragma unroll
    for (int k = 0; k < pieces; ++k) {
      const int i = (k * team + thread) * V;
      if (i < columns) piece_at<V>(out, i) = held[k].quantized(quantizer);
    }
  }
}

// A row's share of `stretch` numbers, which several blocks go through.
struct Stretch {
  int64_t row, first, last;

  __device__ __forceinline__ Stretch(int64_t parts, int64_t stretch, int64_t columns)
      : row(blockIdx.x / parts), first(blockIdx.x % parts * stretch) {
    last = first + stretch < columns ? first + stretch : columns;
  }
};

// Of rows that are shared by `parts` blocks each: the largest size in each part.
template <class T, int V>
__global__ void __launch_bounds__(quantize_block)
    quantize_int8_max_kernel(const T* x, int64_t x_stride, trifold::compute_t<T>* largest_of_part, int64_t columns,
                             int64_t parts, int64_t stretch) {
  using C = trifold::compute_t<T>;
  trifold::wait_for_earlier_kernels();
  const Stretch part(parts, stretch, columns);
  const T* in = x + part.row * x_stride;
  C largest = 0;
#pragma unroll 4
  for (int64_t i = part.first + threadIdx.x * V; i < part.last; i += quantize_block * V)
    largest = piece_at<V>(in, i).larger(largest);
  largest = trifold::block_max<quantize_block>(largest);
  if (threadIdx.x == 0) largest_of_part[blockIdx.x] = largest;
}

// And their quotients.
template <class T, int V>
__global__ void __launch_bounds__(quantize_block)
    quantize_int8_parts_kernel(const T* x, int64_t x_stride, const trifold::compute_t<T>* largest_of_part, int8_t* q,
                               float* scales, int64_t columns, int64_t parts, int64_t stretch) {
  using C = trifold::compute_t<T>;
  trifold::wait_for_earlier_kernels();
  const Stretch part(parts, stretch, columns);
  const T* in = x + part.row * x_stride;
  int8_t* out = q + part.row * columns;
  C largest = 0;
  for (int64_t i = threadIdx.x; i < parts; i += quantize_block)
    largest = trifold::Max{}(largest, largest_of_part[part.row * parts + i]);
  const Quantizer<C> quantizer(trifold::block_max<quantize_block>(largest));
  if (threadIdx.x == 0 && part.first == 0) scales[part.row] = quantizer.scale;
#pragma unroll 4
  for (int64_t i = part.first + threadIdx.x * V; i < part.last; i += quantize_block * V)
    piece_at<V>(out, i) = piece_at<V>(in, i).quantized(quantizer);
}
