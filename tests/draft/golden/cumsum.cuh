// cumsum: the kernels of prototypes/cumsum.py.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/python_numbers.cuh>

inline constexpr int TILE = 256;
inline constexpr int WARPS_PER_BLOCK = 8;
inline constexpr uint32_t ALL_LANES = 0xFFFFFFFF;
inline constexpr int NOTHING = 0;
inline constexpr int AGGREGATE = 1;
inline constexpr int PREFIX = 2;

template <class T>
using y_t = std::conditional_t<std::is_integral_v<T>, int64_t, T>;

template <class T>
using wide_t = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

// The inclusive prefix sum over the lanes of a warp.
template <class Wide>
__device__ __forceinline__ Wide warp_scan(Wide value) {
  for (const int distance : {1, 2, 4, 8, 16}) {
    const Wide left = __shfl_up_sync(ALL_LANES, value, distance);
    if (threadIdx.x % 32 >= distance) value += left;
  }
  return value;
}

template <class CY, class Wide>
struct BlockScanResult {
  Wide value;
  Wide before;
  CY total;
};

// The scan of the block's values: within this thread's warp; the sum of the warps before it; the sum of all.
template <class CY, class Wide>
__device__ __forceinline__ BlockScanResult<CY, Wide> block_scan(Wide value, CY* of_warp) {
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  value = warp_scan(value);
  if (threadIdx.x % 32 == 31) of_warp[warp] = CY(value);
  __syncthreads();
  CY total;
  if (threadIdx.x == 0) {
    total = of_warp[0];
    for (int other = 1; other < warps; ++other) {
      total += of_warp[other];
      of_warp[other] = total;
    }
  }
  __syncthreads();
  const Wide before = warp > 0 ? of_warp[warp - 1] : Wide(0);
  total = of_warp[warps - 1];
  __syncthreads();
  return {value, before, total};
}

// The number at a position of the scan; 0 after the last one.
template <class T>
__device__ __forceinline__ wide_t<T> load(const T* x, int64_t x_stride, int64_t row, int64_t position, int64_t columns,
                                          bool reverse) {
  using C = trifold::number_t<T>;
  using Wide = wide_t<T>;
  if (position >= columns) return 0;
  return Wide(C(x[row * x_stride + (reverse ? columns - 1 - position : position)]));
}

template <class Y, class Wide>
__device__ __forceinline__ void store(Y* y, int64_t y_stride, int64_t row, int64_t position, int64_t columns,
                                      bool reverse, Wide value) {
  using CY = trifold::number_t<Y>;
  if (position < columns) y[row * y_stride + (reverse ? columns - 1 - position : position)] = Y(CY(value));
}

template <class T>
__global__ void __launch_bounds__(256)
    cumsum_rows_kernel(const T* __restrict__ x, int64_t x_stride, y_t<T>* __restrict__ y, int64_t y_stride,
                       int64_t rows, int64_t columns, bool reverse) {
  using Y = y_t<T>;
  using CY = trifold::number_t<Y>;
  using Wide = wide_t<T>;
  __shared__ CY of_warp[WARPS_PER_BLOCK];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Wide carry = 0;  // float64, or int64 for integers
    for (int64_t first = 0; first < columns; first += static_cast<int>(blockDim.x)) {
      const int64_t position = first + threadIdx.x;
      const auto [value, before, total] = block_scan(load(x, x_stride, row, position, columns, reverse), of_warp);
      store(y, y_stride, row, position, columns, reverse, value + (carry + before));
      carry += total;
    }
  }
}

// The index of this thread in a one-dimensional grid, as int64.
__device__ __forceinline__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__global__ void __launch_bounds__(256) cumsum_reset_kernel(int* __restrict__ states, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) states[i] = NOTHING;
}

template <class CY, class Wide>
__device__ __forceinline__ void publish(Wide* to, int* states, int tile, CY value, int state) {
  to[tile] = Wide(value);
  __threadfence();
  atomicExch(&states[tile], state);
}

// The sum of the row's tiles before this one, computed by one warp; tiles of a row are `apart`.
template <class Wide>
__device__ __forceinline__ Wide sum_before(int tile, int64_t apart, int* states, const Wide* aggregates,
                                           const Wide* prefixes) {
  const int lane = threadIdx.x % 32;
  // Backwards to the nearest tile whose prefix is published, 32 tiles at a time.
  int64_t back = 0;
  int known = 0;
  while (known == 0) {
    const int64_t other = tile - (back + 1 + lane) * apart;
    bool waits = true;
    while (waits) {
      const int state = other >= 0 ? atomicAdd(&states[other], 0) : AGGREGATE;
      known = static_cast<int>(__ballot_sync(ALL_LANES, state == PREFIX));
      const int missing = static_cast<int>(__ballot_sync(ALL_LANES, state == NOTHING));
      const int64_t nearer = known != 0 ? (known & static_cast<int>(-int64_t{known})) - int64_t{1} : ALL_LANES;
      waits = (missing & nearer) != 0;
      if (waits) __nanosleep(uint32_t{20});
    }
    if (known == 0) back += 32;
  }
  __threadfence();
  __syncwarp();  // orders a lane's reads after another lane's reads of the states
  const int64_t count = back + __ffsll(int64_t{known}) - 1;  // tiles after the nearest one
  const int64_t nearest = tile - (count + 1) * apart;
  // Forwards: the same additions whichever tile was the nearest.
  Wide total = prefixes[nearest];
  for (int64_t first = 1; first < count + 1; first += 32) {
    const Wide own = first + lane <= count ? aggregates[nearest + (first + lane) * apart] : Wide(0);
    for (int i = 0; i < 32; ++i) total += __shfl_sync(ALL_LANES, own, i);
  }
  return total;
}

template <class Wide>
__device__ __forceinline__ void publish(Wide* to, int* states, int tile, Wide value, int state) {
  to[tile] = value;
  __threadfence();
  atomicExch(&states[tile], state);
}

template <class T>
__global__ void __launch_bounds__(256)
    cumsum_tiles_kernel(const T* __restrict__ x, int64_t x_stride, y_t<T>* __restrict__ y, int64_t y_stride,
                        int64_t rows, int64_t columns, bool reverse, int* states, wide_t<T>* aggregates,
                        wide_t<T>* prefixes, int* claimed) {
  using Y = y_t<T>;
  using CY = trifold::number_t<Y>;
  using Wide = wide_t<T>;
  __shared__ CY of_warp[WARPS_PER_BLOCK];
  __shared__ int claim[1];
  __shared__ Wide carry[1];
  const int64_t tiles = rows * ((columns + TILE - 1) / TILE);
  while (true) {
    if (threadIdx.x == 0) claim[0] = atomicAdd(&claimed[0], 1);
    __syncthreads();
    const int tile = claim[0];
    if (tile >= tiles) return;
    const int64_t row = trifold::floor_mod(tile, rows);
    const int64_t position = trifold::floor_div(tile, rows) * TILE + threadIdx.x;
    const auto [value, before, total] = block_scan(load(x, x_stride, row, position, columns, reverse), of_warp);
    if (threadIdx.x < 32) {
      Wide earlier = 0;
      if (tile >= rows) {
        if (threadIdx.x == 0) publish(aggregates, states, tile, total, AGGREGATE);
        earlier = sum_before(tile, rows, states, aggregates, prefixes);
      }
      if (threadIdx.x == 0) {
        publish(prefixes, states, tile, earlier + total, PREFIX);
        carry[0] = earlier;
      }
    }
    __syncthreads();
    store(y, y_stride, row, position, columns, reverse, value + (carry[0] + before));
  }
}
