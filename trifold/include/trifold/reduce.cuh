// Reductions over the lanes of a warp and the threads of a block. Every thread gets the same result, bit for bit: the
// order in which values are combined depends only on their positions.
#pragma once

#include <trifold/cuda.cuh>

#include <cstring>
#include <iterator>
#include <type_traits>

namespace trifold {

inline constexpr int warp_threads = 32;

struct Sum {
  template <class T>
  __host__ __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

// Elementwise, for two Packs.
struct Sums {
  template <class P>
  __device__ __forceinline__ P operator()(const P& a, const P& b) const {
    P sums;
#pragma unroll
    for (int j = 0; j < static_cast<int>(std::size(sums.value)); ++j) sums.value[j] = a.value[j] + b.value[j];
    return sums;
  }
};

// The maximum; nan if either is nan, as in torch.max.
struct Max {
  template <class T>
  __host__ __device__ __forceinline__ T operator()(T a, T b) const {
#if TRIFOLD_GPU_ARCH >= 800
    if constexpr (std::is_same_v<T, float>) {
      float larger;
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
      return larger;
    }
#endif
    return a > b || a != a ? a : b;
  }
};

// The value of the lane whose index is this lane's XOR `lanes`. All 32 lanes call it.
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int lanes) {
  if constexpr (std::is_arithmetic_v<T>) {
    return __shfl_xor_sync(0xffffffffu, value, lanes);
  } else {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0, "a struct is exchanged in 4-byte words");
    unsigned words[sizeof(T) / 4];
    std::memcpy(words, &value, sizeof value);
#pragma unroll
    for (unsigned& word : words) word = __shfl_xor_sync(0xffffffffu, word, lanes);
    std::memcpy(&value, words, sizeof value);
    return value;
  }
}

// The value of one of a warp's lanes, or of each part of `lanes` lanes. All 32 lanes call it.
template <int lanes = warp_threads, class T>
__device__ __forceinline__ T of_lane(T value, int lane) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0, "a struct is exchanged in 4-byte words");
  unsigned words[sizeof(T) / 4];
  std::memcpy(words, &value, sizeof value);
#pragma unroll
  for (unsigned& word : words) word = __shfl_sync(0xffffffffu, word, lane, lanes);
  std::memcpy(&value, words, sizeof value);
  return value;
}

// The value of the first lane of a warp, or of each part of `lanes` lanes. All 32 lanes call it.
template <int lanes = warp_threads, class T>
__device__ __forceinline__ T of_first_lane(T value) {
  return __shfl_sync(0xffffffffu, value, 0, lanes);
}

// Combines the values of a warp's lanes; or, with fewer `lanes`, a power of two, those of each such part of a warp.
// `combine` must be commutative. All 32 lanes call it.
template <int lanes = warp_threads, class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, Combine combine) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) value = combine(value, shuffle_xor(value, distance));
  return value;
}

// The sums over a warp's lanes of R values each, at once: in each step, half of the lanes continue with half of the
// values, until a lane has one. Eight need 9 shuffles instead of 40. The sum of value r is in the 32 / R lanes from r ·
// 32 / R on.
template <int R, int lanes = warp_threads>
__device__ __forceinline__ float sums_apart(const float (&values)[R]) {
  if constexpr (R == 1) {
    return warp_reduce<lanes>(values[0], Sum{});
  } else {
    constexpr int half = R / 2;
    const bool upper = (threadIdx.x & (lanes / 2)) != 0;
    float own[half];
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? values[half + i] : values[i], given = upper ? values[i] : values[half + i];
      own[i] = kept + shuffle_xor(given, lanes / 2);
    }
    return sums_apart<half, lanes / 2>(own);
  }
}

// Combines the values of a block's warps, if all threads of a warp have the same value. The block has `threads`
// threads, a multiple of 32, in one dimension; all call it. Ends with a barrier, so that it can be called again at
// once.
template <int threads, class T, class Combine>
__device__ __forceinline__ T block_combine(T value, Combine combine) {
  static_assert(threads % warp_threads == 0 && threads <= 1024, "a block of whole warps, at most 1,024 threads");
  constexpr int warps = threads / warp_threads;
  if constexpr (warps > 1) {
    __shared__ T of_warp[warps];
    if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
    __syncthreads();
    value = of_warp[0];
#pragma unroll
    for (int warp = 1; warp < warps; ++warp) value = combine(value, of_warp[warp]);
    __syncthreads();
  }
  return value;
}

// The values of a block's threads, combined; otherwise as block_combine.
template <int threads, class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, Combine combine) {
  return block_combine<threads>(warp_reduce(value, combine), combine);
}

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  return warp_reduce(value, Sum{});
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
  return warp_reduce(value, Max{});
}
template <int threads, class T>
__device__ __forceinline__ T block_sum(T value) {
  return block_reduce<threads>(value, Sum{});
}
template <int threads, class T>
__device__ __forceinline__ T block_max(T value) {
  return block_reduce<threads>(value, Max{});
}

}  // namespace trifold
