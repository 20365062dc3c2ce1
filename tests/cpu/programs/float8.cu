// CUDA's 8-bit floats. Arguments: a file of doubles to convert, and a file for what becomes of them, of all 16-bit
// floats and of all 8-bit floats, as arrays in the order of struct Results. Prints the conversions of the types.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "check.h"
#include "float8_files.h"

#if !defined(__CUDA_FP8_TYPES_EXIST__)
#error "cuda_fp8.h defines this macro"
#endif

// For each way to convert: e4m3, e4m3 saturated, e5m2, e5m2 saturated.
struct Results {
  float widened[2][count8];
  unsigned short halves[2][count8];
  __nv_fp8_storage_t of_halves[4][count16], of_bfloat16s[4][count16];
};

__host__ __device__ __nv_fp8_interpretation_t kind(int way) {
  return way < 2 ? __NV_E4M3 : __NV_E5M2;
}

__host__ __device__ void convert16(Results& results, int bits) {
  __half_raw half;
  __nv_bfloat16_raw bfloat16;
  half.x = bfloat16.x = static_cast<unsigned short>(bits);
  for (int way = 0; way < 4; ++way) {
    results.of_halves[way][bits] = __nv_cvt_halfraw_to_fp8(half, saturation(way), kind(way));
    results.of_bfloat16s[way][bits] = __nv_cvt_bfloat16raw_to_fp8(bfloat16, saturation(way), kind(way));
  }
}

__host__ __device__ void convert8(Results& results, int bits) {
  __nv_fp8_e4m3 e4m3;
  __nv_fp8_e5m2 e5m2;
  e4m3.__x = e5m2.__x = static_cast<__nv_fp8_storage_t>(bits);
  results.widened[0][bits] = static_cast<float>(e4m3);
  results.widened[1][bits] = static_cast<float>(e5m2);
  results.halves[0][bits] = __nv_cvt_fp8_to_halfraw(e4m3.__x, __NV_E4M3).x;
  results.halves[1][bits] = __nv_cvt_fp8_to_halfraw(e5m2.__x, __NV_E5M2).x;
}

__global__ void convert_all(Results* results) {
  const int bits = blockIdx.x * blockDim.x + threadIdx.x;
  convert16(*results, bits);
  if (bits < count8) convert8(*results, bits);
}

// First of the doubles, then of the floats nearest to them.
__global__ void convert_numbers(const double* numbers, __nv_fp8_storage_t* results, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  for (int way = 0; way < 4; ++way) {
    results[way * count + i] = __nv_cvt_double_to_fp8(numbers[i], saturation(way), kind(way));
    results[(4 + way) * count + i] = __nv_cvt_float_to_fp8(static_cast<float>(numbers[i]), saturation(way), kind(way));
  }
}

template <class Number>
__host__ __device__ double there_and_back(double x) {
  return static_cast<double>(static_cast<Number>(__nv_fp8_e5m2(static_cast<Number>(x))));
}

// What the types make of numbers; every constructor and every conversion that CUDA documents.
__global__ void use_types(float* y) {
  int i = 0;
  y[i++] = static_cast<float>(there_and_back<float>(-2.6));
  y[i++] = static_cast<float>(there_and_back<double>(1e9));
  y[i++] = static_cast<float>(there_and_back<short>(-300));
  y[i++] = static_cast<float>(there_and_back<unsigned short>(65535));
  y[i++] = static_cast<float>(there_and_back<int>(-2000000000));
  y[i++] = static_cast<float>(there_and_back<unsigned>(9));
  y[i++] = static_cast<float>(there_and_back<long>(-11));
  y[i++] = static_cast<float>(there_and_back<unsigned long>(11));
  y[i++] = static_cast<float>(there_and_back<long long>(-9e18));
  y[i++] = static_cast<float>(there_and_back<unsigned long long>(13));
  y[i++] = __half2float(static_cast<__half>(__nv_fp8_e4m3(__float2half(-1.1f))));
  y[i++] = __bfloat162float(static_cast<__nv_bfloat16>(__nv_fp8_e4m3(__float2bfloat16(500.0f))));
  const __nv_fp8_e4m3 large(448), negative(-200.0f), nan(NAN), zero(-0.0), tiny(0.002f);
  y[i++] = static_cast<float>(static_cast<signed char>(large));
  y[i++] = static_cast<float>(static_cast<unsigned char>(large));
  y[i++] = static_cast<float>(static_cast<char>(negative));
  y[i++] = static_cast<float>(static_cast<unsigned char>(negative));
  y[i++] = static_cast<float>(static_cast<unsigned>(negative));
  y[i++] = static_cast<float>(static_cast<int>(nan));
  y[i++] = static_cast<float>(static_cast<long long>(nan));
  y[i++] = zero ? 1.0f : 0.0f;
  y[i++] = tiny ? 1.0f : 0.0f;
}

template <class Pair, class Four>
__device__ int use_vectors(float* y) {
  const Pair halves(__floats2half2_rn(1.5f, -0.3f)), bfloats(__floats2bfloat162_rn(1.5f, -0.3f));
  const Pair floats(make_float2(1.5f, -0.3f)), doubles(make_double2(1.5, -0.3));
  const Four of_halves(__floats2half2_rn(1.5f, -0.3f), __floats2half2_rn(1e4f, 7.0f));
  const Four of_bfloats(__floats2bfloat162_rn(1.5f, -0.3f), __floats2bfloat162_rn(1e4f, 7.0f));
  const Four of_floats(make_float4(1.5f, -0.3f, 1e4f, 7.0f));
  const float2 pair = static_cast<float2>(halves), same = __half22float2(static_cast<__half2>(floats));
  const float4 four = static_cast<float4>(of_floats);
  const float all[] = {pair.x, pair.y, same.x, same.y, four.x, four.y, four.z, four.w};
  for (int i = 0; i < 8; ++i) y[i] = all[i];
  return halves.__x == bfloats.__x && halves.__x == floats.__x && halves.__x == doubles.__x &&
         of_halves.__x == of_bfloats.__x && of_halves.__x == of_floats.__x && (of_halves.__x & 0xffff) == halves.__x;
}

__global__ void use_all_vectors(float* y, int* equal) {
  equal[0] = use_vectors<__nv_fp8x2_e4m3, __nv_fp8x4_e4m3>(y);
  equal[1] = use_vectors<__nv_fp8x2_e5m2, __nv_fp8x4_e5m2>(y + 8);
  const __nv_fp8_storage_t one = __nv_cvt_float_to_fp8(1.0f, __NV_NOSAT, __NV_E4M3);
  const __nv_fp8x2_storage_t two = __nv_cvt_float2_to_fp8x2(make_float2(1.0f, 2.0f), __NV_NOSAT, __NV_E4M3);
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3);
  const __nv_bfloat162_raw bfloats = __nv_bfloat162_raw(__floats2bfloat162_rn(1.0f, 2.0f));
  equal[2] = (two & 0xff) == one && __nv_cvt_halfraw2_to_fp8x2(halves, __NV_SATFINITE, __NV_E4M3) == two &&
             __nv_cvt_bfloat16raw2_to_fp8x2(bfloats, __NV_SATFINITE, __NV_E4M3) == two &&
             __nv_cvt_double2_to_fp8x2(make_double2(1.0, 2.0), __NV_SATFINITE, __NV_E4M3) == two &&
             __half2float(static_cast<__half>(__nv_cvt_fp8_to_halfraw(one, __NV_E4M3))) == 1.0f;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  int count = 0;
  double* const numbers = read_numbers(argv[1], count);
  __nv_fp8_storage_t* of_numbers = managed<__nv_fp8_storage_t>(8 * static_cast<size_t>(count));
  Results* results = managed<Results>(1);
  convert_all<<<count16 / 256, 256>>>(results);
  convert_numbers<<<(count + 255) / 256, 256>>>(numbers, of_numbers, count);
  constexpr int types = 21, vectors = 16;
  float* y = managed<float>(types + vectors);
  int* equal = managed<int>(3);
  use_types<<<1, 1>>>(y);
  use_all_vectors<<<1, 1>>>(y + types, equal);
  CHECK(cudaDeviceSynchronize());

  for (int i = 0; i < types + vectors; ++i)
    printf("%g%c", y[i], i == types - 1 || i == types + vectors - 1 ? '\n' : ' ');
  printf("%d %d %d\n", equal[0], equal[1], equal[2]);
  write_results(argv[2], *results, of_numbers, count);
  CHECK(cudaFree(numbers));
  CHECK(cudaFree(of_numbers));
  CHECK(cudaFree(results));
  CHECK(cudaFree(y));
  CHECK(cudaFree(equal));
}
