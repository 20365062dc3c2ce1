// C = A B^T as Hopper kernels compute it: a warp loads tiles by tensor maps, swizzled, into a ring of stages, half of B
// for both blocks of a cluster; four warps multiply them by mma.sync. The first argument names a mistake.
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda/ptx>

#include <cstdint>
#include <cstring>

#include "check.h"

namespace ptx = cuda::ptx;
constexpr int tile_m = 64, tile_n = 32, tile_k = 64, stages = 3, warps = 4;
enum Mistake { none, fewer_bytes, one_stage_early, own_block_only, wrong_parity };

struct alignas(1024) Stages {
  half a[stages][tile_m][tile_k];
  half b[stages][tile_n][tile_k];
  uint64_t full[stages], empty[stages];
};

__device__ uint32_t window(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ void wait(uint64_t* barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, barrier, parity)) {
  }
}
// Where a row's piece of 16 bytes lies after the swizzle of 128 bytes.
__device__ uint32_t piece_of(const half (&row)[tile_k], int number, int piece) {
  return window(&row[(piece ^ number % 8) * 8]);
}

__device__ void load(Stages& s, const CUtensorMap& a, const CUtensorMap& b, int steps, uint32_t rank, Mistake mistake) {
  for (int k = 0; k < steps; ++k) {
    const int stage = k % stages;
    if (mistake != one_stage_early || k % stages != 1) wait(&s.empty[stage], (k / stages & 1) ^ 1);
    const uint32_t bytes = sizeof s.a[0] + (mistake == fewer_bytes ? 0 : sizeof s.b[0]);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &s.full[stage], bytes);
    const int32_t at[2] = {k * tile_k, static_cast<int>(blockIdx.x) * tile_m};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, s.a[stage], &a, at, &s.full[stage]);  // a
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(window(s.b[stage][rank * tile_n / 2])),  // b
        "l"(&b), "r"(k * tile_k), "r"(static_cast<int>(blockIdx.y * tile_n + rank * tile_n / 2)),
        "r"(window(&s.full[stage])), "h"(static_cast<uint16_t>(3))
        : "memory");
  }
}

__device__ void multiply(Stages& s, float* c, int n, int steps, Mistake mistake) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sums[4][4] = {};
  for (int k = 0; k < steps; ++k) {
    const int stage = k % stages;
    wait(&s.full[stage], (k / stages & 1) ^ (mistake == wrong_parity));
    for (int inner = 0; inner < tile_k / 8; inner += 2) {
      uint32_t a[4], b[2];
      const int row = warp * 16 + lane % 16;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                   : "r"(piece_of(s.a[stage][row], row, inner + lane / 16)));  // reads a
      for (int j = 0; j < 4; ++j) {
        const int column = j * 8 + lane % 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(b[0]), "=r"(b[1])
                     : "r"(piece_of(s.b[stage][column], column, inner + lane / 8 % 2)));  // reads b
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      }
    }
    ptx::fence_proxy_async(ptx::space_shared);
    __syncwarp();
    // Both blocks write to this one.
    if (lane < (mistake == own_block_only ? 1 : 2))
      asm volatile(
          "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
          "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(window(&s.empty[stage])),
          "r"(lane)
          : "memory");
  }
  for (int j = 0; j < 4; ++j) {
    float* const to = c + (blockIdx.x * tile_m + warp * 16 + lane / 4) * n + blockIdx.y * tile_n + j * 8 + lane % 4 * 2;
    for (int i = 0; i < 4; ++i) to[i / 2 * 8 * n + i % 2] = sums[j][i];
  }
}

__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__((warps + 1) * 32)
    gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int n, int k,
         Mistake mistake) {
  extern __shared__ __align__(1024) unsigned char room[];
  Stages& s = *reinterpret_cast<Stages*>(room);
  auto cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      ptx::mbarrier_init(&s.full[i], 1);
      ptx::mbarrier_init(&s.empty[i], 2 * warps);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster.sync();
  if (threadIdx.x / 32 == warps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x % 32 == 0) load(s, a, b, k / tile_k, cluster.block_rank(), mistake);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    multiply(s, c, n, k / tile_k, mistake);
  }
  cluster.sync();
}

CUtensorMap map_of(half* begin, cuuint64_t rows, cuuint64_t columns, cuuint32_t box_rows) {
  const cuuint64_t size[] = {columns, rows}, stride[] = {columns * sizeof(half)};
  const cuuint32_t box[] = {tile_k, box_rows}, step[] = {1, 1};
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &encode, cudaEnableDefault, &found));
  CUtensorMap map{};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, begin, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) printf("no map\n");
  return map;
}

int main(int argc, char** argv) {
  const char* const words[] = {"", "fewer bytes", "one stage early", "own block only", "wrong parity"};
  int mistake = 0;
  for (int i = none; argc > 1 && i <= wrong_parity; ++i)
    if (strcmp(words[i], argv[1]) == 0) mistake = i;
  const int m = 2 * tile_m, n = tile_n, k = 5 * tile_k;
  half *a, *b;
  float* c;
  CHECK(cudaMallocManaged(&a, m * k * sizeof(half)));
  CHECK(cudaMallocManaged(&b, n * k * sizeof(half)));
  CHECK(cudaMallocManaged(&c, m * n * sizeof(float)));
  for (int i = 0; i < m * k; ++i) a[i] = __float2half(i * 7 % 5 - 2);
  for (int i = 0; i < n * k; ++i) b[i] = __float2half(i * 3 % 7 - 3);
  CHECK(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Stages)));
  gemm<<<dim3(m / tile_m, n / tile_n), (warps + 1) * 32, sizeof(Stages)>>>(
      map_of(a, m, k, tile_m), map_of(b, n, k, tile_n / 2), c, n, k, static_cast<Mistake>(mistake));
  if (cudaDeviceSynchronize() != cudaSuccess) return 0;
  int wrong = 0;
  for (int i = 0; i < m * n; ++i) {
    float sum = 0;
    for (int j = 0; j < k; ++j) sum += __half2float(a[i / n * k + j]) * __half2float(b[i % n * k + j]);
    wrong += sum != c[i];
  }
  printf("%d wrong\n", wrong);
  for (void* each : {(void*)a, (void*)b, (void*)c}) CHECK(cudaFree(each));
}
