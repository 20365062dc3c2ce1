// Sums over the rows of a matrix, one per column, in two steps: for the gradients of a norm's parameters. There are no
// atomics, and the division of rows into parts depends on the matrix's size alone, so results repeat bit for bit.
#pragma once

#include <trifold/sums.cuh>

#include <algorithm>

namespace trifold {

// A block sums 32 columns, each with 4 threads: a warp reads neighbouring elements of one row.
inline constexpr int column_block = 32, column_threads = 4;

// The division of a matrix's rows: `parts` blocks with `rows_a_part` rows each.
struct RowShares {
  int64_t parts, rows_a_part;
};

// At least 8 rows per thread, unless that makes too few blocks to fill a large GPU: 8 on each of 132 multiprocessors.
inline RowShares share_rows(int64_t rows, int64_t columns) {
  constexpr int64_t least = 8 * column_threads, blocks = 8 * 132;
  const int64_t across = std::max<int64_t>(1, (columns + column_block - 1) / column_block);
  const int64_t most = std::max<int64_t>(1, blocks / across);
  const int64_t rows_a_part = std::max(least, (rows + most - 1) / most);
  return {std::max<int64_t>(1, (rows + rows_a_part - 1) / rows_a_part), rows_a_part};
}

__device__ __forceinline__ int64_t column_index() {
  return static_cast<int64_t>(blockIdx.x) * column_block + threadIdx.x;
}

// The sums of terms(row), N numbers of type C for this thread's column, over begin ≤ row < end; complete in the thread
// with threadIdx.y = 0 of each column. Called by all threads of the block.
template <class C, int N, class Terms>
__device__ __forceinline__ Pack<C, N> column_sums(int64_t begin, int64_t end, Terms terms) {
  CompensatedSum<C> sums[N]{};
  for (int64_t row = begin + threadIdx.y; row < end; row += column_threads) {
    const Pack<C, N> values = terms(row);
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k].add(values.value[k]);
  }
  __shared__ C of_thread[N][column_threads][column_block];
#pragma unroll
  for (int k = 0; k < N; ++k) of_thread[k][threadIdx.y][threadIdx.x] = sums[k].value();
  __syncthreads();
  Pack<C, N> all;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    all.value[k] = of_thread[k][0][threadIdx.x];
#pragma unroll
    for (int thread = 1; thread < column_threads; ++thread) all.value[k] += of_thread[k][thread][threadIdx.x];
  }
  return all;
}

// First step: the sums of terms(row, column), N numbers of type C, over the rows of part blockIdx.y, to
// parts[k][part][column] for the k-th of them.
template <class C, int N, class Terms>
__device__ __forceinline__ void sum_part(C* parts, int64_t rows, int64_t rows_a_part, int64_t columns, Terms terms) {
  const int64_t column = column_index(), begin = blockIdx.y * rows_a_part;
  const int64_t end = column >= columns ? begin : begin + rows_a_part < rows ? begin + rows_a_part : rows;
  const Pack<C, N> sums = column_sums<C, N>(begin, end, [&](int64_t row) { return terms(row, column); });
  if (threadIdx.y != 0 || column >= columns) return;
#pragma unroll
  for (int k = 0; k < N; ++k) parts[(k * int64_t{gridDim.y} + blockIdx.y) * columns + column] = sums.value[k];
}

// Second step: adds the `count` parts. Blocks with blockIdx.y = 0 write `first`, those with 1 `second`.
template <class T>
__global__ void sum_parts_kernel(const compute_t<T>* parts, T* first, T* second, int64_t count, int64_t columns) {
  using C = compute_t<T>;
  const int64_t column = column_index();
  const C* own = parts + blockIdx.y * count * columns + column;
  const Pack<C, 1> sum =
      column_sums<C, 1>(0, column < columns ? count : 0, [&](int64_t part) { return Pack<C, 1>{own[part * columns]}; });
  if (threadIdx.y == 0 && column < columns) (blockIdx.y == 0 ? first : second)[column] = T(sum.value[0]);
}

}  // namespace trifold
