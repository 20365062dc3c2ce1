// The functions that the expressions of tests/cpu/ptx_rows.py call.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

#define DEVICE __device__ __forceinline__

DEVICE int16_t s(uint16_t x) {
  return static_cast<int16_t>(x);
}
DEVICE int32_t s(uint32_t x) {
  return static_cast<int32_t>(x);
}
DEVICE int64_t s(uint64_t x) {
  return static_cast<int64_t>(x);
}
DEVICE uint32_t u(int32_t x) {
  return static_cast<uint32_t>(x);
}

// The nearest value of a signed or unsigned integer that is narrower.
template <typename T>
DEVICE T nearest(int64_t x) {
  constexpr bool is_signed = T(-1) < T(0);
  constexpr int64_t most = (int64_t{1} << (8 * sizeof(T) - is_signed)) - 1, least = is_signed ? -most - 1 : 0;
  return static_cast<T>(x < least ? least : x > most ? most : x);
}

// bfe and bfi, bit by bit as the PTX ISA has them.
DEVICE uint32_t field(uint32_t a, uint32_t at, uint32_t size, bool is_signed) {
  const uint32_t last = at + size - 1 < 31 ? at + size - 1 : 31;
  const uint32_t sign = is_signed && size != 0 ? a >> last & 1 : 0;
  uint32_t made = 0;
  for (uint32_t i = 0; i < 32; ++i) made |= (i < size && at + i < 32 ? a >> (at + i) & 1 : sign) << i;
  return made;
}
DEVICE uint32_t insert(uint32_t a, uint32_t b, uint32_t at, uint32_t size) {
  for (uint32_t i = 0; i < size && at + i < 32; ++i) b = (b & ~(1u << (at + i))) | (a >> i & 1) << (at + i);
  return b;
}

DEVICE float flush(float x) {
  return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x;
}

template <typename To, typename From>
DEVICE To same_bits(From x) {
  To made;
  memcpy(&made, &x, sizeof made);
  return made;
}
DEVICE __half half_of(uint16_t bits) {
  return same_bits<__half>(bits);
}
DEVICE __half low(uint32_t bits) {
  return half_of(static_cast<uint16_t>(bits));
}
DEVICE __half high(uint32_t bits) {
  return half_of(static_cast<uint16_t>(bits >> 16));
}
DEVICE __nv_bfloat162 bfloats(uint32_t bits) {
  return same_bits<__nv_bfloat162>(bits);
}
DEVICE uint16_t bits(__half x) {
  return same_bits<uint16_t>(x);
}
DEVICE uint16_t bits(__nv_bfloat16 x) {
  return same_bits<uint16_t>(x);
}
DEVICE uint32_t bits(__half2 x) {
  return same_bits<uint32_t>(x);
}
DEVICE uint32_t bits(__nv_bfloat162 x) {
  return same_bits<uint32_t>(x);
}
DEVICE uint32_t pair(__half low, __half high) {
  return bits(low) | static_cast<uint32_t>(bits(high)) << 16;
}

// A word as an operand, and a result as a word.
DEVICE void take(uint64_t word, uint16_t& x) {
  x = static_cast<uint16_t>(word);
}
DEVICE void take(uint64_t word, uint32_t& x) {
  x = static_cast<uint32_t>(word);
}
DEVICE void take(uint64_t word, uint64_t& x) {
  x = word;
}
DEVICE void take(uint64_t word, float& x) {
  x = __int_as_float(static_cast<int>(word));
}
DEVICE void take(uint64_t word, double& x) {
  x = __int_as_float(static_cast<int>(word)) * (1 + static_cast<double>(word >> 32) * 0x1p-60);
}
DEVICE uint64_t word_of(uint16_t x) {
  return x;
}
DEVICE uint64_t word_of(uint32_t x) {
  return x;
}
DEVICE uint64_t word_of(uint64_t x) {
  return x;
}
DEVICE uint64_t word_of(float x) {
  return static_cast<uint32_t>(__float_as_int(x));
}
DEVICE uint64_t word_of(double x) {
  return static_cast<uint64_t>(__double_as_longlong(x));
}
