// transpose: the kernels of prototypes/transpose.py.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/python_numbers.cuh>

inline constexpr int TILE_EDGE = 32;
inline constexpr int TILE_HEIGHT = 8;
inline constexpr int MOST_PACK = 4;
inline constexpr int TILE_PITCH = 33;

__global__ void __launch_bounds__(256)
    transpose_words_kernel(const int* __restrict__ x, int64_t x_stride0, int64_t x_stride1, int* __restrict__ y,
                           int64_t y_stride0, int64_t y_stride1, int64_t rows, int64_t columns, int64_t tiles,
                           int64_t pack) {
  const int bits = static_cast<int>(32 / pack);
  const int mask = (1 << bits) - 1;
  __shared__ int64_t staged[MOST_PACK][TILE_EDGE][TILE_PITCH];
  const int lane = threadIdx.x;
  const int64_t across = (columns + TILE_EDGE - 1) / TILE_EDGE;
  const int64_t down = (rows + TILE_EDGE - 1) / TILE_EDGE;
  for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const int64_t first_column = trifold::floor_mod(index, across) * TILE_EDGE;
    const int64_t first_row = trifold::floor_mod(trifold::floor_div(index, across), down) * TILE_EDGE;
    const int64_t matrix = trifold::floor_div(trifold::floor_div(index, across), down);
    for (int step = 0; step < TILE_EDGE; step += TILE_HEIGHT) {
      const int i = step + threadIdx.y;
      const int64_t row = first_row + i;
      const int64_t column = first_column + lane;
      if (row < rows && column < columns) {
        for (int j = 0; j < pack; ++j) {
          int64_t turned = 0;  // element j of each of the words
          for (int k = 0; k < pack; ++k) {
            const int word = x[matrix * x_stride0 + (row * pack + k) * x_stride1 + column];
            turned |= static_cast<int64_t>((word >> (j * bits)) & mask) << (k * bits);
          }
          staged[j][i][lane] = turned;
        }
      }
    }
    __syncthreads();
    for (int step = 0; step < TILE_EDGE; step += TILE_HEIGHT) {
      const int i = step + threadIdx.y;
      const int64_t row = first_row + lane;
      const int64_t column = first_column + i;
      if (row < rows && column < columns) {
        for (int j = 0; j < pack; ++j) {
          const int64_t turned = staged[j][lane][i];
          // of 32 bits, the highest is the sign of an int32
          y[matrix * y_stride0 + (column * pack + j) * y_stride1 + row] =
              static_cast<int>(turned - ((turned >> 31) << 32));
        }
      }
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    transpose_kernel(const T* __restrict__ x, int64_t x_stride0, int64_t x_stride1, T* __restrict__ y,
                     int64_t y_stride0, int64_t y_stride1, int64_t rows, int64_t columns, int64_t tiles) {
  __shared__ int64_t staged[TILE_EDGE][TILE_PITCH];
  const int lane = threadIdx.x;
  const int64_t across = (columns + TILE_EDGE - 1) / TILE_EDGE;
  const int64_t down = (rows + TILE_EDGE - 1) / TILE_EDGE;
  for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const int64_t first_column = trifold::floor_mod(index, across) * TILE_EDGE;
    const int64_t first_row = trifold::floor_mod(trifold::floor_div(index, across), down) * TILE_EDGE;
    const int64_t matrix = trifold::floor_div(trifold::floor_div(index, across), down);
    for (int step = 0; step < TILE_EDGE; step += TILE_HEIGHT) {
      const int i = step + threadIdx.y;
      const int64_t row = first_row + i;
      const int64_t column = first_column + lane;
      if (row < rows && column < columns) staged[i][lane] = x[matrix * x_stride0 + row * x_stride1 + column];
    }
    __syncthreads();
    for (int step = 0; step < TILE_EDGE; step += TILE_HEIGHT) {
      const int i = step + threadIdx.y;
      const int64_t row = first_row + lane;
      const int64_t column = first_column + i;
      if (row < rows && column < columns) y[matrix * y_stride0 + column * y_stride1 + row] = T(staged[lane][i]);
    }
    __syncthreads();  // the next tile is staged in the same memory
  }
}
