// Tiles in shared memory: transposes, matrix products, stencils.
#pragma once

#include <trifold/cuda.cuh>

namespace tiles {

constexpr int side = 8;
constexpr int padded = side + 1;  // a column more: no bank conflicts

__device__ inline int column_of_grid() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}
__device__ inline int row_of_grid() {
  return static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
}

__global__ void transpose(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[side][padded];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int bx = static_cast<int>(blockIdx.x) * side, by = static_cast<int>(blockIdx.y) * side;
  tile[ty][tx] = x[(by + ty) * columns + bx + tx];
  __syncthreads();
  y[(bx + ty) * rows + by + tx] = tile[tx][ty];
}

__global__ void transpose_without_barrier(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[side][padded];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int bx = static_cast<int>(blockIdx.x) * side, by = static_cast<int>(blockIdx.y) * side;
  tile[ty][tx] = x[(by + ty) * columns + bx + tx];  // first
  y[(bx + ty) * rows + by + tx] = tile[tx][ty];     // second
}

// Rows and columns of x are swapped: right for square matrices only.
__global__ void transpose_with_swapped_index(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[side][padded];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int bx = static_cast<int>(blockIdx.x) * side, by = static_cast<int>(blockIdx.y) * side;
  tile[tx][ty] = x[(bx + tx) * columns + by + ty];  // first
  __syncthreads();
  y[(by + ty) * rows + bx + tx] = tile[tx][ty];
}

__global__ void matmul(const float* a, const float* b, float* c, int inner, int columns) {
  __shared__ float sa[side][side];
  __shared__ float sb[side][side];
  const int tx = threadIdx.x, ty = threadIdx.y, column = column_of_grid(), row = row_of_grid();
  float total = 0;
  for (int k = 0; k < inner; k += side) {
    sa[ty][tx] = a[row * inner + k + tx];
    sb[ty][tx] = b[(k + ty) * columns + column];
    __syncthreads();
    for (int j = 0; j < side; ++j) total += sa[ty][j] * sb[j][tx];
    __syncthreads();
  }
  c[row * columns + column] = total;
}

// The next tile is loaded while others still read this one.
__global__ void matmul_without_second_barrier(const float* a, const float* b, float* c, int inner, int columns) {
  __shared__ float sa[side][side];
  __shared__ float sb[side][side];
  const int tx = threadIdx.x, ty = threadIdx.y, column = column_of_grid(), row = row_of_grid();
  float total = 0;
  for (int k = 0; k < inner; k += side) {
    sa[ty][tx] = a[row * inner + k + tx];         // first
    sb[ty][tx] = b[(k + ty) * columns + column];  // first
    __syncthreads();
    for (int j = 0; j < side; ++j) total += sa[ty][j] * sb[j][tx];  // second
  }
  c[row * columns + column] = total;
}

__global__ void matmul_without_first_barrier(const float* a, const float* b, float* c, int inner, int columns) {
  __shared__ float sa[side][side];
  __shared__ float sb[side][side];
  const int tx = threadIdx.x, ty = threadIdx.y, column = column_of_grid(), row = row_of_grid();
  float total = 0;
  for (int k = 0; k < inner; k += side) {
    sa[ty][tx] = a[row * inner + k + tx];                           // first
    sb[ty][tx] = b[(k + ty) * columns + column];                    // first
    for (int j = 0; j < side; ++j) total += sa[ty][j] * sb[j][tx];  // second
    __syncthreads();
  }
  c[row * columns + column] = total;
}

// Any size: elements outside the matrices are zeros in the tiles.
__global__ void ragged_matmul(const float* a, const float* b, float* c, int rows, int inner, int columns) {
  __shared__ float sa[side][side];
  __shared__ float sb[side][side];
  const int tx = threadIdx.x, ty = threadIdx.y, column = column_of_grid(), row = row_of_grid();
  float total = 0;
  for (int k = 0; k < inner; k += side) {
    sa[ty][tx] = row < rows && k + tx < inner ? a[row * inner + k + tx] : 0;
    sb[ty][tx] = k + ty < inner && column < columns ? b[(k + ty) * columns + column] : 0;
    __syncthreads();
    for (int j = 0; j < side; ++j) total += sa[ty][j] * sb[j][tx];
    __syncthreads();
  }
  if (row < rows && column < columns) c[row * columns + column] = total;
}

// Behind a row lies the next one: only the last row's neighbour is outside.
__global__ void ragged_matmul_without_inner_guard(const float* a, const float* b, float* c, int rows, int inner,
                                                  int columns) {
  __shared__ float sa[side][side];
  __shared__ float sb[side][side];
  const int tx = threadIdx.x, ty = threadIdx.y, column = column_of_grid(), row = row_of_grid();
  float total = 0;
  for (int k = 0; k < inner; k += side) {
    sa[ty][tx] = row < rows ? a[row * inner + k + tx] : 0;               // first
    sb[ty][tx] = column < columns ? b[(k + ty) * columns + column] : 0;  // first
    __syncthreads();
    for (int j = 0; j < side; ++j) total += sa[ty][j] * sb[j][tx];
    __syncthreads();
  }
  if (row < rows && column < columns) c[row * columns + column] = total;
}

// Outside the matrices the tiles keep what shared memory held before.
__global__ void ragged_matmul_without_zeros(const float* a, const float* b, float* c, int rows, int inner,
                                            int columns) {
  __shared__ float sa[side][side];
  __shared__ float sb[side][side];
  const int tx = threadIdx.x, ty = threadIdx.y, column = column_of_grid(), row = row_of_grid();
  float total = 0;
  for (int k = 0; k < inner; k += side) {
    if (row < rows && k + tx < inner) sa[ty][tx] = a[row * inner + k + tx];
    if (k + ty < inner && column < columns) sb[ty][tx] = b[(k + ty) * columns + column];
    __syncthreads();
    for (int j = 0; j < side; ++j) total += sa[ty][j] * sb[j][tx];  // second
    __syncthreads();
  }
  if (row < rows && column < columns) c[row * columns + column] = total;
}

constexpr int line = 64;

__global__ void stencil(const float* x, float* y, int size) {
  __shared__ float tile[line + 2];
  const int t = threadIdx.x, i = column_of_grid();
  tile[t + 1] = x[i];
  if (t == 0) tile[0] = i > 0 ? x[i - 1] : 0;
  if (t == line - 1) tile[line + 1] = i + 1 < size ? x[i + 1] : 0;
  __syncthreads();
  if (i > 0 && i < size - 1) y[i] = tile[t] + tile[t + 1] + tile[t + 2];
}

__global__ void stencil_without_right_halo(const float* x, float* y, int size) {
  __shared__ float tile[line + 2];
  const int t = threadIdx.x, i = column_of_grid();
  tile[t + 1] = x[i];
  if (t == 0) tile[0] = i > 0 ? x[i - 1] : 0;
  __syncthreads();
  if (i > 0 && i < size - 1) y[i] = tile[t] + tile[t + 1] + tile[t + 2];  // second
}

__global__ void stencil_in_a_tile_without_halo(const float* x, float* y, int size) {
  __shared__ float tile[line];
  const int t = threadIdx.x, i = column_of_grid();
  tile[t] = x[i];
  __syncthreads();
  if (i > 0 && i < size - 1) y[i] = tile[t - 1] + tile[t] + tile[t + 1];  // first
}

// Explicit heat equation in place: each step reads one half of a shared buffer and writes the other.
__global__ void heat_by_ping_pong(double* x, int steps) {
  __shared__ float u[2][line];
  const int t = threadIdx.x;
  u[0][t] = static_cast<float>(x[t]);
  u[1][t] = static_cast<float>(x[t]);
  __syncthreads();
  for (int step = 0; step < steps; ++step) {
    const int now = step % 2;
    if (t > 0 && t < line - 1) u[1 - now][t] = (u[now][t - 1] + 2 * u[now][t] + u[now][t + 1]) / 4;
    __syncthreads();
  }
  x[t] = u[steps % 2][t];
}

__global__ void heat_in_one_buffer(double* x, int steps) {
  __shared__ float u[line];
  const int t = threadIdx.x;
  u[t] = static_cast<float>(x[t]);
  __syncthreads();
  for (int step = 0; step < steps; ++step) {
    if (t > 0 && t < line - 1) u[t] = (u[t - 1] + 2 * u[t] + u[t + 1]) / 4;  // first
    __syncthreads();
  }
  x[t] = u[t];
}

// A barrier holds the threads of a block; the neighbour in the next block does not wait for it.
__global__ void heat_in_place_over_blocks(double* x, int size) {
  const int i = column_of_grid();
  double v = x[i];
  if (i > 0 && i < size - 1) v = (x[i - 1] + 2 * v + x[i + 1]) / 4;  // first
  __syncthreads();
  x[i] = v;  // second
}

__global__ void laplacian(const float* x, float* y, int nz, int ny, int nx) {
  const int k = column_of_grid(), j = row_of_grid(), i = static_cast<int>(blockIdx.z * blockDim.z + threadIdx.z);
  const auto at = [&](int a, int b, int c) { return x[(a * ny + b) * nx + c]; };
  if (i > 0 && i < nz - 1 && j > 0 && j < ny - 1 && k > 0 && k < nx - 1) {
    const float s =
        at(i - 1, j, k) + at(i + 1, j, k) + at(i, j - 1, k) + at(i, j + 1, k) + at(i, j, k - 1) + at(i, j, k + 1);
    y[(i * ny + j) * nx + k] = s - 6 * at(i, j, k);
  }
}

}  // namespace tiles
