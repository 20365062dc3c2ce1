// matmul_tiled: the kernels of prototypes/matmul_tiled.py.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/python_numbers.cuh>

inline constexpr int TILE = 32;
inline constexpr int SIDE = 8;
inline constexpr int STEP = 8;
inline constexpr int PITCH = 36;
inline constexpr int OWN = 4;
inline constexpr int LOADS = 4;
inline constexpr int THREADS = 64;

template <class T>
__device__ __forceinline__ void load_tile(trifold::compute_t<T>* tile, int64_t tile_stride, const T* matrix,
                                          int64_t matrix_stride0, int64_t matrix_stride1, bool along_k, int64_t first_i,
                                          int64_t size, int64_t first_k, int64_t inner) {
  using C = trifold::compute_t<T>;
  const int thread = threadIdx.y * SIDE + threadIdx.x;
  for (int load = 0; load < LOADS; ++load) {
    const int element = load * THREADS + thread;
    const int i = along_k ? element / STEP : element % TILE;
    const int k = along_k ? element % STEP : element / TILE;
    const bool inside = first_i + i < size && first_k + k < inner;
    tile[k * tile_stride + i] =
        inside ? C(matrix[(first_i + i) * matrix_stride0 + (first_k + k) * matrix_stride1]) : C(0.0);
  }
}

template <class T>
__global__ void __launch_bounds__(64)
    matmul_tiled_kernel(const T* __restrict__ a, int64_t a_stride0, int64_t a_stride1, bool a_along_k,
                        const T* __restrict__ b_transposed, int64_t b_transposed_stride0, int64_t b_transposed_stride1,
                        bool b_along_k, T* __restrict__ out, int64_t out_stride, int64_t rows, int64_t columns,
                        int64_t inner) {
  using C = trifold::compute_t<T>;
  __shared__ C a_tile[STEP][PITCH];
  __shared__ C b_tile[STEP][PITCH];
  const int64_t tiles_a_row = (columns + TILE - 1) / TILE;
  const int64_t first_row = trifold::floor_div(blockIdx.x, tiles_a_row) * TILE;
  const int64_t first_column = trifold::floor_mod(blockIdx.x, tiles_a_row) * TILE;
  const int own_row = threadIdx.y * OWN;
  const int own_column = threadIdx.x * OWN;
  // A thread whose elements are all outside computes none, to spare the simulator sums of zeros.
  const int own_steps = first_row + own_row < rows && first_column + own_column < columns ? STEP : 0;

  C sums[OWN][OWN];
  for (int i = 0; i < OWN; ++i) {
    for (int j = 0; j < OWN; ++j) sums[i][j] = 0;
  }
  for (int64_t first_k = 0; first_k < inner; first_k += STEP) {
    load_tile(&a_tile[0][0], 36, a, a_stride0, a_stride1, a_along_k, first_row, rows, first_k, inner);
    load_tile(&b_tile[0][0], 36, b_transposed, b_transposed_stride0, b_transposed_stride1, b_along_k, first_column,
              columns, first_k, inner);
    __syncthreads();
    for (int k = 0; k < own_steps; ++k) {
      for (int i = 0; i < OWN; ++i) {
        const C of_a = a_tile[k][own_row + i];
        for (int j = 0; j < OWN; ++j) sums[i][j] += of_a * b_tile[k][own_column + j];
      }
    }
    __syncthreads();
  }

  for (int i = 0; i < OWN; ++i) {
    const int64_t row = first_row + own_row + i;
    for (int j = 0; j < OWN; ++j) {
      const int64_t column = first_column + own_column + j;
      if (row < rows && column < columns) out[row * out_stride + column] = T(sums[i][j]);
    }
  }
}
