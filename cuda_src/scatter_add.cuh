// scatter_add: out[index[r]] += source[r] for `rows` rows of `columns` numbers, where out starts as `size` rows of
// zeros. Backward gathers: d source[r] = d out[index[r]]. The two are linear and adjoint.
//
// A row whose index is outside 0 ... size - 1 is ignored, and its gradient is 0. Indices come in any order, and repeat:
// rows are added by atomics, in the order in which they happen to arrive. Half types are summed in float, in a separate
// buffer, and rounded once.
//
// Least traffic: forward reads source and index once and writes out once, (rows + size)·columns·sizeof(T) + 8·rows
// bytes. The zeros and the additions to them also pass through the cache, and for a half type through the buffer of
// 4·size·columns bytes. Backward reads an index and moves 2·columns·sizeof(T) bytes per row.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/vector.cuh>

inline constexpr int scatter_add_block = trifold::threads_per_block;
inline constexpr int scatter_add_most_lanes = 32;    // threads per row: of float, a line of memory per addition
inline constexpr int scatter_add_rows_a_thread = 4;  // loads in flight per thread

template <class C>
__global__ void scatter_add_zero_kernel(C* sums, trifold::Share share) {
  trifold::map_vectors([] { return C(0); }, sums + share.head, share);
}

// Calls use(column, first, apart): a thread has one column of the rows first + k·apart, k < scatter_add_rows_a_thread.
// The block is lanes × rows.
template <class Use>
__device__ __forceinline__ void for_each_tile(int64_t rows, int64_t columns, Use use) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t apart = blockDim.y, rows_a_block = apart * scatter_add_rows_a_thread;
  if (column >= columns) return;
  for (int64_t first = blockIdx.y * rows_a_block + threadIdx.y; first < rows; first += gridDim.y * rows_a_block)
    use(column, first, apart);
}

// The row of out that a row is added to, or -1.
__device__ __forceinline__ int64_t place_of(const int64_t* index, int64_t index_stride, int64_t row, int64_t rows,
                                            int64_t size) {
  const int64_t place = row < rows ? index[row * index_stride] : -1;
  return place >= 0 && place < size ? place : -1;
}

template <class T>
__global__ void scatter_add_kernel(const T* source, int64_t source_stride, const int64_t* index, int64_t index_stride,
                                   trifold::compute_t<T>* sums, int64_t rows, int64_t columns, int64_t size) {
  using C = trifold::compute_t<T>;
  trifold::wait_for_earlier_kernels();
  for_each_tile(rows, columns, [=](int64_t column, int64_t first, int64_t apart) {
    int64_t place[scatter_add_rows_a_thread];
    C number[scatter_add_rows_a_thread];
#pragma unroll
    for (int k = 0; k < scatter_add_rows_a_thread; ++k) {
      const int64_t row = first + k * apart;
      place[k] = place_of(index, index_stride, row, rows, size);
      number[k] = row < rows ? C(source[row * source_stride + column]) : C(0);
    }
#pragma unroll
    for (int k = 0; k < scatter_add_rows_a_thread; ++k)
      if (place[k] >= 0) atomicAdd(sums + place[k] * columns + column, number[k]);
  });
}

// Four contiguous numbers: 16 bytes of float.
template <class T>
struct alignas(4 * sizeof(T)) FourNumbers {
  static constexpr int size = 4;
  T value[size];
};

// Rounds the sums of a half type. Both tensors begin at a 16-byte boundary.
template <class T>
__global__ void scatter_add_round_kernel(const float* sums, T* out, int64_t n) {
  constexpr int size = FourNumbers<T>::size;
  const int64_t thread = trifold::thread_index(), first = thread * size;
  trifold::wait_for_earlier_kernels();
  if (first + size <= n) {
    const auto wide = reinterpret_cast<const FourNumbers<float>*>(sums)[thread];
    FourNumbers<T> rounded;
#pragma unroll
    for (int k = 0; k < size; ++k) rounded.value[k] = T(wide.value[k]);
    reinterpret_cast<FourNumbers<T>*>(out)[thread] = rounded;
  } else {
    for (int64_t i = first; i < n; ++i) out[i] = T(sums[i]);
  }
}

// U is the unit that a thread moves, an element or a vector; a row has `columns` of them.
template <class U>
__global__ void scatter_add_backward_kernel(const U* grad, int64_t grad_stride, const int64_t* index,
                                            int64_t index_stride, U* grad_source, int64_t rows, int64_t columns,
                                            int64_t size) {
  trifold::wait_for_earlier_kernels();
  for_each_tile(rows, columns, [=](int64_t column, int64_t first, int64_t apart) {
    U number[scatter_add_rows_a_thread];
#pragma unroll
    for (int k = 0; k < scatter_add_rows_a_thread; ++k) {
      const int64_t place = place_of(index, index_stride, first + k * apart, rows, size);
      number[k] = place >= 0 ? grad[place * grad_stride + column] : U{};
    }
#pragma unroll
    for (int k = 0; k < scatter_add_rows_a_thread; ++k) {
      const int64_t row = first + k * apart;
      if (row < rows) grad_source[row * columns + column] = number[k];
    }
  });
}
