// Normal random numbers without state: Philox 4x32-10 and the Box–Muller transform.
//
// Philox: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. A counter of 128 bits
// and a key of 64 give 128 random bits. The counter is laid out as in curand, which torch's own kernels use:
//
//   key = seed (64 bits)    counter words 0, 1 = offset / 4 (64 bits)    counter words 2, 3 = subsequence (64 bits)
//
// Here the subsequence is the index of a group of four normals: group g holds the normals 4g … 4g + 3.
// The bits are the same on all devices. A normal is within a few ulp of the exact function of its bits, in each compute
// type.
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

namespace detail {

struct WideProduct {
  uint32_t low, high;
};

// All 64 bits of a product. In PTX because nvcc 13.0 otherwise adds a zero to each upper half in some loops.
__host__ __device__ __forceinline__ WideProduct multiply_wide(uint32_t a, uint32_t b) {
#ifdef TRIFOLD_GPU_ARCH
  return {a * b, __umulhi(a, b)};
#else
  const uint64_t product = uint64_t{a} * b;
  return {static_cast<uint32_t>(product), static_cast<uint32_t>(product >> 32)};
#endif
}

}  // namespace detail

__host__ __device__ __forceinline__ PhiloxWords philox4x32_10(PhiloxWords counter, PhiloxKey key) {
  auto [c0, c1, c2, c3] = counter.word;
  auto [k0, k1] = key.word;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const auto p0 = detail::multiply_wide(0xD2511F53, c0);
    const auto p1 = detail::multiply_wide(0xCD9E8D57, c2);
    c0 = p1.high ^ c1 ^ k0;
    c1 = p1.low;
    c2 = p0.high ^ c3 ^ k1;
    c3 = p0.low;
    k0 += 0x9E3779B9;  // golden ratio
    k1 += 0xBB67AE85;  // sqrt(3) - 1
  }
  return {{c0, c1, c2, c3}};
}

// The bits of group `group` in the draw identified by (seed, offset).
__host__ __device__ __forceinline__ PhiloxWords philox_group(uint64_t seed, uint64_t offset, uint64_t group) {
  const uint64_t draw = offset / 4;
  return philox4x32_10({{static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), static_cast<uint32_t>(group),
                         static_cast<uint32_t>(group >> 32)}},
                       {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}});
}

// A number in (0, 1], uniform, for the radius. In float for every compute type: each step rounds once, so the result is
// the same on all devices.
__host__ __device__ __forceinline__ float philox_uniform(uint32_t bits) {
  return static_cast<float>(bits) * 0x1p-32f + 0x1p-33f;
}

// A number in [-1, 1], uniform, for the angle; also in float for every compute type.
__host__ __device__ __forceinline__ float philox_signed_uniform(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f + 0x1p-32f;
}

template <class C>
struct NormalPair {
  C first, second;
};

namespace detail {

// a * b + c, rounded once. A CPU computes in double: no g++ flag is needed, and the second rounding is harmless.
__host__ __device__ __forceinline__ float multiply_add(float a, float b, float c) {
#ifdef TRIFOLD_GPU_ARCH
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

// Square root with a relative error of 2^-23 (PTX ISA, sqrt.approx).
__host__ __device__ __forceinline__ float square_root(float x) {
#ifdef TRIFOLD_GPU_ARCH
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::sqrt(x);
#endif
}

// -log2 u for u in [2^-33, 1]. The hardware's log2 (PTX ISA, lg2.approx) has a relative error of 2^-22 up to 1/2, but
// only an absolute one of 2^-22 above. So near 1 a polynomial replaces it, in 1 - u, which is exact there.
// Coefficients: minimax for the relative error (2^-24.6) on [0, 0.35].
__host__ __device__ __forceinline__ float minus_log2(float u) {
  constexpr float c[] = {1.44269514f,  0.72133261f,    0.481557786f, 0.349880487f,
                         0.370805293f, -0.0675987229f, 0.717083991f};
  constexpr float near_one = 0.65f;
  const float to_one = 1.0f - u;
  float value = to_one * polynomial(c, to_one);
#ifdef TRIFOLD_GPU_ARCH
  // A predicated instruction: no branch, no selection. The absolute value below is free in the instruction that uses
  // it.
  asm("{.reg .pred far; setp.lt.f32 far, %1, %2; @far lg2.approx.ftz.f32 %0, %1;}"
      : "+f"(value)
      : "f"(u), "f"(near_one));
#else
  if (u < near_one) value = std::log2(u);
#endif
  return fabsf(value);
}

__host__ __device__ __forceinline__ float turn_half(float x, uint32_t bits) {
#ifdef TRIFOLD_GPU_ARCH
  return __int_as_float(__float_as_int(x) + static_cast<int>(bits << 31));  // x >= 0: the sum determines its sign
#else
  return bits & 1 ? -x : x;
#endif
}

// The pair, swapped if bit 1 is set. In PTX because nvcc 13.0 otherwise tests the bit in three instructions: one is
// enough, which makes independent normals 3% faster on an H200.
__host__ __device__ __forceinline__ NormalPair<float> mirror(NormalPair<float> pair, uint32_t bits) {
#ifdef TRIFOLD_GPU_ARCH
  NormalPair<float> result;
  asm("{.reg .pred set; .reg .b32 bit; and.b32 bit, %4, 2; setp.ne.b32 set, bit, 0;"
      "selp.f32 %0, %3, %2, set; selp.f32 %1, %2, %3, set;}"
      : "=f"(result.first), "=f"(result.second)
      : "f"(pair.first), "f"(pair.second), "r"(bits));
  return result;
#else
  if (bits & 2) return {pair.second, pair.first};
  return pair;
#endif
}

}  // namespace detail

// Two independent normals from two words. Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958:
// radius sqrt(-2 ln u) times cosine and sine of an angle uniform on the circle. The angle is (π/4)·w with w in [-1, 1],
// an eighth of a turn to both sides; bit 1 of its word mirrors it to the next quarter (swaps cosine and sine) and bit 0
// adds half a turn (negates both). Neither bit contributes to w. So no angle needs a range reduction, and short
// polynomials are accurate.
//
// In float, z has a relative error of at most 4 ulp (2^-21): radius 3.4 · 2^-24, cosine and sine less than 3 · 2^-24,
// each the largest over all 2^32 words on an H200.
__host__ __device__ __forceinline__ NormalPair<float> box_muller(uint32_t radius_bits, uint32_t angle_bits, float) {
  const float w = philox_signed_uniform(angle_bits);
  // a·sin(πw/4) = w·S(w²) and a·cos(πw/4) = K(w²) with a = sqrt(2 ln 2), which turns log2 into 2 ln. Coefficients:
  // minimax for the relative error (2^-28.2 and 2^-24.9).
  constexpr float s[] = {0.924735665f, -0.0950704813f, 0.00293175224f, -4.23284218e-05f};
  constexpr float k[] = {1.17741001f, -0.363141716f, 0.0186615773f, -0.000375273346f};
  const float square = w * w;
  const float sine = w * detail::polynomial(s, square);
  const float cosine = detail::polynomial(k, square);
  const float radius = detail::square_root(detail::minus_log2(philox_uniform(radius_bits)));
  const float turned = detail::turn_half(radius, angle_bits);
  const auto [first, second] = detail::mirror({cosine, sine}, angle_bits);
  return {turned * first, turned * second};
}

__host__ __device__ __forceinline__ NormalPair<double> box_muller(uint32_t radius_bits, uint32_t angle_bits, double) {
  constexpr double quarter_pi = 0.7853981633974483;
  const double angle = quarter_pi * philox_signed_uniform(angle_bits);
  const double radius = sqrt(-2.0 * log(static_cast<double>(philox_uniform(radius_bits))));
  const double turned = angle_bits & 1 ? -radius : radius;
  const double sine = turned * sin(angle), cosine = turned * cos(angle);
  if (angle_bits & 2) return {sine, cosine};
  return {cosine, sine};
}

// The four normals of a group, from its words.
template <class C>
__host__ __device__ __forceinline__ void normals(const PhiloxWords& bits, C (&z)[4]) {
  const auto low = box_muller(bits.word[0], bits.word[1], C{});
  const auto high = box_muller(bits.word[2], bits.word[3], C{});
  z[0] = low.first;
  z[1] = low.second;
  z[2] = high.first;
  z[3] = high.second;
}

// The normal 4 · group + lane alone.
template <class C>
__host__ __device__ __forceinline__ C philox_normal(uint64_t seed, uint64_t offset, uint64_t group, int lane) {
  const PhiloxWords bits = philox_group(seed, offset, group);
  const auto pair =
      lane < 2 ? box_muller(bits.word[0], bits.word[1], C{}) : box_muller(bits.word[2], bits.word[3], C{});
  return lane % 2 == 0 ? pair.first : pair.second;
}

}  // namespace trifold
