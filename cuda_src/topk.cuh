// topk: the k largest numbers of each of `rows` rows of `columns` numbers, largest first, and their columns; k is at
// most 64. Numbers are ordered as by argmax (argmax.cuh): nan first, and ties by the lowest column. Backward: grad_x is
// the upstream gradients in those columns, and 0 elsewhere.
//
// Rows of x begin `x_stride` elements apart; those of grad_x are contiguous. Forward must read x once, backward must
// write grad_x once: sizeof(T) bytes an element each, plus k numbers and indices per row.
//
// A block goes through a row once, in tiles of registers, and keeps the candidates for the k largest: numbers not below
// a threshold that at least k numbers of the row are known to reach. When the buffer of candidates is full they are
// sorted, and the k-th becomes the new threshold. If too many numbers of a tile pass the threshold, as in the first
// tile, that is raised first: the largest number of each thread is sorted, and the k-th of these is a threshold, since
// k threads have a number at least as large. Of a tile of random numbers little more than k are kept.
//
// If there are few rows and they are long, each is cut into slices with a block per slice; a second launch of the same
// kernel finds the k largest of the slices' results, in which equal numbers are in the order of their columns.
#pragma once

#include "argmax.cuh"

#include <climits>

inline constexpr int topk_most = 64;
inline constexpr int topk_vectors = 4;  // per thread and tile: of 2-byte numbers 32, a bit each in a mask

// Ordered after every number of a row.
template <class C>
inline constexpr Candidate<C> no_candidate{-C(INFINITY), INT_MAX};

// Candidates in shared memory.
template <class C, int capacity>
struct Candidates {
  C value[capacity];
  typename Candidate<C>::Column column[capacity];

  __device__ __forceinline__ Candidate<C> get(int i) const { return {value[i], column[i]}; }
  __device__ __forceinline__ void put(int i, Candidate<C> candidate) {
    value[i] = candidate.value;
    column[i] = candidate.column;
  }
};

// Sorts the first `count` candidates, a power of two, by a bitonic network. Called by all `threads` threads; begins and
// ends with a barrier. The 32 pairs of a warp at distances up to 32 are within the same 64 candidates: between such
// steps no barrier of the block is needed.
template <int threads, class C, int capacity>
__device__ __forceinline__ void sort(Candidates<C, capacity>& candidates, int count) {
  __syncthreads();
  int distance_before = 0;
  for (int size = 2; size <= count; size *= 2) {
    for (int distance = size / 2; distance > 0; distance /= 2) {
      if (max(distance, distance_before) > trifold::warp_threads)
        __syncthreads();
      else
        __syncwarp();
      for (int pair = static_cast<int>(threadIdx.x); pair < count / 2; pair += threads) {
        const int i = 2 * pair - (pair & (distance - 1)), j = i + distance;
        const Candidate<C> a = candidates.get(i), b = candidates.get(j);
        const bool rising = (i & size) == 0;
        if (rising ? comes_before(b, a) : comes_before(a, b)) {
          candidates.put(i, b);
          candidates.put(j, a);
        }
      }
      distance_before = distance;
    }
  }
  __syncthreads();
}

// A thread's part of a tile: vector `v`, and others `threads` apart.
template <class T, int threads>
struct Tile {
  using C = trifold::compute_t<T>;
  static constexpr int size = trifold::Vector<T>::size;

  const Slice<const T>& slice;
  int v;
  trifold::Vector<T> vector[topk_vectors];

  __device__ __forceinline__ Tile(const Slice<const T>& slice, int v) : slice(slice), v(v) {
#pragma unroll
    for (int p = 0; p < topk_vectors; ++p)
      if (exists(p)) vector[p] = slice.load(v + p * threads);
  }

  __device__ __forceinline__ bool exists(int p) const { return v + p * threads < slice.vectors; }
  __device__ __forceinline__ int column(int i) const { return slice.column(v + i / size * threads) + i % size; }

  // Element i, read again from memory, since registers cannot be indexed.
  __device__ __forceinline__ Candidate<C> get(int i) const { return {C(slice.first[column(i)]), column(i)}; }

  // Bit i is set unless element i is ordered after the threshold. Most vectors have no number as large as the
  // threshold.
  __device__ __forceinline__ unsigned wanted(Candidate<C> threshold) const {
    unsigned mask = 0;
#pragma unroll
    for (int p = 0; p < topk_vectors; ++p) {
      if (!exists(p) || is_larger(threshold.value, largest_of(vector[p]))) continue;
#pragma unroll
      for (int e = 0; e < size; ++e) {
        const int i = p * size + e;
        if (!comes_before(threshold, Candidate<C>{C(vector[p].value[e]), column(i)})) mask |= 1u << i;
      }
    }
    return mask;
  }

  __device__ __forceinline__ Candidate<C> best() const {
    Candidate<C> best = no_candidate<C>;
#pragma unroll
    for (int p = 0; p < topk_vectors; ++p) {
      if (!exists(p)) continue;
#pragma unroll
      for (int e = 0; e < size; ++e) best = Better{}(best, Candidate<C>{C(vector[p].value[e]), column(p * size + e)});
    }
    return best;
  }
};

// The candidates that a block keeps of a row, and the threshold; all but the array is the same in all threads. Needs
// capacity for k candidates and one per thread.
template <class C, int threads, int capacity>
struct Kept {
  Candidates<C, capacity>& candidates;
  int& next;  // in shared memory: the first free index
  int k, count;
  Candidate<C> threshold = no_candidate<C>;

  __device__ __forceinline__ void raise(Candidate<C> candidate) { threshold = Better{}(threshold, candidate); }

  // Sorts them, and keeps the k best.
  __device__ __forceinline__ void reduce() {
    int sorted = 1;
    while (sorted < max(count, k)) sorted *= 2;
    for (int i = count + static_cast<int>(threadIdx.x); i < sorted; i += threads) candidates.put(i, no_candidate<C>);
    sort<threads>(candidates, sorted);
    raise(candidates.get(k - 1));
    count = min(count, k);
    if (threadIdx.x == 0) next = count;
  }
};

// `columns_of` maps elements of x to columns of the original row; null: they are the same. Writes k results per slice
// of each row.
template <class T, int threads, int capacity>
__global__ void __launch_bounds__(threads)
    topk_kernel(const T* x, int64_t x_stride, const int64_t* columns_of, T* values, int64_t* indices, int64_t rows,
                int64_t columns, int64_t share, int k) {
  using C = trifold::compute_t<T>;
  static_assert(capacity >= topk_most + threads && (capacity & (capacity - 1)) == 0 && threads >= topk_most);
  __shared__ Candidates<C, capacity> candidates;
  __shared__ Candidates<C, threads> best_of_threads;
  __shared__ int next;
  const int thread = static_cast<int>(threadIdx.x);
  const int crowd = max(k, threads / 4);
  trifold::wait_for_earlier_kernels();
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Slice<const T> slice(x + row * x_stride, columns, share);
    Kept<C, threads, capacity> kept{candidates, next, k, slice.edges()};
    if (thread < slice.edges()) {
      const int column = slice.edge(thread);
      candidates.put(thread, {C(slice.first[column]), column});
    }
    if (thread == 0) next = slice.edges();
    for (int first = 0; first < slice.vectors; first += topk_vectors * threads) {
      const Tile<T, threads> tile(slice, first + thread);
      unsigned wanted = tile.wanted(kept.threshold);
      for (;;) {  // each thread's next wanted element
        Candidate<C> candidate = no_candidate<C>;
        for (; wanted != 0; wanted &= wanted - 1) {
          candidate = tile.get(__ffs(static_cast<int>(wanted)) - 1);
          if (!comes_before(kept.threshold, candidate)) break;
        }
        const int count = __syncthreads_count(wanted != 0);
        if (count == 0) break;
        if (count > crowd) {
          best_of_threads.put(thread, tile.best());
          sort<threads>(best_of_threads, threads);
          kept.raise(best_of_threads.get(k - 1));
        } else if (kept.count + count > capacity) {
          kept.reduce();
        } else {
          if (wanted != 0) candidates.put(atomicAdd(&next, 1), candidate);
          wanted &= wanted - 1;
          kept.count += count;
        }
      }
    }
    kept.reduce();
    if (thread < k) {
      const int64_t at = (row * gridDim.y + blockIdx.y) * k + thread;
      const int64_t column = slice.begin + candidates.column[thread];
      values[at] = T(candidates.value[thread]);
      indices[at] = columns_of == nullptr ? column : columns_of[row * columns + column];
    }
    __syncthreads();
  }
}

// The indices of a row are distinct.
template <class T, int team>
__global__ void __launch_bounds__(argmax_block)
    topk_backward_kernel(const T* grad_values, const int64_t* indices, T* grad_x, int64_t rows, int64_t columns,
                         int64_t share, int k) {
  using C = trifold::compute_t<T>;
  const int64_t row = trifold::thread_index<argmax_block>() / team;
  const int lane = static_cast<int>(threadIdx.x) % team;
  constexpr int early = team < topk_most ? 2 : 1;  // gradients loaded per thread: all but in the smallest teams
  trifold::wait_for_earlier_kernels();
  const Slice<T> slice(grad_x + row * columns, columns, share);
  const T zero = T(C(0));
  // Loaded before the zeros are stored: loads after the stores would wait for them.
  int64_t column[early];
  T grad[early];
#pragma unroll
  for (int i = 0; i < early; ++i) {
    const int j = lane + i * team;
    const bool exists = row < rows && j < k;
    column[i] = exists ? indices[row * k + j] - slice.begin : -1;
    grad[i] = exists ? grad_values[row * k + j] : zero;
  }
  if (row < rows) {
    trifold::Vector<T> zeros;
#pragma unroll
    for (T& value : zeros.value) value = zero;
    for (int i = lane; i < slice.edges(); i += team) slice.first[slice.edge(i)] = zero;
    for (int v = lane; v < slice.vectors; v += team) slice.store(v, zeros);
  }
  if constexpr (team > trifold::warp_threads)
    __syncthreads();
  else
    __syncwarp();
  const auto put = [&](int64_t column, T grad) {
    if (column >= 0 && column < slice.length) slice.first[column] = grad;
  };
#pragma unroll
  for (int i = 0; i < early; ++i) put(column[i], grad[i]);
  if (row < rows) {
    for (int j = lane + early * team; j < k; j += team)
      put(indices[row * k + j] - slice.begin, grad_values[row * k + j]);
  }
}
