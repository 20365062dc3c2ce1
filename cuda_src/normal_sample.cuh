// normal_sample: samples[row, column] = mean[row] + std[row] · z, with z standard normal, for rows × columns samples.
//
// z is computed where it is used (philox.cuh) and never stored. The noise is independent (one z per sample: sample i =
// row · columns + column uses normal i) or shared by all rows (column uses normal `column`). `state` points to the
// seed; if it is null, the seed is `seed`.
//
// Forward writes sizeof(T) bytes a sample; a group of four normals costs one Philox call and two Box–Muller pairs.
// Shared noise is bound by the writes. Independent float32 noise is bound by the instruction issue rate (H200, 1.97
// GHz): a warp issues 104 for its groups, of which 18 are 32 × 32-bit products that take four issue slots each, as does
// every other way to compute a product's upper half (mul.hi; an fma of doubles). These are 18 · 4 + 86 = 158 cycles, as
// measured, for 512 bytes that memory accepts in 117: 72% of the write rate, with or without the write. Backward reads
// as many bytes: d mean = Σ g and d std = Σ g·z along each row. It computes the noise again, once per eight rows if it
// is shared.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/philox.cuh>
#include <trifold/reduce.cuh>
#include <trifold/sums.cuh>
#include <trifold/vector.cuh>

__device__ __forceinline__ uint64_t seed_of(int64_t seed, const int64_t* state) {
  return static_cast<uint64_t>(state == nullptr ? seed : *state);
}

// ---------------------------------------------------------------------------------------------------- forward

// One thread per sample.
template <class T>
__global__ void normal_sample_kernel(const T* mean, const T* std, T* samples, int64_t rows, int64_t columns,
                                     bool shared_noise, int64_t seed, int64_t offset, const int64_t* state) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows * columns) {
    const int64_t row = i / columns;
    const int64_t normal = shared_noise ? i - row * columns : i;
    const C z = trifold::philox_normal<C>(seed_of(seed, state), offset, normal / 4, normal % 4);
    samples[i] = T(C(mean[row]) + C(std[row]) * z);
  }
}

// The unit of work of a thread: whole groups of four normals that fill at least one 16-byte vector.
template <class T>
struct Noise {
  static constexpr int size = trifold::Vector<T>::size < 4 ? 4 : trifold::Vector<T>::size;
  static constexpr int groups = size / 4;
  using C = trifold::compute_t<T>;

  trifold::PhiloxWords bits[groups];

  // The bits of vector `index`: of the normals from index · size on.
  __device__ __forceinline__ Noise(uint64_t seed, uint64_t offset, uint32_t index) {
#pragma unroll
    for (int g = 0; g < groups; ++g) bits[g] = trifold::philox_group(seed, offset, uint32_t(index * groups + g));
  }

  __device__ __forceinline__ void normals(C (&z)[groups][4]) const {
#pragma unroll
    for (int g = 0; g < groups; ++g) trifold::normals(bits[g], z[g]);
  }
};

// Writes the samples for one vector of z, all in one row, to `out`, which is aligned to 16 bytes.
template <class T, class C, int groups>
__device__ __forceinline__ void store(T* out, C mean, C std, const C (&z)[groups][4]) {
  using Out = trifold::Vector<T>;
#pragma unroll
  for (int first = 0; first < 4 * groups; first += Out::size) {
    Out vector;
#pragma unroll
    for (int k = 0; k < Out::size; ++k) vector.value[k] = T(mean + std * z[(first + k) / 4][(first + k) % 4]);
    *reinterpret_cast<Out*>(out + first) = vector;
  }
}

// Independent noise, one vector per thread at a time, for a grid of any size. The samples are one flat array, so a
// vector may hold the end of one row and the start of the next. `row_step` and `column_step` are the distance that the
// whole grid advances per step. `samples` is aligned; rows, columns and the number of groups fit in 31 bits.
template <class T>
__global__ void normal_sample_vector_kernel(const T* mean, const T* std, T* samples, int64_t rows, uint32_t columns,
                                            uint32_t row_step, uint32_t column_step, int64_t seed, int64_t offset,
                                            const int64_t* state) {
  using C = trifold::compute_t<T>;
  constexpr int size = Noise<T>::size;
  trifold::wait_for_earlier_kernels();
  const int64_t total = rows * columns;
  const uint64_t key = seed_of(seed, state);
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t vectors = static_cast<uint32_t>((total + size - 1) / size);
  const int64_t start = static_cast<int64_t>(thread) * size;
  uint32_t row = static_cast<uint32_t>(start / columns);
  uint32_t column = static_cast<uint32_t>(start % columns);
  for (uint32_t vector = thread; vector < vectors; vector += gridDim.x * blockDim.x) {
    C z[Noise<T>::groups][4];
    Noise<T>(key, offset, vector).normals(z);
    const int64_t first = static_cast<int64_t>(vector) * size;
    if (column + size <= columns) {
      store(samples + first, C(mean[row]), C(std[row]), z);
    } else {
      uint32_t r = row, c = column;
#pragma unroll
      for (int k = 0; k < size; ++k) {
        if (first + k < total) samples[first + k] = T(C(mean[r]) + C(std[r]) * z[k / 4][k % 4]);
        if (++c == columns) {
          c = 0;
          ++r;
        }
      }
    }
    row += row_step;
    column += column_step;
    if (column >= columns) {
      column -= columns;
      ++row;
    }
  }
}

// The block of the kernel below, in vectors of columns and in rows. Narrow, so that a warp without columns exits at
// once. Compile-time constants, as for trifold::thread_index.
inline constexpr uint32_t block_width = 32, block_height = 8;

// One vector of columns per thread, in `rows_a_thread` consecutive rows. threadIdx.x and blockIdx.x select the columns,
// threadIdx.y and blockIdx.y the rows. Shared noise is computed once for all rows of the thread. Independent noise is
// computed for each, and needs rows of whole vectors. `samples` is aligned; rows, columns and groups fit in 31 bits.
template <class T, bool shared_noise>
__global__ void normal_sample_rows_kernel(const T* mean, const T* std, T* samples, uint32_t rows, uint32_t columns,
                                          uint32_t rows_a_thread, int64_t seed, int64_t offset, const int64_t* state) {
  using C = trifold::compute_t<T>;
  constexpr uint32_t size = Noise<T>::size;
  const uint32_t vector = blockIdx.x * block_width + threadIdx.x;
  const uint32_t column = vector * size;
  uint32_t row = (blockIdx.y * block_height + threadIdx.y) * rows_a_thread;
  trifold::wait_for_earlier_kernels();
  if (column >= columns || row >= rows) return;
  const uint32_t end = rows - row < rows_a_thread ? rows : row + rows_a_thread;
  // Pointers that advance: the loop is bound by Philox's multiplications, and computing an address would add one.
  const T* m = mean + row;
  const T* s = std + row;
  T* out = samples + (static_cast<int64_t>(row) * columns + column);
  C z[Noise<T>::groups][4];
  if constexpr (shared_noise) {
    // Means and deviations are loaded four rows at a time, the first ones while the noise is computed: the latency of a
    // load is as long as the rest of a small launch.
    constexpr uint32_t ahead = 4;
    T row_mean[ahead], row_std[ahead];
    auto load = [&] {
#pragma unroll
      for (uint32_t k = 0; k < ahead; ++k)
        if (row + k < end) {
          row_mean[k] = m[k];
          row_std[k] = s[k];
        }
      m += ahead;
      s += ahead;
    };
    load();
    Noise<T>(seed_of(seed, state), offset, vector).normals(z);
    const bool whole = column + size <= columns && columns % trifold::Vector<T>::size == 0;
    while (true) {
#pragma unroll
      for (uint32_t k = 0; k < ahead; ++k, out += columns)
        if (row + k < end) {
          const C mean_k(row_mean[k]), std_k(row_std[k]);
          if (whole) {
            store(out, mean_k, std_k, z);
          } else {
#pragma unroll
            for (uint32_t i = 0; i < size; ++i)
              if (column + i < columns) out[i] = T(mean_k + std_k * z[i / 4][i % 4]);
          }
        }
      row += ahead;
      if (row >= end) break;
      load();
    }
  } else {
    const uint64_t key = seed_of(seed, state);
    const uint32_t vectors = columns / size;
    uint32_t index = row * vectors + vector;
#pragma unroll 4
    for (; row < end; ++row, ++m, ++s, out += columns, index += vectors) {
      Noise<T>(key, offset, index).normals(z);
      store(out, C(*m), C(*s), z);
    }
  }
}

// ---------------------------------------------------------------------------------------------------- backward

// Σ g and Σ g·z over part of a row.
template <class C>
struct RowSums {
  C mean, std;

  __device__ __forceinline__ RowSums operator+(const RowSums& other) const {
    return {mean + other.mean, std + other.std};
  }
};

inline constexpr int backward_block = 256;

// One block per row, of any stride. It goes along the row by groups of normals, which may begin anywhere in the row.
template <class T>
__global__ void normal_sample_backward_kernel(const T* grad, int64_t row_stride, int64_t column_stride, T* grad_mean,
                                              T* grad_std, int64_t rows, int64_t columns, bool shared_noise,
                                              int64_t seed, int64_t offset, const int64_t* state) {
  using C = trifold::compute_t<T>;
  const uint64_t key = seed_of(seed, state);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* g = grad + row * row_stride;
    const int64_t first = shared_noise ? 0 : row * columns;  // the row's first normal
    trifold::CompensatedSum<C> plain{}, weighted{};
    for (int64_t group = first / 4 + threadIdx.x; group * 4 < first + columns; group += backward_block) {
      C z[4];
      trifold::normals(trifold::philox_group(key, offset, group), z);
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        const int64_t column = group * 4 + lane - first;
        if (column >= 0 && column < columns) {
          const C value(g[column * column_stride]);
          plain.add(value);
          weighted.add(value * z[lane]);
        }
      }
    }
    const auto sums = trifold::block_sum<backward_block>(RowSums<C>{plain.value(), weighted.value()});
    if (threadIdx.x == 0) {
      grad_mean[row] = T(sums.mean);
      grad_std[row] = T(sums.std);
    }
  }
}

// The gradients of a group's four samples, read by one or two loads.
template <class T>
struct alignas(4 * sizeof(T) < trifold::vector_bytes ? 4 * sizeof(T) : trifold::vector_bytes) GroupGradients {
  T value[4];
};

// Groups that a thread sums before it adds to a compensated sum, which takes ten times as many instructions.
inline constexpr int plain_groups = 8;

// For rows of whole groups, contiguous in memory. `lanes` threads, part of a warp or a block, share a row; each has
// `rows_a_thread` rows, for which shared noise is computed once. If rows are few, gridDim.y blocks share a row: each
// writes to parts[row · gridDim.y + blockIdx.y], and the kernel below adds these. With gridDim.y = 1 it writes
// gradients. Rows, columns and groups fit in 31 bits.
template <class T, bool shared_noise, int lanes, int rows_a_thread>
__global__ void normal_sample_backward_vector_kernel(const T* grad, int64_t row_stride, T* grad_mean, T* grad_std,
                                                     RowSums<trifold::compute_t<T>>* parts, uint32_t rows,
                                                     uint32_t columns, int64_t seed, int64_t offset,
                                                     const int64_t* state) {
  using C = trifold::compute_t<T>;
  constexpr uint32_t rows_a_block = backward_block / lanes * rows_a_thread;
  const uint32_t lane = threadIdx.x % lanes;
  const uint32_t first_row = blockIdx.x * rows_a_block + threadIdx.x / lanes * rows_a_thread;
  const uint32_t groups = columns / 4;
  const uint64_t key = seed_of(seed, state);
  trifold::CompensatedSum<C> plain[rows_a_thread]{}, weighted[rows_a_thread]{};
  for (uint32_t group = blockIdx.y * lanes + lane; group < groups;) {
    RowSums<C> some[rows_a_thread]{};
    for (int k = 0; k < plain_groups && group < groups; ++k, group += gridDim.y * lanes) {
      GroupGradients<T> g[rows_a_thread];
#pragma unroll
      for (int r = 0; r < rows_a_thread; ++r)
        if (first_row + r < rows)
          g[r] = *reinterpret_cast<const GroupGradients<T>*>(grad + (first_row + r) * row_stride + group * 4);
      C z[4];
      trifold::normals(trifold::philox_group(key, offset, shared_noise ? group : first_row * groups + group), z);
#pragma unroll
      for (int r = 0; r < rows_a_thread; ++r)
        if (first_row + r < rows) {
          const C a(g[r].value[0]), b(g[r].value[1]), c(g[r].value[2]), d(g[r].value[3]);
          some[r] = some[r] + RowSums<C>{(a + b) + (c + d), (a * z[0] + b * z[1]) + (c * z[2] + d * z[3])};
        }
    }
#pragma unroll
    for (int r = 0; r < rows_a_thread; ++r) {
      plain[r].add(some[r].mean);
      weighted[r].add(some[r].std);
    }
  }
#pragma unroll
  for (int r = 0; r < rows_a_thread; ++r) {
    constexpr int in_warp = lanes < trifold::warp_threads ? lanes : trifold::warp_threads;
    auto sums = trifold::warp_reduce<in_warp>(RowSums<C>{plain[r].value(), weighted[r].value()}, trifold::Sum{});
    if constexpr (lanes == backward_block) sums = trifold::block_combine<backward_block>(sums, trifold::Sum{});
    const uint32_t row = first_row + r;
    if (lane != 0 || row >= rows) continue;
    if (gridDim.y > 1) {
      parts[static_cast<int64_t>(row) * gridDim.y + blockIdx.y] = sums;
    } else {
      grad_mean[row] = T(sums.mean);
      grad_std[row] = T(sums.std);
    }
  }
}

// Adds the `count` partial sums of each row. One warp per row.
template <class T>
__global__ void normal_sample_backward_parts_kernel(const RowSums<trifold::compute_t<T>>* parts, T* grad_mean,
                                                    T* grad_std, uint32_t rows, uint32_t count) {
  const uint32_t row = blockIdx.x * block_height + threadIdx.y;
  if (row >= rows) return;
  RowSums<trifold::compute_t<T>> sums{};
  for (uint32_t part = threadIdx.x; part < count; part += block_width)
    sums = sums + parts[static_cast<int64_t>(row) * count + part];
  sums = trifold::warp_sum(sums);
  if (threadIdx.x != 0) return;
  grad_mean[row] = T(sums.mean);
  grad_std[row] = T(sums.std);
}
