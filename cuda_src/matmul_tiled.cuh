// matmul_tiled: out = a·b, of shapes (rows, inner) and (inner, columns): out[r, c] = Σₖ a[r, k]·b[k, c].
//
// A block computes a tile of 64 × 64 numbers of `out`. It goes along `inner` in steps of 16: all threads copy 16
// columns of 64 rows of `a`, and 16 rows of 64 columns of `b`, to shared memory, where 16 threads read each number. A
// thread computes 4 × 4 results in registers: 8 numbers from shared memory make 16 products. Meanwhile the asynchronous
// copies of the next step are in flight. For large float results a tile has four such parts: a thread computes 4 × 4
// results of each, and makes 64 products of 16 numbers from shared memory.
//
// Least traffic: `a` and `b` read once and `out` written once. A block reads 2·64·inner numbers for 64·64 results, so
// that `a` is read columns / 64 times and `b` rows / 64 times, mostly from the L2 cache; half as often for large
// results.
//
// Products are added in the order of k, in float or double, and rounded once. Half types use tensor cores
// (matmul_halves_kernel), which also add in float, but several products at a time.
#pragma once

#include <trifold/async_copies.cuh>
#include <trifold/packed.cuh>

#include <mma.h>

#include <type_traits>

#if defined(TRIFOLD_GPU_ARCH) && TRIFOLD_GPU_ARCH < 800
#error "matmul_tiled needs tensor cores for bfloat16 and asynchronous copies: build it for sm_80 or newer"
#endif

inline constexpr int small_tile = 64, large_tile = 128;           // elements across a tile
inline constexpr int matmul_step = 16;                            // elements along k
inline constexpr int matmul_side = 16, matmul_own = 4;            // threads across a part; elements of a thread
inline constexpr int matmul_part = matmul_side * matmul_own;      // elements across a part
inline constexpr int matmul_threads = matmul_side * matmul_side;  // per block

// Padded by four numbers: the rows of neighbouring k begin four banks apart, and at 16-byte boundaries.
template <class T, int tile>
using MatmulTile = T[matmul_step][tile + 4];

// Starts copying tile[k][i] = matrix[first_i + i, first_k + k], or 0 outside of the matrix, whose element (i, k) is i ·
// stride + k · k_stride elements after its first one. Neighbouring threads read along the dimension in which elements
// are contiguous: along k, or across it.
template <class T, int width>
__device__ __forceinline__ void load_tile(MatmulTile<T, width>& tile, const T* matrix, int64_t stride, int64_t k_stride,
                                          bool along_k, int64_t first_i, int64_t size, int64_t first_k, int64_t inner) {
  const int thread = static_cast<int>(threadIdx.y * matmul_side + threadIdx.x);
  const int i = along_k ? thread / matmul_step : thread % width, k = along_k ? thread % matmul_step : thread / width;
  // From one of the thread's elements to the next.
  const int i_step = along_k ? matmul_threads / matmul_step : 0, k_step = along_k ? 0 : matmul_threads / width;
  const int i_left = static_cast<int>(min(size - first_i, int64_t{width})) - i;
  const int k_left = static_cast<int>(min(inner - first_k, int64_t{matmul_step})) - k;
  const T* from = matrix + (first_i + i) * stride + (first_k + k) * k_stride;
  T* to = &tile[k][i];
#pragma unroll
  for (int load = 0; load < width * matmul_step / matmul_threads; ++load) {
    if (load * i_step < i_left && load * k_step < k_left)
      trifold::copy_element_async(to, from);
    else
      *to = 0;
    from += i_step * stride + k_step * k_stride;
    to += i_step + k_step * (width + 4);
  }
}

// The strides of `b` are those of its transpose: of a column, and of k. Tiles are numbered along the rows of `out`.
template <class T, int tile>
__global__ void __launch_bounds__(matmul_threads, 2)
    matmul_tiled_kernel(const T* a, int64_t a_stride, int64_t a_k_stride, bool a_along_k, const T* b, int64_t b_stride,
                        int64_t b_k_stride, bool b_along_k, T* out, int64_t rows, int64_t columns, int64_t inner) {
  constexpr int parts = tile / matmul_part, own = parts * matmul_own;
  alignas(16) __shared__ MatmulTile<T, tile> a_tile[2];  // of this step, and of the next one
  alignas(16) __shared__ MatmulTile<T, tile> b_tile[2];
  const int64_t tiles_a_row = (columns + tile - 1) / tile;
  const int64_t first_row = blockIdx.x / tiles_a_row * tile;
  const int64_t first_column = blockIdx.x % tiles_a_row * tile;
  // The thread's i-th row or column of the tile: four contiguous ones in each part.
  const auto row_of = [](int i) {
    return i / matmul_own * matmul_part + int(threadIdx.y) * matmul_own + i % matmul_own;
  };
  const auto column_of = [](int j) {
    return j / matmul_own * matmul_part + int(threadIdx.x) * matmul_own + j % matmul_own;
  };

  const auto load = [&](int64_t first_k, int slot) {
    load_tile<T, tile>(a_tile[slot], a, a_stride, a_k_stride, a_along_k, first_row, rows, first_k, inner);
    load_tile<T, tile>(b_tile[slot], b, b_stride, b_k_stride, b_along_k, first_column, columns, first_k, inner);
  };
  T sums[own][own] = {};
  trifold::wait_for_earlier_kernels();
  if (inner > 0) load(0, 0);
  int slot = 0;
  for (int64_t first_k = 0; first_k < inner; first_k += matmul_step) {
    trifold::wait_for_all_copies();
    __syncthreads();  // also for warps that still read what the next copies overwrite
    if (first_k + matmul_step < inner) load(first_k + matmul_step, 1 - slot);
#pragma unroll
    for (int k = 0; k < matmul_step; ++k) {
      T of_b[own];
#pragma unroll
      for (int j = 0; j < own; ++j) of_b[j] = b_tile[slot][k][column_of(j)];
#pragma unroll
      for (int i = 0; i < own; ++i) {
        const T of_a = a_tile[slot][k][row_of(i)];
#pragma unroll
        for (int j = 0; j < own; ++j) sums[i][j] += of_a * of_b[j];
      }
    }
    slot = 1 - slot;
  }

#pragma unroll
  for (int i = 0; i < own; ++i) {
    const int64_t row = first_row + row_of(i);
#pragma unroll
    for (int j = 0; j < own; ++j) {
      const int64_t column = first_column + column_of(j);
      if (row < rows && column < columns) out[row * columns + column] = sums[i][j];
    }
  }
}

// ------------------------------------------------------------------------------------------ half types

// A block of four warps computes a tile of 128 × 128 numbers, or of 64 × 64 for small results. Each warp has a quarter:
// 4 × 4 or 2 × 2 accumulators of 16 × 16, in registers. The tiles of `a` and `b` arrive by asynchronous copies, several
// steps of 32 along k ahead. There is one barrier of the four warps per step.
//
// A tensor core multiplies exactly, and adds 8 or 16 products and a float at a time. It aligns them to the largest and
// truncates below that one's last bit, or a few bits lower: the error of a sum of K products is less than K units in
// the last place of the largest intermediate sum, but more than that of sums that are rounded.

inline constexpr int halves_step = 32, halves_threads = 128;
inline constexpr int halves_side = 16;   // of a fragment
inline constexpr int halves_blocks = 2;  // per multiprocessor, so that one multiplies while another waits

// Steps in shared memory at once, as many as fit: the more there are, the shorter is a step.
template <int tile>
inline constexpr int halves_stages = tile == large_tile ? 3 : 6;

// `a`, or the transpose of `b`: a matrix of `size` by k whose element (i, k) is i · stride + k · k_stride elements
// after `first`. With pieces, it consists of aligned 16-byte vectors along the dimension in which it is contiguous.
template <class T>
struct Factor {
  const T* first;
  int64_t size, stride, k_stride;
  bool in_pieces;
};

template <class Use, class T, class Layout = void>
using Fragment = nvcuda::wmma::fragment<Use, halves_side, halves_side, halves_side, T, Layout>;

// A factor's tile in shared memory. Its lines run along the dimension in which elements are contiguous in global
// memory: k, or across it. A line is 16 bytes longer than a multiple of 64, so that the eight lines that ldmatrix reads
// begin in different banks.
template <class T, int tile, bool along_k>
struct alignas(32) FactorTile {
  static constexpr int lines = along_k ? tile : halves_step, length = along_k ? halves_step : tile;
  static constexpr int pitch = length + trifold::Vector<T>::size;
  T line[lines][pitch];

  __device__ __forceinline__ const T* at(int i, int k) const { return along_k ? &line[i][k] : &line[k][i]; }
};

// Copies a factor's tiles, one after the other along k. A thread copies the same piece of several lines of each.
template <class T, int tile, bool along_k>
class TileCopies {
  using Piece = trifold::Vector<T>;
  using Tile = FactorTile<T, tile, along_k>;
  static constexpr int pieces = Tile::length / Piece::size, lines_at_once = halves_threads / pieces;

 public:
  // Of the rows of `a`, or columns of `b`, from `first_i` on.
  __device__ __forceinline__ TileCopies(const Factor<T>& from, int64_t first_i)
      : line_(static_cast<int>(threadIdx.x) / pieces),
        place_(static_cast<int>(threadIdx.x) % pieces * Piece::size),
        i_left_(static_cast<int>(min(from.size - first_i, int64_t{tile}))),
        in_pieces_(from.in_pieces),
        line_stride_(along_k ? from.stride : from.k_stride),
        place_stride_(along_k ? from.k_stride : from.stride),
        step_stride_(halves_step * from.k_stride),
        from_(from.first + first_i * from.stride + line_ * line_stride_ + place_ * place_stride_) {}

  // Starts copying the next tile, of which `k_left` elements along k are in the matrix; others become 0.
  __device__ __forceinline__ void next(Tile& to, int k_left) {
    const int lines_left = (along_k ? i_left_ : k_left) - line_, inside = (along_k ? k_left : i_left_) - place_;
    const T* from = from_;
    T* at = &to.line[line_][place_];
    if (in_pieces_) {
#pragma unroll
      for (int line = 0; line < Tile::lines; line += lines_at_once, at += lines_at_once * Tile::pitch) {
        if (line < lines_left && inside > 0)
          trifold::copy_async(trifold::shared_address(at), from, sizeof(Piece));
        else
          *reinterpret_cast<Piece*>(at) = {};
        from += lines_at_once * line_stride_;
      }
    } else {
#pragma unroll 1
      for (int line = 0; line < Tile::lines; line += lines_at_once, at += lines_at_once * Tile::pitch) {
        Piece piece;
#pragma unroll
        for (int e = 0; e < Piece::size; ++e)
          piece.value[e] = line < lines_left && e < inside ? from[e * place_stride_] : T(0.0f);
        *reinterpret_cast<Piece*>(at) = piece;
        from += lines_at_once * line_stride_;
      }
    }
    from_ += step_stride_;
  }

 private:
  int line_, place_, i_left_;
  bool in_pieces_;
  int64_t line_stride_, place_stride_, step_stride_;
  const T* from_;
};

// wmma::load_matrix_sync from shared memory. For bfloat16, nvcc (13.0) does not infer the address space, and has each
// lane load 4 bytes at a time from generic addresses instead of one ldmatrix: this instruction names shared memory.
template <class Use, class T, class Layout>
__device__ __forceinline__ void load_fragment(Fragment<Use, T, Layout>& to, const T* from, int pitch) {
#ifdef TRIFOLD_GPU_ARCH
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    constexpr bool of_a = std::is_same_v<Use, nvcuda::wmma::matrix_a>;
    constexpr bool by_rows = std::is_same_v<Layout, nvcuda::wmma::row_major>;
    uint32_t words[4];
    const unsigned address = trifold::shared_address(from);
    if constexpr (of_a && by_rows)
      asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(address), "r"(pitch)
                   : "memory");
    if constexpr (of_a && !by_rows)
      asm volatile("wmma.load.a.sync.aligned.col.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(address), "r"(pitch)
                   : "memory");
    if constexpr (!of_a && by_rows)
      asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(address), "r"(pitch)
                   : "memory");
    if constexpr (!of_a && !by_rows)
      asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(address), "r"(pitch)
                   : "memory");
    memcpy(to.x, words, sizeof words);
    return;
  }
#endif
  nvcuda::wmma::load_matrix_sync(to, from, pitch);
}

template <class T, int tile, bool a_along_k, bool b_along_k>
struct Stage {
  FactorTile<T, tile, a_along_k> a;
  FactorTile<T, tile, b_along_k> b;
};

// A warp's part of `out`, a square of `side`.
template <class T, int side, bool a_along_k, bool b_along_k>
class Accumulators {
  template <bool by_rows>
  using Layout = std::conditional_t<by_rows, nvcuda::wmma::row_major, nvcuda::wmma::col_major>;
  static constexpr int count = side / halves_side;
  Fragment<nvcuda::wmma::accumulator, float> sums_[count][count];

 public:
  // Floats from one row of a fragment to the next in shared memory.
  static constexpr int pitch = halves_side + 4;

  __device__ __forceinline__ Accumulators() {
#pragma unroll
    for (auto& row : sums_) {
#pragma unroll
      for (auto& sums : row) nvcuda::wmma::fill_fragment(sums, 0.0f);
    }
  }

  // Adds the products of a step, for rows from `row` and columns from `column` on.
  template <int tile>
  __device__ __forceinline__ void add(const Stage<T, tile, a_along_k, b_along_k>& stage, int row, int column) {
#pragma unroll
    for (int k = 0; k < halves_step; k += halves_side) {
      Fragment<nvcuda::wmma::matrix_b, T, Layout<!b_along_k>> of_b[count];
#pragma unroll
      for (int j = 0; j < count; ++j) load_fragment(of_b[j], stage.b.at(column + j * halves_side, k), stage.b.pitch);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        Fragment<nvcuda::wmma::matrix_a, T, Layout<a_along_k>> of_a;
        load_fragment(of_a, stage.a.at(row + i * halves_side, k), stage.a.pitch);
#pragma unroll
        for (int j = 0; j < count; ++j) nvcuda::wmma::mma_sync(sums_[i][j], of_a, of_b[j], sums_[i][j]);
      }
    }
  }

  // Rounds the sums and stores those within the matrix to `out`. The assignment of elements to lanes is private to
  // wmma: each fragment goes through the warp's `staged`, from which a lane reads eight numbers of a row.
  __device__ __forceinline__ void store(T* out, int64_t row_stride, int64_t rows, int64_t columns, float* staged) {
    using Piece = trifold::Packed<T>;
    const int lane = static_cast<int>(threadIdx.x) % trifold::warp_threads;
    const int row = lane / 2, column = lane % 2 * Piece::size;
    const bool in_pieces = trifold::elements_to_boundary(out) == 0 && row_stride % Piece::size == 0;
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (int j = 0; j < count; ++j) {
        nvcuda::wmma::store_matrix_sync(staged, sums_[i][j], pitch, nvcuda::wmma::mem_row_major);
        __syncwarp();
        const Piece rounded = trifold::pack<T>([&](int e) { return staged[row * pitch + column + e]; });
        __syncwarp();
        const int64_t first_row = i * halves_side + row, first_column = j * halves_side + column;
        T* const to = out + first_row * row_stride + first_column;
        const bool whole = in_pieces && first_row < rows && first_column + Piece::size <= columns;
        trifold::write_if(whole, to, rounded);
        if (whole || first_row >= rows) continue;
#pragma unroll
        for (int e = 0; e < Piece::size; ++e)
          if (first_column + e < columns) to[e] = rounded.get(e);
      }
    }
  }
};

// Tiles are numbered along the rows of `out`.
template <class T, int tile, bool a_along_k, bool b_along_k>
__global__ void __launch_bounds__(halves_threads, halves_blocks)
    matmul_halves_kernel(Factor<T> a, Factor<T> b, T* out, int64_t inner) {
  constexpr int stages = halves_stages<tile>, side = tile / 2;  // of a warp's square
  auto* const stage = trifold::dynamic_shared_lines<Stage<T, tile, a_along_k, b_along_k>>();
  const int64_t rows = a.size, columns = b.size, tiles_a_row = (columns + tile - 1) / tile;
  const int64_t first_row = blockIdx.x / tiles_a_row * tile, first_column = blockIdx.x % tiles_a_row * tile;
  const int warp = static_cast<int>(threadIdx.x) / trifold::warp_threads;
  const int own_row = warp / 2 * side, own_column = warp % 2 * side;

  TileCopies<T, tile, a_along_k> of_a(a, first_row);
  TileCopies<T, tile, b_along_k> of_b(b, first_column);
  const int steps = static_cast<int>((inner + halves_step - 1) / halves_step);
  const auto load = [&](int step) {
    if (step < steps) {
      const int k_left = static_cast<int>(min(inner - int64_t{step} * halves_step, int64_t{halves_step}));
      of_a.next(stage[step % stages].a, k_left);
      of_b.next(stage[step % stages].b, k_left);
    }
    trifold::commit_copies();  // a group per step; empty after the last one
  };
  trifold::wait_for_earlier_kernels();
#pragma unroll
  for (int step = 0; step < stages - 1; ++step) load(step);
  Accumulators<T, side, a_along_k, b_along_k> sums;
  for (int step = 0; step < steps; ++step) {
    trifold::wait_for_copies<stages - 2>();
    __syncthreads();  // all copies of this step have arrived, and all warps have finished the step before
    load(step + stages - 1);
    sums.add(stage[step % stages], own_row, own_column);
  }

  __syncthreads();
  float* const staged = trifold::dynamic_shared_lines<float>() + warp * halves_side * sums.pitch;
  sums.store(out + (first_row + own_row) * columns + first_column + own_column, columns, rows - first_row - own_row,
             columns - first_column - own_column, staged);
}
