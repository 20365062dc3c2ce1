// embedding: out[p] = weight[indices[p]], a row of `columns` elements for each of `positions` indices, and the gradient
//
//   grad_weight[v] = Σ grad[p]   over the positions p with indices[p] = v; there may be none
//
// An index outside 0 ... vocabulary - 1 gives a row of nan, and its row of `grad` is ignored: the host cannot check
// indices without waiting for the GPU, and memory outside `weight` must not be read.
//
// Least traffic: forward reads and writes a row per position, 2·sizeof(T) bytes an element, and 8 bytes for the index;
// backward reads `grad` and writes `grad_weight`, sizeof(T) bytes an element of each.
//
// Backward has two forms: - by atomics: a row is summed in the order in which threads arrive. Half types are summed in
// a float32 buffer and rounded once, which moves 10 more bytes per element of `grad_weight`. - in order: positions are
// stably sorted by their index beforehand, and threads add the positions of their row one after the other. The bits are
// always the same, and no extra bytes are moved; but a row of very many positions keeps few threads busy.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/packed.cuh>

// Loads in flight per thread: in `embedding_kernel` from one row, or from as many rows if they are short; in
// `embedding_add_kernel` from as many rows.
inline constexpr int embedding_loads = 4;

// A thread moves one Part at a time: an element, or 16 bytes of a row.
template <class T>
struct Element {
  using Type = T;
  static constexpr int size = 1;
  T value;

  static __device__ __forceinline__ Element all(T value) { return {value}; }
  static __device__ __forceinline__ Element read(const T* from) { return {*from}; }
  static __device__ __forceinline__ Element round(const trifold::compute_t<T> (&sums)[size]) { return {T(sums[0])}; }
  __device__ __forceinline__ void write_if(bool condition, T* to) const {
    if (condition) *to = value;
  }
  __device__ __forceinline__ trifold::compute_t<T> operator[](int) const { return trifold::compute_t<T>(value); }
};

template <class T>
struct Piece {
  using Type = T;
  static constexpr int size = trifold::Packed<T>::size;
  trifold::Packed<T> packed;

  static __device__ __forceinline__ Piece all(T value) { return {trifold::Packed<T>::all(value)}; }
  static __device__ __forceinline__ Piece read(const T* from) { return {trifold::read(from)}; }
  static __device__ __forceinline__ Piece round(const float (&sums)[size]) {
    return {trifold::pack<T>([&](int i) { return sums[i]; })};
  }
  // For an assignment, nvcc (13.0) emits four stores of 4 bytes.
  __device__ __forceinline__ void write_if(bool condition, T* to) const { trifold::write_if(condition, to, packed); }
  __device__ __forceinline__ float operator[](int i) const { return packed[i]; }
};

__device__ __forceinline__ bool is_row(int64_t index, int64_t vocabulary) {
  return index >= 0 && index < vocabulary;
}

// The first of this thread's rows, which are blockDim.y apart. A block has rows_a_thread · blockDim.y rows, each shared
// by blockDim.x threads.
template <int rows_a_thread = 1>
__device__ __forceinline__ int64_t row_of_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.y * rows_a_thread + threadIdx.y;
}

template <class Part, int rows_a_thread, class T = typename Part::Type>
__global__ void embedding_kernel(const int64_t* indices, const T* weight, int64_t row_stride, int64_t column_stride,
                                 T* out, int64_t positions, int64_t vocabulary, int64_t columns) {
  constexpr int loads = embedding_loads / rows_a_thread;  // per row
  trifold::wait_for_earlier_kernels();
  const int64_t position = row_of_thread<rows_a_thread>(), apart = blockDim.y;
  const T* from[rows_a_thread];  // the row of weight, or null
#pragma unroll
  for (int r = 0; r < rows_a_thread; ++r) {
    const int64_t index = position + r * apart < positions ? indices[position + r * apart] : -1;
    from[r] = is_row(index, vocabulary) ? weight + index * row_stride : nullptr;
  }
  const int64_t width = static_cast<int64_t>(blockDim.x) * Part::size, tile = loads * width;
  for (int64_t first = blockIdx.y * tile + threadIdx.x * Part::size; first < columns; first += gridDim.y * tile) {
    Part part[rows_a_thread][loads];
#pragma unroll
    for (int r = 0; r < rows_a_thread; ++r) {
#pragma unroll
      for (int k = 0; k < loads; ++k) {
        const int64_t column = first + k * width;
        part[r][k] = Part::all(T(NAN));
        if (from[r] != nullptr && column < columns) part[r][k] = Part::read(from[r] + column * column_stride);
      }
    }
#pragma unroll
    for (int r = 0; r < rows_a_thread; ++r) {
#pragma unroll
      for (int k = 0; k < loads; ++k) {
        const int64_t column = first + k * width, row = position + r * apart;
        part[r][k].write_if(row < positions && column < columns, out + row * columns + column);
      }
    }
  }
}

// ------------------------------------------------------------------------------------------ backward, by atomics

// A thread adds four sums: 16 bytes of float. `sums` begins at a 16-byte boundary.
template <class C>
struct alignas(4 * sizeof(C)) FourNumbers {
  static constexpr int size = 4;
  C value[size];
};

template <class C>
__global__ void embedding_zero_kernel(C* sums, int64_t n) {
  using Four = FourNumbers<C>;
  trifold::wait_for_earlier_kernels();
  const int64_t first = trifold::thread_index() * Four::size;
  if (first + Four::size <= n) {
    *reinterpret_cast<Four*>(sums + first) = {};
  } else {
#pragma unroll 1
    for (int64_t i = first; i < n; ++i) sums[i] = 0;
  }
}

// The threads of a warp add to neighbouring elements: such atomics are merged into few transactions.
template <class T>
__global__ void embedding_add_kernel(const T* grad, int64_t grad_stride, const int64_t* indices,
                                     trifold::compute_t<T>* sums, int64_t positions, int64_t vocabulary,
                                     int64_t columns) {
  using C = trifold::compute_t<T>;
  trifold::wait_for_earlier_kernels();
  const int64_t position = row_of_thread<embedding_loads>(), width = blockDim.x;
  for (int64_t column = blockIdx.y * width + threadIdx.x; column < columns; column += gridDim.y * width) {
    int64_t index[embedding_loads];
    C number[embedding_loads];
#pragma unroll
    for (int r = 0; r < embedding_loads; ++r) {
      const int64_t row = position + r * blockDim.y;
      index[r] = row < positions ? indices[row] : -1;
      number[r] = row < positions ? C(grad[row * grad_stride + column]) : C(0);
    }
#pragma unroll
    for (int r = 0; r < embedding_loads; ++r)
      if (is_row(index[r], vocabulary)) atomicAdd(&sums[index[r] * columns + column], number[r]);
  }
}

template <class T>
__global__ void embedding_round_kernel(const float* sums, T* grad_weight, int64_t n) {
  using Four = FourNumbers<float>;
  trifold::wait_for_earlier_kernels();
  const int64_t first = trifold::thread_index() * Four::size;
  if (first + Four::size <= n) {
    const Four four = *reinterpret_cast<const Four*>(sums + first);
    FourNumbers<T> rounded;
#pragma unroll
    for (int i = 0; i < Four::size; ++i) rounded.value[i] = T(four.value[i]);
    *reinterpret_cast<FourNumbers<T>*>(grad_weight + first) = rounded;
  } else {
#pragma unroll 1
    for (int64_t i = first; i < n; ++i) grad_weight[i] = T(sums[i]);
  }
}

// ------------------------------------------------------------------------------------------ backward, in order

// starts[v], for v up to `vocabulary`: the number of indices less than v. `order` lists the positions sorted by index.
__global__ void embedding_starts_kernel(const int64_t* indices, const int64_t* order, int64_t* starts,
                                        int64_t positions, int64_t vocabulary) {
  const int64_t v = trifold::thread_index();
  if (v > vocabulary) return;
  int64_t low = 0, high = positions;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (indices[order[middle]] < v)
      low = middle + 1;
    else
      high = middle;
  }
  starts[v] = low;
}

// sums += grad[order[i]] for i = begin, begin + step, ... < end, in this order.
template <class Part, class T = typename Part::Type>
__device__ __forceinline__ void add_rows(trifold::compute_t<T> (&sums)[Part::size], const T* grad, int64_t grad_stride,
                                         const int64_t* order, int64_t begin, int64_t end, int step) {
#pragma unroll 4
  for (int64_t i = begin; i < end; i += step) {
    const Part part = Part::read(grad + order[i] * grad_stride);
#pragma unroll
    for (int e = 0; e < Part::size; ++e) sums[e] += part[e];
  }
}

// blockDim.x threads per row of grad_weight, each of which sums one Part of it.
template <class Part, class T = typename Part::Type>
__global__ void embedding_sum_kernel(const T* grad, int64_t grad_stride, const int64_t* order, const int64_t* starts,
                                     T* grad_weight, int64_t vocabulary, int64_t columns) {
  const int64_t v = row_of_thread();
  if (v >= vocabulary) return;
  const int64_t width = static_cast<int64_t>(blockDim.x) * Part::size;
  for (int64_t column = blockIdx.y * width + threadIdx.x * Part::size; column < columns; column += gridDim.y * width) {
    trifold::compute_t<T> sums[Part::size] = {};
    add_rows<Part>(sums, grad + column, grad_stride, order, starts[v], starts[v + 1], 1);
    Part::round(sums).write_if(true, grad_weight + v * columns + column);
  }
}

// The same for rows with many positions: one block per row. Thread y of a column adds every blockDim.y-th position from
// the y-th on; then the first thread adds their sums.
template <class Part, class T = typename Part::Type>
__global__ void embedding_long_sum_kernel(const T* grad, int64_t grad_stride, const int64_t* order,
                                          const int64_t* starts, T* grad_weight, int64_t vocabulary, int64_t columns) {
  using C = trifold::compute_t<T>;
  constexpr int block = trifold::threads_per_block;
  __shared__ C of_thread[Part::size][block];
  const int64_t v = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int64_t width = static_cast<int64_t>(blockDim.x) * Part::size;
  for (int64_t tile = blockIdx.y * width; tile < columns; tile += gridDim.y * width) {
    const int64_t column = tile + threadIdx.x * Part::size;
    C sums[Part::size] = {};
    if (column < columns)
      add_rows<Part>(sums, grad + column, grad_stride, order, starts[v] + threadIdx.y, starts[v + 1],
                     static_cast<int>(blockDim.y));
#pragma unroll
    for (int e = 0; e < Part::size; ++e) of_thread[e][thread] = sums[e];
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
      for (int other = thread + blockDim.x; other < block; other += blockDim.x) {
#pragma unroll
        for (int e = 0; e < Part::size; ++e) sums[e] += of_thread[e][other];
      }
      Part::round(sums).write_if(true, grad_weight + v * columns + column);
    }
    __syncthreads();
  }
}
