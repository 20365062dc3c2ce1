// matmul_tiled: out = a·b, of shapes (rows, inner) and (inner, columns): out[r, c] = Σₖ a[r, k]·b[k, c].
//
// A block makes a tile of 64 × 64 numbers of `out`. It goes through `inner` in steps of 16: all threads copy 16 columns
// of 64 rows of `a`, and 16 rows of 64 columns of `b`, to shared memory, where each number is read by 16 threads. A
// thread makes 4 × 4 numbers, in registers: of 8 numbers from shared memory come 16 products.
//
// The least that must move: `a` and `b` read once and `out` written once. A block reads 2·64·inner numbers for 64·64
// results, so that `a` is read columns / 64 times, and `b` rows / 64 times, mostly from the L2 cache.
//
// Products are added up in the order of k, in float for half types and float, in double for double, and rounded once.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int matmul_tile = 64, matmul_step = 16;          // numbers across a tile, and along k
inline constexpr int matmul_side = 16, matmul_own = 4;            // threads across a tile, and a thread's numbers
inline constexpr int matmul_threads = matmul_side * matmul_side;  // of a block
inline constexpr int matmul_loads = matmul_tile * matmul_step / matmul_threads;  // of a thread, for each tile

// Rows of 68 numbers: those of neighbouring k begin four banks apart, and on 16 bytes.
template <class C>
using MatmulTile = C[matmul_step][matmul_tile + 4];

// tile[k][i] = matrix[first_i + i, first_k + k], and 0 outside of the matrix, whose element (i, k) lies
// i · stride + k · k_stride elements from its first one. Neighbouring threads read along the dimension in which
// elements lie next to one another: along k, or across it.
template <class T, class C>
__device__ __forceinline__ void load_tile(MatmulTile<C>& tile, const T* matrix, int64_t stride, int64_t k_stride,
                                          bool along_k, int64_t first_i, int64_t size, int64_t first_k, int64_t inner) {
  const int thread = static_cast<int>(threadIdx.y * matmul_side + threadIdx.x);
#pragma unroll
  for (int load = 0; load < matmul_loads; ++load) {
    const int element = load * matmul_threads + thread;
    const int i = along_k ? element / matmul_step : element % matmul_tile;
    const int k = along_k ? element % matmul_step : element / matmul_tile;
    const bool inside = first_i + i < size && first_k + k < inner;
    tile[k][i] = inside ? C(matrix[(first_i + i) * stride + (first_k + k) * k_stride]) : C(0);
  }
}

// The strides of `b` are of its transpose: of a column, and of k. Tiles are numbered along the rows of `out`.
template <class T>
__global__ void __launch_bounds__(matmul_threads)
    matmul_tiled_kernel(const T* a, int64_t a_stride, int64_t a_k_stride, bool a_along_k, const T* b, int64_t b_stride,
                        int64_t b_k_stride, bool b_along_k, T* out, int64_t rows, int64_t columns, int64_t inner) {
  using C = trifold::compute_t<T>;
  alignas(16) __shared__ MatmulTile<C> a_tile;
  alignas(16) __shared__ MatmulTile<C> b_tile;
  const int64_t tiles_a_row = (columns + matmul_tile - 1) / matmul_tile;
  const int64_t first_row = blockIdx.x / tiles_a_row * matmul_tile;
  const int64_t first_column = blockIdx.x % tiles_a_row * matmul_tile;
  const int own_row = static_cast<int>(threadIdx.y) * matmul_own,
            own_column = static_cast<int>(threadIdx.x) * matmul_own;

  C sums[matmul_own][matmul_own] = {};
  for (int64_t first_k = 0; first_k < inner; first_k += matmul_step) {
    load_tile(a_tile, a, a_stride, a_k_stride, a_along_k, first_row, rows, first_k, inner);
    load_tile(b_tile, b, b_stride, b_k_stride, b_along_k, first_column, columns, first_k, inner);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < matmul_step; ++k) {
#pragma unroll
      for (int i = 0; i < matmul_own; ++i) {
        const C of_a = a_tile[k][own_row + i];
#pragma unroll
        for (int j = 0; j < matmul_own; ++j) sums[i][j] += of_a * b_tile[k][own_column + j];
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < matmul_own; ++i) {
    const int64_t row = first_row + own_row + i;
#pragma unroll
    for (int j = 0; j < matmul_own; ++j) {
      const int64_t column = first_column + own_column + j;
      if (row < rows && column < columns) out[row * columns + column] = T(sums[i][j]);
    }
  }
}
