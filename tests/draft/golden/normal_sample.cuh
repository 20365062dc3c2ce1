// normal_sample: the kernels of prototypes/normal_sample.py.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/python_numbers.cuh>

inline constexpr uint32_t MULTIPLIER_0 = 0xD2511F53;
inline constexpr uint32_t MULTIPLIER_1 = 0xCD9E8D57;
inline constexpr int HALF_WORD = 32;
inline constexpr uint32_t LOW = 0xFFFFFFFF;
inline constexpr uint32_t WEYL_0 = 0x9E3779B9;
inline constexpr uint32_t WEYL_1 = 0xBB67AE85;
inline constexpr int WARPS_PER_BLOCK = 8;
inline constexpr uint32_t ALL_LANES = 0xFFFFFFFF;

struct Philox4x3210Result {
  uint64_t c0;
  uint64_t c1;
  uint64_t c2;
  uint64_t c3;
};

// The four words for counter (c0, c1, c2, c3) and key (k0, k1); all uint64 below 2^32.
__device__ __forceinline__ Philox4x3210Result philox4x32_10(uint64_t c0, uint64_t c1, uint64_t c2, uint64_t c3,
                                                            uint64_t k0, uint64_t k1) {
  for (int turn = 0; turn < 10; ++turn) {
    const uint64_t p0 = MULTIPLIER_0 * c0;
    const uint64_t p1 = MULTIPLIER_1 * c2;
    c0 = (p1 >> HALF_WORD) ^ c1 ^ k0;
    c1 = p1 & LOW;
    c2 = (p0 >> HALF_WORD) ^ c3 ^ k1;
    c3 = p0 & LOW;
    k0 = (k0 + WEYL_0) & LOW;
    k1 = (k1 + WEYL_1) & LOW;
  }
  return {c0, c1, c2, c3};
}

// The four words of group `group` in the draw identified by `(seed, offset)`; all int64.
__device__ __forceinline__ Philox4x3210Result philox_group(int64_t seed, int64_t offset, int64_t group) {
  const int64_t draw = trifold::floor_div(offset, 4);
  return philox4x32_10(static_cast<uint64_t>(draw & 0xFFFFFFFF), static_cast<uint64_t>((draw >> 32) & 0xFFFFFFFF),
                       static_cast<uint64_t>(group & 0xFFFFFFFF), static_cast<uint64_t>((group >> 32) & 0xFFFFFFFF),
                       static_cast<uint64_t>(seed & 0xFFFFFFFF), static_cast<uint64_t>((seed >> 32) & 0xFFFFFFFF));
}

// A uniform number in (0, 1] from 32 bits, rounded to float32 at each step: the same on all devices.
__device__ __forceinline__ double philox_uniform(uint64_t bits) {
  return static_cast<double>(static_cast<float>(bits) * 2.3283064365386963e-10f + 1.1641532182693481e-10f);
}

// A uniform number in [-1, 1] from 32 bits, rounded in the same way.
__device__ __forceinline__ double philox_signed_uniform(uint64_t bits) {
  int64_t signed_ = static_cast<int64_t>(bits);
  if (signed_ >= 0x80000000) signed_ -= 0x100000000;
  return static_cast<double>(static_cast<float>(signed_) * 4.656612873077393e-10f + 2.3283064365386963e-10f);
}

struct BoxMullerResult {
  double cosine;
  double sine;
};

// Two normals: `sqrt(-2 ln u)` times cosine and sine of an angle.
//
// The angle is (π/4)·w; bit 1 of its word mirrors it to the next quarter turn, bit 0 adds a half turn.
__device__ __forceinline__ BoxMullerResult box_muller(uint64_t radius_bits, uint64_t angle_bits) {
  double radius = sqrt(-2.0 * log(philox_uniform(radius_bits)));
  const double angle = 0.25 * 3.141592653589793 * philox_signed_uniform(angle_bits);
  const int quarter = static_cast<int>(static_cast<int64_t>(angle_bits) & 3);
  if ((quarter & 1) != 0) radius = -radius;
  const double cosine = radius * cos(angle);
  const double sine = radius * sin(angle);
  if ((quarter & 2) != 0) return {sine, cosine};
  return {cosine, sine};
}

// The normal `4 * group + lane` alone.
__device__ __forceinline__ double philox_normal(int64_t seed, int64_t offset, int64_t group, int lane) {
  const auto philox_group_result = philox_group(seed, offset, group);
  uint64_t w0 = philox_group_result.c0;
  uint64_t w1 = philox_group_result.c1;
  const uint64_t w2 = philox_group_result.c2;
  const uint64_t w3 = philox_group_result.c3;
  if (lane >= 2) {
    w0 = w2;
    w1 = w3;
  }
  const auto [first, second] = box_muller(w0, w1);
  return lane % 2 == 0 ? first : second;
}

template <class T>
__global__ void __launch_bounds__(256)
    normal_sample_kernel(const T* __restrict__ mean, const T* __restrict__ std, T* __restrict__ samples,
                         int64_t samples_stride, int64_t rows, int64_t columns, bool shared_noise, int64_t seed,
                         int64_t offset, const int64_t* __restrict__ state, int64_t state_length) {
  using C = trifold::compute_t<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows * columns) {
    const int64_t row = trifold::floor_div(i, columns);
    const int64_t normal = shared_noise ? i - row * columns : i;
    const int64_t key = state_length > 0 ? state[0] : seed;
    const double z =
        philox_normal(key, offset, trifold::floor_div(normal, 4), static_cast<int>(trifold::floor_mod(normal, 4)));
    samples[row * samples_stride + i - row * columns] = T(C(C(mean[row]) + C(std[row]) * z));
  }
}

struct PhiloxNormalsResult {
  double z0;
  double z1;
  double z2;
  double z3;
};

// The four normals of a group.
__device__ __forceinline__ PhiloxNormalsResult philox_normals(int64_t seed, int64_t offset, int64_t group) {
  const auto [w0, w1, w2, w3] = philox_group(seed, offset, group);
  const auto [z0, z1] = box_muller(w0, w1);
  const auto [z2, z3] = box_muller(w2, w3);
  return {z0, z1, z2, z3};
}

template <class C>
struct AddCompensatedResult {
  C first;
  C second;
};

// `total + term`, and its rounding error: `trifold::CompensatedSum` (Kahan 1965).
//
// The error of `total - lost` does not grow with the number of terms. Infinities and nan are as in a plain sum.
//
// Args:
//     total, lost: of one type; both begin as 0.
//     term: of that type.
template <class C>
__device__ __forceinline__ AddCompensatedResult<C> add_compensated(C total, C lost, C term) {
  const C corrected = term - lost;
  const C following = total + corrected;
  const C error = following - total - corrected;
  return {following, error - error == 0 ? error : lost - lost};
}

// The sum over each team of a block; all threads of the block call it.
//
// Args:
//     value, of_warp: as for `block_sum`; for teams within a warp, `of_warp` is not used.
//     team: the number of neighbouring threads: a power of two up to 32, or all of the block.
template <class C>
__device__ __forceinline__ C team_sum(C value, C* of_warp, int team) {
  int lanes = team > 32 ? 16 : team / 2;
  while (lanes > 0) {
    value += __shfl_xor_sync(ALL_LANES, value, lanes);
    lanes /= 2;
  }
  if (team > 32) {
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < team / 32; ++warp) value += of_warp[warp];
      of_warp[0] = value;
    }
    __syncthreads();
    value = of_warp[0];
    __syncthreads();
  }
  return value;
}

// The sum over a block's threads; all threads call it.
//
// Ends with a barrier, so that it can be called again at once.
//
// Args:
//     value: int32, int64, float32 or float64.
//     of_warp: a shared array of that type with an element per warp. The block is one-dimensional and consists of
//         whole warps.
template <class C>
__device__ __forceinline__ C block_sum(C value, C* of_warp) {
  return team_sum(value, of_warp, static_cast<int>(blockDim.x));
}

template <class T>
__global__ void __launch_bounds__(256)
    normal_sample_backward_kernel(const T* __restrict__ grad, int64_t grad_stride0, int64_t grad_stride1,
                                  T* __restrict__ grad_mean, T* __restrict__ grad_std, int64_t rows, int64_t columns,
                                  bool shared_noise, int64_t seed, int64_t offset, const int64_t* __restrict__ state,
                                  int64_t state_length) {
  using C = trifold::compute_t<T>;
  __shared__ C of_warp[WARPS_PER_BLOCK];
  const int64_t key = state_length > 0 ? state[0] : seed;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t first = shared_noise ? 0 : row * columns;  // the row's first normal
    C plain = C(0);
    C lost = C(0);
    C weighted = C(0);
    C weighted_lost = C(0);
    for (int64_t group = trifold::floor_div(first, 4) + threadIdx.x; group < trifold::floor_div(first + columns + 3, 4);
         group += blockDim.x) {
      const auto z_parts = philox_normals(key, offset, group);
      const double z[4] = {z_parts.z0, z_parts.z1, z_parts.z2, z_parts.z3};
      for (int lane = 0; lane < 4; ++lane) {
        const int64_t column = group * 4 + lane - first;
        if (column >= 0 && column < columns) {
          const C value = C(grad[row * grad_stride0 + column * grad_stride1]);
          const auto add_compensated_result = add_compensated(plain, lost, value);
          plain = add_compensated_result.first;
          lost = add_compensated_result.second;
          const auto add_compensated_result2 = add_compensated(weighted, weighted_lost, value * C(z[lane]));
          weighted = add_compensated_result2.first;
          weighted_lost = add_compensated_result2.second;
        }
      }
    }
    plain = block_sum(plain - lost, of_warp);
    weighted = block_sum(weighted - weighted_lost, of_warp);
    if (threadIdx.x == 0) {
      grad_mean[row] = T(plain);
      grad_std[row] = T(weighted);
    }
  }
}
