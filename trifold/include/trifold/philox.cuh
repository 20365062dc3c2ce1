// Normal random numbers without state: Philox 4x32-10 and the Box–Muller transform.
//
// Philox: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. A counter of 128 bits
// and a key of 64 give 128 random bits. The counter is laid out as in curand, which torch's own kernels use:
//
//   key = seed (64 bits)    counter words 0, 1 = offset / 4 (64 bits)    counter words 2, 3 = subsequence (64 bits)
//
// Here the subsequence is the index of a group of four normals: group g holds the normals 4g … 4g + 3.
// The bits are the same everywhere. A normal is within a few ulp of what its bits stand for, in each compute type.
#pragma once

#include <trifold/cuda.cuh>

#include <cmath>

namespace trifold {

struct PhiloxWords {
  uint32_t word[4];
};

struct PhiloxKey {
  uint32_t word[2];
};

__host__ __device__ __forceinline__ PhiloxWords philox4x32_10(PhiloxWords counter, PhiloxKey key) {
  auto [c0, c1, c2, c3] = counter.word;
  auto [k0, k1] = key.word;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;  // golden ratio
    k1 += 0xBB67AE85;  // sqrt(3) - 1
  }
  return {{c0, c1, c2, c3}};
}

// The bits of group `group` in the draw that (seed, offset) name.
__host__ __device__ __forceinline__ PhiloxWords philox_group(uint64_t seed, uint64_t offset, uint64_t group) {
  const uint64_t draw = offset / 4;
  return philox4x32_10({{static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), static_cast<uint32_t>(group),
                         static_cast<uint32_t>(group >> 32)}},
                       {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}});
}

// A uniform number in (0, 1], in float for every compute type: each step rounds once, so it is the same everywhere.
__host__ __device__ __forceinline__ float philox_uniform(uint32_t bits) {
  return static_cast<float>(bits) * 0x1p-32f + 0x1p-33f;
}

template <class C>
struct NormalPair {
  C first, second;
};

namespace detail {

// a * b + c, rounded once. The host goes through double: no g++ flag is needed, and the second rounding is harmless.
__host__ __device__ __forceinline__ float multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return static_cast<float>(static_cast<double>(a) * b + c);
#endif
}

// c[0] + c[1] x + … by Horner's rule.
template <int Size>
__host__ __device__ __forceinline__ float polynomial(const float (&c)[Size], float x) {
  float sum = c[Size - 1];
#pragma unroll
  for (int k = Size - 2; k >= 0; --k) sum = multiply_add(sum, x, c[k]);
  return sum;
}

// log2 with a relative error of 2^-22 for x in [2^-33, 0.5] and an absolute one of 2^-22 in (0.5, 1): the hardware's
// own (PTX ISA, lg2.approx). No subnormal comes here.
__host__ __device__ __forceinline__ float log2_away_from_one(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::log2(x);
#endif
}

// Square root with a relative error of 2^-23 (PTX ISA, sqrt.approx).
__host__ __device__ __forceinline__ float square_root(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::sqrt(x);
#endif
}

// -2 ln u for u in [2^-33, 1], with a relative error below 2^-21. Near 1, where log2_away_from_one has only its absolute
// error, a polynomial in 1 - u, which is exact there. Coefficients: minimax for the relative error (2^-24.6).
__host__ __device__ __forceinline__ float minus_two_log(float u) {
  constexpr float minus_two_ln_2 = -1.38629436f;
  constexpr float c[] = {2.00000007f, 0.999979331f, 0.667580828f, 0.485037347f, 0.514045297f, -0.0937117276f, 0.99408951f};
  const float to_one = 1.0f - u;
  const float near = to_one * polynomial(c, to_one);
  const float far = minus_two_ln_2 * log2_away_from_one(u);
  return u < 0.65f ? far : near;
}

}  // namespace detail

// Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958: radius sqrt(-2 ln u1), angle 2π u2;
// the cosine first. The angle is reduced before it is multiplied with π: exactly, so that z is accurate near its
// zeros too.
__host__ __device__ __forceinline__ NormalPair<float> box_muller(float u1, float u2) {
  const float radius = detail::square_root(detail::minus_two_log(u1));
  // 2 u2 = half_turns + v with |v| <= 1/2. Adding 1.5 · 2^23 rounds to an integer, which then fills the last bits.
  constexpr float to_integer = 0x1.8p23f;
  const float rounded = detail::multiply_add(2.0f, u2, to_integer);
  const float v = detail::multiply_add(2.0f, u2, to_integer - rounded);
  // sin(πv) = v·S(v²) and cos(πv) = (1 - 4v²)·K(v²): minimax for the relative error (2^-27.5 and 2^-29.9).
  constexpr float s[] = {3.14159264f, -5.16770968f, 2.55006973f, -0.598242126f, 0.0775603870f};
  constexpr float k[] = {1.0f, -0.934802012f, 0.319497441f, -0.0571846354f, 0.00603852403f};
  const float square = v * v;
  const float sine = v * detail::polynomial(s, square);
  const float cosine = detail::multiply_add(-4.0f * v, v, 1.0f) * detail::polynomial(k, square);
  // An odd number of half turns turns both signs.
#ifdef __CUDA_ARCH__
  const float signed_radius = __int_as_float(__float_as_int(radius) + (__float_as_int(rounded) << 31));
#else
  const float signed_radius = rounded == to_integer + 1.0f ? -radius : radius;
#endif
  return {signed_radius * cosine, signed_radius * sine};
}

__host__ __device__ __forceinline__ NormalPair<double> box_muller(double u1, double u2) {
  constexpr double half_pi = 1.5707963267948966;
  const double radius = sqrt(-2.0 * log(u1));
  const double quarter_turns = rint(4.0 * u2);
  const double angle = half_pi * (4.0 * u2 - quarter_turns);
  const double sine = sin(angle), cosine = cos(angle);
  switch (static_cast<int>(quarter_turns) & 3) {
    case 0: return {radius * cosine, radius * sine};
    case 1: return {-radius * sine, radius * cosine};
    case 2: return {-radius * cosine, -radius * sine};
    default: return {radius * sine, -radius * cosine};
  }
}

// Two normals, from the words (0, 1) or (2, 3) of a group.
template <class C>
__host__ __device__ __forceinline__ NormalPair<C> philox_normal_pair(uint32_t first, uint32_t second) {
  return box_muller(C(philox_uniform(first)), C(philox_uniform(second)));
}

// The four normals of a group.
template <class C>
__host__ __device__ __forceinline__ void philox_normals(uint64_t seed, uint64_t offset, uint64_t group, C (&z)[4]) {
  const PhiloxWords bits = philox_group(seed, offset, group);
  const auto low = philox_normal_pair<C>(bits.word[0], bits.word[1]);
  const auto high = philox_normal_pair<C>(bits.word[2], bits.word[3]);
  z[0] = low.first;
  z[1] = low.second;
  z[2] = high.first;
  z[3] = high.second;
}

// The normal 4 · group + lane alone.
template <class C>
__host__ __device__ __forceinline__ C philox_normal(uint64_t seed, uint64_t offset, uint64_t group, int lane) {
  const PhiloxWords bits = philox_group(seed, offset, group);
  const auto pair = lane < 2 ? philox_normal_pair<C>(bits.word[0], bits.word[1])
                             : philox_normal_pair<C>(bits.word[2], bits.word[3]);
  return lane % 2 == 0 ? pair.first : pair.second;
}

}  // namespace trifold
