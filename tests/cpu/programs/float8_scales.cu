// CUDA's 8-bit scale factors, e8m0. Arguments: a file of doubles, and a file for what becomes of them, of all bfloat16
// and of all 256 scales, as arrays in the order of struct Results. Prints the conversions of the types.
#include <cuda_fp8.h>

#include "check.h"
#include "float8_files.h"

// For each way to convert: towards zero, the same saturated, up, up and saturated.
struct Results {
  float widened[count8];
  __nv_fp8_storage_t of_bfloat16s[4][count16];
};

__host__ __device__ cudaRoundMode rounding(int way) {
  return way < 2 ? cudaRoundZero : cudaRoundPosInf;
}

__host__ __device__ void convert(Results& results, int bits) {
  __nv_bfloat16_raw bfloat16;
  bfloat16.x = static_cast<unsigned short>(bits);
  for (int way = 0; way < 4; ++way)
    results.of_bfloat16s[way][bits] = __nv_cvt_bfloat16raw_to_e8m0(bfloat16, saturation(way), rounding(way));
  if (bits >= count8) return;
  __nv_fp8_e8m0 scale;
  scale.__x = static_cast<__nv_fp8_storage_t>(bits);
  results.widened[bits] = static_cast<float>(scale);
}

__global__ void convert_all(Results* results) {
  convert(*results, blockIdx.x * blockDim.x + threadIdx.x);
}

// First of the doubles, then of the floats nearest to them.
__global__ void convert_numbers(const double* numbers, __nv_fp8_storage_t* results, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  for (int way = 0; way < 4; ++way) {
    results[way * count + i] = __nv_cvt_double_to_e8m0(numbers[i], saturation(way), rounding(way));
    results[(4 + way) * count + i] =
        __nv_cvt_float_to_e8m0(static_cast<float>(numbers[i]), saturation(way), rounding(way));
  }
}

template <class Number>
__host__ __device__ float there_and_back(double x) {
  return static_cast<float>(static_cast<Number>(__nv_fp8_e8m0(static_cast<Number>(x))));
}

__global__ void use_types(float* y, int* equal) {
  int i = 0;
  y[i++] = there_and_back<float>(-2.6);
  y[i++] = there_and_back<double>(1e-300);
  y[i++] = there_and_back<short>(-300);
  y[i++] = there_and_back<unsigned short>(40000);
  y[i++] = there_and_back<int>(-2000000000);
  y[i++] = there_and_back<unsigned>(9);
  y[i++] = there_and_back<long>(3);
  y[i++] = there_and_back<unsigned long>(11);
  y[i++] = there_and_back<long long>(-9e18);
  y[i++] = static_cast<float>(__nv_fp8_e8m0((1ULL << 60) + 1));
  y[i++] = __half2float(static_cast<__half>(__nv_fp8_e8m0(__float2half(0.3f))));
  y[i++] = __bfloat162float(static_cast<__nv_bfloat16>(__nv_fp8_e8m0(__float2bfloat16(500.0f))));
  const __nv_fp8_e8m0 large(3e38f), nan(NAN), zero(0);
  y[i++] = static_cast<float>(static_cast<signed char>(large));
  y[i++] = static_cast<float>(static_cast<unsigned char>(large));
  y[i++] = static_cast<float>(static_cast<int>(nan));
  y[i++] = zero ? 1.0f : 0.0f;

  const __nv_fp8x2_e8m0 halves(__floats2half2_rn(1.5f, -0.3f)), bfloats(__floats2bfloat162_rn(1.5f, -0.3f));
  const __nv_fp8x2_e8m0 floats(make_float2(1.5f, -0.3f)), doubles(make_double2(1.5, -0.3));
  const __nv_fp8x4_e8m0 of_halves(__floats2half2_rn(1.5f, -0.3f), __floats2half2_rn(1e4f, 7.0f));
  const __nv_fp8x4_e8m0 of_bfloats(__floats2bfloat162_rn(1.5f, -0.3f), __floats2bfloat162_rn(1e4f, 7.0f));
  const __nv_fp8x4_e8m0 of_floats(make_float4(1.5f, -0.3f, 1e4f, 7.0f));
  const float2 pair = static_cast<float2>(halves), same = __half22float2(static_cast<__half2>(floats));
  const float2 again = __bfloat1622float2(static_cast<__nv_bfloat162>(doubles));
  const float4 four = static_cast<float4>(of_floats);
  const float all[] = {pair.x, pair.y, same.x, same.y, again.x, again.y, four.x, four.y, four.z, four.w};
  for (const float value : all) y[i++] = value;
  equal[0] = halves.__x == bfloats.__x && halves.__x == floats.__x && halves.__x == doubles.__x;
  equal[1] = of_halves.__x == of_bfloats.__x && of_halves.__x == of_floats.__x;
  const __nv_bfloat162_raw raw = __nv_cvt_e8m0x2_to_bf162raw(floats.__x);
  equal[2] = __nv_cvt_bfloat162raw_to_e8m0x2(raw, __NV_NOSAT, cudaRoundZero) == floats.__x &&
             __nv_cvt_float2_to_e8m0x2(pair, __NV_NOSAT, cudaRoundZero) == floats.__x &&
             __nv_cvt_double2_to_e8m0x2(make_double2(pair.x, pair.y), __NV_NOSAT, cudaRoundZero) == floats.__x &&
             __nv_cvt_e8m0_to_bf16raw(static_cast<__nv_fp8_storage_t>(floats.__x)).x == raw.x;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  int count = 0;
  double* const numbers = read_numbers(argv[1], count);
  __nv_fp8_storage_t* of_numbers = managed<__nv_fp8_storage_t>(8 * static_cast<size_t>(count));
  Results* results = managed<Results>(1);
  constexpr int printed = 26;
  float* y = managed<float>(printed);
  int* equal = managed<int>(3);
  convert_all<<<count16 / 256, 256>>>(results);
  convert_numbers<<<(count + 255) / 256, 256>>>(numbers, of_numbers, count);
  use_types<<<1, 1>>>(y, equal);
  CHECK(cudaDeviceSynchronize());

  for (int i = 0; i < printed; ++i) printf("%g%c", y[i], i == 15 || i == printed - 1 ? '\n' : ' ');
  printf("%d %d %d\n", equal[0], equal[1], equal[2]);
  write_results(argv[2], *results, of_numbers, count);
  CHECK(cudaFree(numbers));
  CHECK(cudaFree(of_numbers));
  CHECK(cudaFree(results));
  CHECK(cudaFree(y));
  CHECK(cudaFree(equal));
}
