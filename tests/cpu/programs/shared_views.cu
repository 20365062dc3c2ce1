// Shared arrays without an alignment of their own, seen as vectors and as matrices of wmma, as programs do.
// "unordered": ldmatrix reads what other lanes have written before nothing but itself.
#include <cuda_fp16.h>
#include <mma.h>

#include <cstdint>
#include <cstdio>

#include "check.h"

__global__ void copy(const half* in, half* out) {
  __shared__ char odd[3];
  __shared__ half tile[16][16];
  if (threadIdx.x < 3) odd[threadIdx.x] = 1;
  reinterpret_cast<int4*>(&tile[threadIdx.x / 2][0])[threadIdx.x % 2] = reinterpret_cast<const int4*>(in)[threadIdx.x];
  __syncthreads();
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> a;
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> b;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, half> sum;
  nvcuda::wmma::load_matrix_sync(a, &tile[0][0], 16);
  nvcuda::wmma::load_matrix_sync(b, &tile[0][0], 16);
  nvcuda::wmma::fill_fragment(sum, __float2half(odd[0] - 1.0f));
  nvcuda::wmma::mma_sync(sum, a, b, sum);
  nvcuda::wmma::store_matrix_sync(out, sum, 16, nvcuda::wmma::mem_row_major);
}

__global__ void load(const uint4* in, uint32_t* out) {
  __shared__ half tile[8 * 8 * 4];
  reinterpret_cast<uint4*>(tile)[threadIdx.x] = in[threadIdx.x];  // written
  uint32_t r[4];
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(&tile[8 * (threadIdx.x ^ 1)]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
  out[threadIdx.x] = r[0];
}

int main(int argc, char**) {
  half ones[256], got[256];
  for (half& each : ones) each = __float2half(1.0f);
  half *in, *out;
  CHECK(cudaMalloc(&in, sizeof ones));
  CHECK(cudaMalloc(&out, sizeof ones));
  CHECK(cudaMemcpy(in, ones, sizeof ones, cudaMemcpyHostToDevice));
  copy<<<1, 32>>>(in, out);
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  std::printf("%g %g\n", __half2float(got[0]), __half2float(got[255]));
  if (argc > 1) load<<<1, 32>>>(reinterpret_cast<const uint4*>(in), reinterpret_cast<uint32_t*>(out));
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
}
