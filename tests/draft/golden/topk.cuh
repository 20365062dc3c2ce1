// topk: the kernels of prototypes/topk.py.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/python_numbers.cuh>

inline constexpr int ELEMENTS = 4;
inline constexpr int CAPACITY = 512;
inline constexpr int NO_COLUMN = 2147483647;

// Slice blockIdx.y of a row that is cut into gridDim.y slices; the last one also has the remainder.
__device__ __forceinline__ int64_t slice_length(int64_t columns, int64_t share) {
  return blockIdx.y + 1 == gridDim.y ? columns - blockIdx.y * share : share;
}

template <class C>
__device__ __forceinline__ bool is_larger(C a, C b) {
  return b == b && !(a <= b);  // also true if a is nan
}

template <class C>
__device__ __forceinline__ bool comes_before(C value_a, int64_t column_a, C value_b, int64_t column_b) {
  return is_larger(value_a, value_b) || (!is_larger(value_b, value_a) && column_a < column_b);
}

// Sort the first `count` candidates in shared memory, a power of two; all threads of the block call it.
template <class C>
__device__ __forceinline__ void sort(C* values, int64_t* columns, int count) {
  __syncthreads();
  int distance_before = 0;
  int size = 2;
  while (size <= count) {
    int distance = size / 2;
    while (distance > 0) {
      if (max(distance, distance_before) > 32) {
        __syncthreads();
      } else {
        __syncwarp();
      }
      for (int pair = threadIdx.x; pair < count / 2; pair += static_cast<int>(blockDim.x)) {
        const int i = 2 * pair - (pair & (distance - 1));
        const int64_t j = int64_t{i} + distance;
        bool swaps;
        if ((i & size) == 0) {
          swaps = comes_before(values[j], columns[j], values[i], columns[i]);
        } else {
          swaps = comes_before(values[i], columns[i], values[j], columns[j]);
        }
        if (swaps) {
          const C value = values[i];
          const int64_t column = columns[i];
          values[i] = values[j];
          columns[i] = columns[j];
          values[j] = value;
          columns[j] = column;
        }
      }
      distance_before = distance;
      distance /= 2;
    }
    size *= 2;
  }
  __syncthreads();
}

// Sort the first `count` candidates in shared memory, a power of two; all threads of the block call it.
template <class C>
__device__ __forceinline__ void sort(C* values, int64_t* columns, int64_t count) {
  __syncthreads();
  int64_t distance_before = 0;
  int64_t size = 2;
  while (size <= count) {
    int64_t distance = trifold::floor_div(size, 2);
    while (distance > 0) {
      if (max(distance, distance_before) > 32) {
        __syncthreads();
      } else {
        __syncwarp();
      }
      for (int64_t pair = threadIdx.x; pair < trifold::floor_div(count, 2); pair += static_cast<int>(blockDim.x)) {
        const int64_t i = 2 * pair - (pair & (distance - 1));
        const int64_t j = i + distance;
        bool swaps;
        if ((i & size) == 0) {
          swaps = comes_before(values[j], columns[j], values[i], columns[i]);
        } else {
          swaps = comes_before(values[i], columns[i], values[j], columns[j]);
        }
        if (swaps) {
          const C value = values[i];
          const int64_t column = columns[i];
          values[i] = values[j];
          columns[i] = columns[j];
          values[j] = value;
          columns[j] = column;
        }
      }
      distance_before = distance;
      distance /= 2;
    }
    size *= 2;
  }
  __syncthreads();
}

// Sort the `count` candidates, keep the k best, and return how many are left.
template <class C>
__device__ __forceinline__ int64_t sort_kept(C* values, int64_t* columns, int64_t* next_free, int64_t count, int k) {
  int64_t sorted_count = 1;
  while (sorted_count < max(count, int64_t{k})) sorted_count *= 2;
  for (int64_t i = count + threadIdx.x; i < sorted_count; i += static_cast<int>(blockDim.x)) {
    values[i] = -INFINITY;
    columns[i] = NO_COLUMN;
  }
  sort(values, columns, sorted_count);
  if (threadIdx.x == 0) next_free[0] = min(count, int64_t{k});
  return min(count, int64_t{k});
}

template <class T>
__global__ void __launch_bounds__(256)
    topk_kernel(const T* __restrict__ x, int64_t x_stride, const int64_t* __restrict__ columns_of,
                int64_t columns_of_stride, int64_t columns_of_size, T* __restrict__ values,
                int64_t* __restrict__ indices, int64_t rows, int64_t columns, int64_t share, int64_t k,
                int64_t capacity) {
  using C = trifold::compute_t<T>;
  __shared__ C kept_values[CAPACITY];
  __shared__ int64_t kept_columns[CAPACITY];
  __shared__ C best_values[trifold::threads_per_block];
  __shared__ int64_t best_columns[trifold::threads_per_block];
  __shared__ int64_t next_free[1];
  const int thread = threadIdx.x;
  const int threads = blockDim.x;
  const int crowd = max(static_cast<int>(k), threads / 4);
  const int64_t begin = blockIdx.y * share;
  const int64_t length = slice_length(columns, share);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    C threshold_value = C(-INFINITY);
    int64_t threshold_column = NO_COLUMN;
    int64_t kept = 0;
    if (thread == 0) next_free[0] = 0;
    for (int64_t first = 0; first < length; first += ELEMENTS * threads) {
      int64_t element = 0;  // each thread's next wanted element
      while (true) {
        C value = C(-INFINITY);
        int64_t column = first + element * threads + thread;
        while (element < ELEMENTS && column < length) {
          value = C(x[row * x_stride + begin + column]);
          if (!comes_before(threshold_value, threshold_column, value, column)) break;
          ++element;
          column += threads;
        }
        const bool wanted = element < ELEMENTS && column < length;
        const int count = __syncthreads_count(static_cast<int>(wanted));
        if (count == 0) break;
        C raised_value = C(-INFINITY);
        int64_t raised_column = NO_COLUMN;
        if (count > crowd) {
          C best_value = C(-INFINITY);
          int64_t best_column = NO_COLUMN;
          for (int64_t i = first + thread; i < min(length, first + ELEMENTS * threads); i += threads) {
            if (comes_before(C(x[row * x_stride + begin + i]), i, best_value, best_column)) {
              best_value = C(x[row * x_stride + begin + i]);
              best_column = i;
            }
          }
          best_values[thread] = best_value;
          best_columns[thread] = best_column;
          sort(best_values, best_columns, threads);
          raised_value = best_values[k - 1];
          raised_column = best_columns[k - 1];
        } else if (kept + count > capacity) {
          kept = sort_kept(kept_values, kept_columns, next_free, kept, static_cast<int>(k));
          raised_value = kept_values[k - 1];
          raised_column = kept_columns[k - 1];
        } else {
          if (wanted) {
            const int64_t place = trifold::atomic_add(&next_free[0], int64_t{1});
            kept_values[place] = value;
            kept_columns[place] = column;
          }
          ++element;
          kept += count;
        }
        if (comes_before(raised_value, raised_column, threshold_value, threshold_column)) {
          threshold_value = raised_value;
          threshold_column = raised_column;
        }
      }
    }
    sort_kept(kept_values, kept_columns, next_free, kept, static_cast<int>(k));
    if (thread < k) {
      const int64_t at = (row * gridDim.y + blockIdx.y) * k + thread;
      const int64_t column = begin + kept_columns[thread];
      values[at] = T(kept_values[thread]);
      indices[at] = columns_of_size > 0 ? columns_of[row * columns_of_stride + column] : column;
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    topk_backward_kernel(const T* __restrict__ grad_values, int64_t grad_values_stride,
                         const int64_t* __restrict__ indices, int64_t indices_stride, T* __restrict__ grad_x,
                         int64_t grad_x_stride, int64_t rows, int64_t columns, int64_t share, int64_t k, int64_t team) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / team;
  const int lane = static_cast<int>(threadIdx.x % team);
  const int64_t begin = blockIdx.y * share;
  const int64_t length = slice_length(columns, share);
  if (row < rows) {
    for (int64_t i = lane; i < length; i += team) grad_x[row * grad_x_stride + begin + i] = T(0.0f);
  }
  if (team > 32) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  if (row < rows) {
    for (int64_t j = lane; j < k; j += team) {
      const int64_t column = indices[row * indices_stride + j] - begin;
      if (column >= 0 && column < length)
        grad_x[row * grad_x_stride + begin + column] = grad_values[row * grad_values_stride + j];
    }
  }
}
