// transpose: y[b, c, r] = x[b, r, c] for `count` matrices of `rows` × `columns` elements of any type: only bits move,
// so that the kernels are instantiated for 1, 2, 4 and 8 bytes and not for types.
//
// Each element is read once and written once: 2·sizeof(T) bytes. A warp reads along a row and must write along a column
// of x, which is a row of y; directly in global memory, one of the two would touch 32 lines for 32 elements. So a block
// reads a tile row by row into shared memory and writes it column by column: both access 32 neighbours.
//
// Bank conflicts. Shared memory has 32 banks, word w (4 bytes) is in bank w mod 32, and a warp's access takes as many
// passes as the busiest bank has different words. In a tile of 32 × 32 words, column c is the words c, c + 32, c + 64,
// ...: all in bank c, so that reading it takes 32 passes. With an unused 33rd word in each row, the column is the words
// c, c + 33, c + 66, ...: in banks c, c + 1, c + 2, ..., one pass. A row is still 32 neighbours.
//
// For elements of 1 or 2 bytes a warp would move 32 or 64 bytes at a time, a fraction of a 128-byte line. Instead,
// transpose_words_kernel moves words of 4 or 2 elements, and swaps elements within 4 × 4 or 2 × 2 of them in registers.
// Where rows are not whole words, elements are moved one by one. Those of up to 4 bytes have tiles of 64 × 64: tiles of
// 32 × 32 would keep too few bytes in flight. A row of a tile is followed by an unused word, as above.
#pragma once

#include <trifold/cuda.cuh>

#include <algorithm>

inline constexpr int tile_lanes = 32;
inline constexpr int tile_height = 8;  // rows of a tile that a block reads at once, a warp per row

// Rows and columns of a tile of elements of type T, and the elements from one row to the next in shared memory.
template <class T>
inline constexpr int tile_edge = sizeof(T) > sizeof(uint32_t) ? tile_lanes : 2 * tile_lanes;
template <class T>
inline constexpr int tile_pitch = tile_edge<T> + std::max<int>(1, sizeof(uint32_t) / sizeof(T));

// A block's tile: its matrix, first row and first column.
struct Tile {
  int64_t matrix, row, column;

  // Tile number `index`, counted along rows, then down the matrix, then over the matrices.
  __device__ __forceinline__ Tile(int64_t index, int64_t rows, int64_t columns, int edge) {
    const int64_t across = (columns + edge - 1) / edge, down = (rows + edge - 1) / edge;
    column = index % across * edge;
    row = index / across % down * edge;
    matrix = index / across / down;
  }
};

// Matrices of x begin `matrix_stride` elements apart, rows `row_stride`; the elements of a row are contiguous. y is
// contiguous. `tiles` is the number of tiles of all matrices.
template <class T>
__global__ void transpose_kernel(const T* x, int64_t matrix_stride, int64_t row_stride, T* y, int64_t rows,
                                 int64_t columns, int64_t tiles) {
  constexpr int edge = tile_edge<T>;
  __shared__ T staged[edge][tile_pitch<T>];
  for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile tile(index, rows, columns, edge);
    trifold::wait_for_earlier_kernels();  // after the divisions, which need no data
    const T* from = x + tile.matrix * matrix_stride;
    T* to = y + tile.matrix * rows * columns;
    T element[edge / tile_height][edge / tile_lanes];  // all loads are issued before the first is used
#pragma unroll
    for (int step = 0; step < edge / tile_height; ++step) {
#pragma unroll
      for (int part = 0; part < edge / tile_lanes; ++part) {
        const int64_t row = tile.row + step * tile_height + threadIdx.y;
        const int64_t column = tile.column + part * tile_lanes + threadIdx.x;
        element[step][part] = row < rows && column < columns ? from[row * row_stride + column] : T(0);
      }
    }
#pragma unroll
    for (int step = 0; step < edge / tile_height; ++step) {
#pragma unroll
      for (int part = 0; part < edge / tile_lanes; ++part)
        staged[step * tile_height + threadIdx.y][part * tile_lanes + threadIdx.x] = element[step][part];
    }
    __syncthreads();
#pragma unroll
    for (int step = 0; step < edge / tile_height; ++step) {
#pragma unroll
      for (int part = 0; part < edge / tile_lanes; ++part) {
        const int i = step * tile_height + static_cast<int>(threadIdx.y);
        const int j = part * tile_lanes + static_cast<int>(threadIdx.x);
        const int64_t row = tile.row + j, column = tile.column + i;
        if (row < rows && column < columns) to[column * rows + row] = staged[j][i];
      }
    }
    __syncthreads();  // the next tile is staged in the same memory
  }
}

// The same for words of `pack` elements of 4 / pack bytes. A thread moves a cell: `pack` words in `pack` consecutive
// rows, which it transposes into `pack` words of as many columns. The types of x and y and the strides are in words;
// `rows` and `columns` count cells. Word j of a cell is staged in plane j, each of which is a tile as above.
template <int pack>
__global__ void transpose_words_kernel(const uint32_t* x, int64_t matrix_stride, int64_t row_stride, uint32_t* y,
                                       int64_t rows, int64_t columns, int64_t tiles) {
  constexpr int bits = 32 / pack;
  constexpr uint32_t mask = (uint32_t{1} << bits) - 1;
  constexpr int edge = tile_lanes;
  __shared__ uint32_t staged[pack][edge][edge + 1];
  const int lane = static_cast<int>(threadIdx.x);
  for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile tile(index, rows, columns, edge);
    trifold::wait_for_earlier_kernels();  // after the divisions, which need no data
    const uint32_t* from = x + tile.matrix * matrix_stride;
    uint32_t* to = y + tile.matrix * rows * columns * pack;
    uint32_t word[edge / tile_height][pack];  // all loads are issued before the first is used
#pragma unroll
    for (int step = 0; step < edge; step += tile_height) {
      const int64_t row = tile.row + step + threadIdx.y, column = tile.column + lane;
      const bool inside = row < rows && column < columns;
#pragma unroll
      for (int k = 0; k < pack; ++k)
        word[step / tile_height][k] = inside ? from[(row * pack + k) * row_stride + column] : 0;
    }
#pragma unroll
    for (int step = 0; step < edge; step += tile_height) {
#pragma unroll
      for (int j = 0; j < pack; ++j) {
        uint32_t turned = 0;  // element j of each of the words
#pragma unroll
        for (int k = 0; k < pack; ++k) turned |= ((word[step / tile_height][k] >> (j * bits)) & mask) << (k * bits);
        staged[j][step + threadIdx.y][lane] = turned;
      }
    }
    __syncthreads();
#pragma unroll
    for (int step = 0; step < edge; step += tile_height) {
      const int i = step + static_cast<int>(threadIdx.y);
      const int64_t row = tile.row + lane, column = tile.column + i;
      if (row < rows && column < columns) {
#pragma unroll
        for (int j = 0; j < pack; ++j) to[(column * pack + j) * rows + row] = staged[j][lane][i];
      }
    }
    __syncthreads();
  }
}
