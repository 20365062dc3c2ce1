// quantize_int8: for each of `rows` rows of `columns` numbers x, scale = max|x| / 127 and q = round(x / scale), so that
// q·scale is x to within scale / 2.
//
// Rows of x begin `x_stride` elements apart; those of q are contiguous. x is read once and q written once: sizeof(T) +
// 1 bytes an element, or 2·sizeof(T) + 1 for a row that is too long for registers and is read twice.
//
// Loads are of 16 bytes, and stores of as many numbers, even if rows do not begin at 16-byte boundaries: a row is cut
// at the boundaries of x, and the few numbers before the first and after the last one are moved singly.
//
// The quotient is correctly rounded, and halves round to even. A row whose scale rounds to 0, such as one of zeros or
// an empty one, has scale 1 and q = 0; a row with nan or an infinity, or a float64 row whose scale overflows float32,
// has scale nan or inf, and q = 0.
#pragma once

#include <trifold/packed.cuh>

inline constexpr int quantize_block = trifold::threads_per_block;

// Rounds to the nearest integer, halves to even. The added constant leaves no bits for fractions, so that the addition
// rounds, and the sum's last bits are the integer: one instruction, where a conversion takes as long as four.
__device__ __forceinline__ int8_t nearest(float x) {
  return static_cast<int8_t>(__float_as_int(x + 0x1.8p23f));
}
__device__ __forceinline__ int8_t nearest(double x) {
  return static_cast<int8_t>(static_cast<int>(rint(x)));
}

// Quantizes numbers by the scale of their row.
template <class C>
struct Quantizer {
  float scale;
  C lift, divisor, inverse;

  explicit __device__ __forceinline__ Quantizer(C largest) {
    scale = static_cast<float>(largest / C(127));
    if (scale == 0.0f) scale = 1.0f;
    // A small scale's reciprocal, or the remainders, would leave the range of float: both numbers are multiplied by
    // 2^64.
    lift = C(scale < 1e-30f ? 0x1p64f : 1.0f);
    divisor = C(scale) * lift;
    inverse = C(1) / divisor;
  }

  // x / scale in a few operations, since memory leaves no time for a division. The remainder of a first quotient is
  // exact, and corrects the quotient to the last bit (Markstein 1990).
  __device__ __forceinline__ C quotient(C x) const {
    const C lifted = x * lift, close = lifted * inverse;
    return fma(fma(-close, divisor, lifted), inverse, close);
  }

  __device__ __forceinline__ int8_t operator()(C x) const {
    // A subnormal scale has few bits, so that quotients may exceed 127.
    const int8_t q = nearest(fmin(fmax(quotient(x), C(-127)), C(127)));
    return isfinite(scale) ? q : int8_t{0};
  }
};

// V numbers, moved by one load or store.
template <class T, int V>
struct alignas(sizeof(T) * V) Piece {
  T value[V];

  __device__ __forceinline__ trifold::compute_t<T> operator[](int j) const { return trifold::compute_t<T>(value[j]); }
};

// Half types stay packed, which needs half as many registers as floats.
template <int V, class T>
__device__ __forceinline__ auto load(const T* from) {
  if constexpr (V > 1 && sizeof(T) < sizeof(double)) {
    return trifold::read(from);
  } else {
    return *reinterpret_cast<const Piece<T, V>*>(from);
  }
}

template <int V, class P, class C>
__device__ __forceinline__ C larger(const P& piece, C largest) {
#pragma unroll
  for (int j = 0; j < V; ++j) largest = trifold::Max{}(largest, fabs(piece[j]));
  return largest;
}

template <int V, class P, class C>
__device__ __forceinline__ void store(int8_t* to, const P& piece, const Quantizer<C>& quantizer) {
  Piece<int8_t, V> q;
#pragma unroll
  for (int j = 0; j < V; ++j) q.value[j] = quantizer(piece[j]);
  *reinterpret_cast<Piece<int8_t, V>*>(to) = q;
}

// The numbers from `first` to `last` of a row: pieces of V of them from the first 16-byte boundary on, and edges, the
// numbers before and after these. With V = 1 all are pieces.
template <int V, class Index>
struct Cut {
  Index first, begin, end, last;  // pieces are the numbers from begin to end

  template <class T>
  __device__ __forceinline__ Cut(const T* row, Index first, Index last) : first(first), last(last) {
    begin = V == 1 ? first : min(first + trifold::elements_to_boundary(row + first), last);
    end = begin + (last - begin) / V * V;
  }

  __device__ __forceinline__ int before() const { return static_cast<int>(begin - first); }
  __device__ __forceinline__ int edges() const { return before() + static_cast<int>(last - end); }
  __device__ __forceinline__ Index edge(int i) const { return i < before() ? first + i : end + i - before(); }

  // The largest absolute value of a thread's edges, and below their quotients.
  template <class T, class C>
  __device__ __forceinline__ C larger_edges(const T* row, C largest, int thread, int team) const {
#pragma unroll 1
    for (int i = thread; i < edges(); i += team) largest = larger<1>(load<1>(row + edge(i)), largest);
    return largest;
  }
  template <class T, class C>
  __device__ __forceinline__ void quantize_edges(const T* row, int8_t* q, const Quantizer<C>& quantizer, int thread,
                                                 int team) const {
#pragma unroll 1
    for (int i = thread; i < edges(); i += team) store<1>(q + edge(i), load<1>(row + edge(i)), quantizer);
  }
};

// One block per row, in two passes over it: the largest absolute value, then the quotients.
template <class T>
__global__ void quantize_int8_kernel(const T* x, int64_t x_stride, int8_t* q, float* scales, int64_t rows,
                                     int64_t columns) {
  using C = trifold::compute_t<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * x_stride;
    int8_t* out = q + row * columns;
    C largest = 0;
    for (int64_t i = threadIdx.x; i < columns; i += quantize_block) largest = larger<1>(load<1>(in + i), largest);
    largest = trifold::block_max<quantize_block>(largest);
    const Quantizer<C> quantizer(largest);
    if (threadIdx.x == 0) scales[row] = quantizer.scale;
    for (int64_t i = threadIdx.x; i < columns; i += quantize_block) store<1>(out + i, load<1>(in + i), quantizer);
  }
}

// Numbers that a thread holds in registers: 128 bytes of them, or 32 numbers if they are loaded singly.
template <int V>
inline constexpr int quantize_numbers = V > 1 ? 8 * V : 32;

// The maximum over a team, part of a warp or the block.
template <int team, class C>
__device__ __forceinline__ C team_max(C value) {
  if constexpr (team <= trifold::warp_threads) {
    return trifold::warp_reduce<team>(value, trifold::Max{});
  } else {
    return trifold::block_max<team>(value);
  }
}

template <int team>
inline constexpr int block_of_teams = team > quantize_block ? team : quantize_block;

// The same in one pass: a team of threads, part of a warp or the block, holds its row in registers.
template <class T, int V, int team>
__global__ void __launch_bounds__(block_of_teams<team>)
    quantize_int8_rows_kernel(const T* x, int64_t x_stride, int8_t* q, float* scales, int64_t rows, int columns) {
  using C = trifold::compute_t<T>;
  constexpr int teams = block_of_teams<team> / team, pieces = quantize_numbers<V> / V;
  const int thread = static_cast<int>(threadIdx.x) % team;
  trifold::wait_for_earlier_kernels();
  // All teams of a warp continue together, even those without a row.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * teams; first < rows;
       first += static_cast<int64_t>(gridDim.x) * teams) {
    const int64_t row = first + threadIdx.x / team;
    const bool exists = row < rows;
    const T* in = x + row * x_stride;
    int8_t* out = q + row * columns;
    const Cut<V, int> cut(in, 0, exists ? columns : 0);
    const int begin = cut.begin + thread * V;
    decltype(load<V>(in)) held[pieces];
#pragma unroll
    for (int k = 0; k < pieces; ++k)
      if (const int i = begin + k * team * V; i < cut.end) held[k] = load<V>(in + i);
    C largest = cut.larger_edges(in, C(0), thread, team);
#pragma unroll
    for (int k = 0; k < pieces; ++k) {
      if (begin + k * team * V < cut.end) largest = larger<V>(held[k], largest);
      if constexpr (V > 1) held[k].stay();
    }
    const Quantizer<C> quantizer(team_max<team>(largest));
    if (exists && thread == 0) scales[row] = quantizer.scale;
#pragma unroll
    for (int k = 0; k < pieces; ++k)
      if (const int i = begin + k * team * V; i < cut.end) store<V>(out + i, held[k], quantizer);
    cut.quantize_edges(in, out, quantizer, thread, team);
  }
}

// The part of a row that belongs to blockIdx.x, `stretch` numbers at most; several blocks share a row.
template <int V>
struct Stretch {
  int64_t row;
  Cut<V, int64_t> cut;

  template <class T>
  __device__ __forceinline__ Stretch(const T* x, int64_t x_stride, int64_t columns, int64_t parts, int64_t stretch)
      : row(blockIdx.x / parts),
        cut(x + row * x_stride, blockIdx.x % parts * stretch, min((blockIdx.x % parts + 1) * stretch, columns)) {}
};

// For rows shared by `parts` blocks each: the largest absolute value of each part.
template <class T, int V>
__global__ void __launch_bounds__(quantize_block)
    quantize_int8_max_kernel(const T* x, int64_t x_stride, trifold::compute_t<T>* largest_of_part, int64_t columns,
                             int64_t parts, int64_t stretch) {
  using C = trifold::compute_t<T>;
  trifold::wait_for_earlier_kernels();
  const auto [row, cut] = Stretch<V>(x, x_stride, columns, parts, stretch);
  const T* in = x + row * x_stride;
  C largest = cut.larger_edges(in, C(0), static_cast<int>(threadIdx.x), quantize_block);
#pragma unroll 4
  for (int64_t i = cut.begin + threadIdx.x * V; i < cut.end; i += quantize_block * V)
    largest = larger<V>(load<V>(in + i), largest);
  largest = trifold::block_max<quantize_block>(largest);
  if (threadIdx.x == 0) largest_of_part[blockIdx.x] = largest;
}

// The quotients of such rows.
template <class T, int V>
__global__ void __launch_bounds__(quantize_block)
    quantize_int8_parts_kernel(const T* x, int64_t x_stride, const trifold::compute_t<T>* largest_of_part, int8_t* q,
                               float* scales, int64_t columns, int64_t parts, int64_t stretch) {
  using C = trifold::compute_t<T>;
  trifold::wait_for_earlier_kernels();
  const auto [row, cut] = Stretch<V>(x, x_stride, columns, parts, stretch);
  const T* in = x + row * x_stride;
  int8_t* out = q + row * columns;
  C largest = 0;
  for (int64_t i = threadIdx.x; i < parts; i += quantize_block)
    largest = trifold::Max{}(largest, largest_of_part[row * parts + i]);
  const Quantizer<C> quantizer(trifold::block_max<quantize_block>(largest));
  if (threadIdx.x == 0 && cut.first == 0) scales[row] = quantizer.scale;
#pragma unroll 4
  for (int64_t i = cut.begin + threadIdx.x * V; i < cut.end; i += quantize_block * V)
    store<V>(out + i, load<V>(in + i), quantizer);
  cut.quantize_edges(in, out, quantizer, static_cast<int>(threadIdx.x), quantize_block);
}
