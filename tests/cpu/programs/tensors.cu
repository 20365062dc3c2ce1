// Copies by tensor maps: of two and three dimensions, at the tensor's border, swizzled, to several blocks of a cluster,
// added; and the mistakes that the first argument names.
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>

#include <cstring>
#include <vector>

#include "check.h"

namespace ptx = cuda::ptx;
namespace experimental = cuda::device::experimental;
using barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int width = 40, height = 24, box_width = 16, box_height = 8;
enum Mistake { none, unfenced, early, misaligned, more_bytes, unwaited, dimensions };

// y = 2 x, of the tiles that cover the tensor, with a margin of -4 columns and -2 rows.
__global__ void twice(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, Mistake mistake) {
  __shared__ alignas(128) float room[box_height * box_width + 4];
  __shared__ barrier full;
  float* const tile = room + (mistake == misaligned ? 4 : 0);
  const int32_t at[2] = {(int)blockIdx.x * box_width - 4, (int)blockIdx.y * box_height - 2}, one[1] = {0};
  if (threadIdx.x == 0) init(&full, blockDim.x);
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    uint64_t* const native = cuda::device::barrier_native_handle(full);
    if (mistake == dimensions)
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &x, one, native);  // dimensions
    else
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &x, at, native);  // loaded
    token =
        cuda::device::barrier_arrive_tx(full, 1, sizeof(float[box_height][box_width]) + 16 * (mistake == more_bytes));
  } else {
    token = full.arrive();
  }
  if (mistake != early) full.wait(std::move(token));                                    // waits
  for (int i = threadIdx.x; i < box_height * box_width; i += blockDim.x) tile[i] *= 2;  // doubled
  if (mistake != unfenced) ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &y, at, tile);  // stored
    ptx::cp_async_bulk_commit_group();
    if (mistake != unwaited) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}

__device__ unsigned window(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// A box of 8 rows of 128 bytes, swizzled, to both blocks of a cluster; each writes what it got, and adds it to `sums`.
__global__ void __cluster_dims__(2)
    swizzled(const __grid_constant__ CUtensorMap x, float* y, const __grid_constant__ CUtensorMap sums) {
  __shared__ alignas(1024) float tile[8][32];
  __shared__ uint64_t full;
  auto cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
  }
  cluster.sync();
  if (threadIdx.x == 0 && cluster.block_rank() == 0)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(window(tile)),
        "l"(&x), "r"(0), "r"(1), "r"(2), "r"(window(&full)), "h"((uint16_t)3)
        : "memory");
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {
  }
  for (int row = 0; row < 8; ++row) {
    const int piece = threadIdx.x / 4 ^ row;
    y[(cluster.block_rank() * 8 + row) * 32 + threadIdx.x] = tile[row][piece * 4 + threadIdx.x % 4];
  }
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&sums),
        "r"(0), "r"(0), "r"(window(tile))
        : "memory");
    experimental::cp_async_bulk_commit_group();
    experimental::cp_async_bulk_wait_group_read<0>();
  }
  cluster.sync();
}

CUtensorMap map_of(float* begin, std::vector<cuuint64_t> size, std::vector<cuuint32_t> box,
                   CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE) {
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &encode, cudaEnableDefault, &found));
  std::vector<cuuint64_t> stride(size.size());
  stride[0] = size[0] * sizeof(float);
  for (size_t i = 1; i < size.size(); ++i) stride[i] = stride[i - 1] * size[i];
  const std::vector<cuuint32_t> step(size.size(), 1);
  CUtensorMap map{};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, size.size(), begin, size.data(), stride.data(), box.data(), step.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) printf("no map\n");
  return map;
}

void two_dimensions(Mistake mistake, cuuint64_t rows) {
  float *x, *y;
  CHECK(cudaMallocManaged(&x, width * height * sizeof(float)));
  CHECK(cudaMallocManaged(&y, width * height * sizeof(float)));
  for (int i = 0; i < width * height; ++i) x[i] = i;
  const CUtensorMap from = map_of(x, {width, rows}, {box_width, box_height});
  twice<<<dim3(3, 4), 64>>>(from, map_of(y, {width, rows}, {box_width, box_height}), mistake);
  if (cudaDeviceSynchronize() != cudaSuccess) exit(0);
  int wrong = 0;
  for (int i = 0; i < width * height; ++i) wrong += y[i] != 2.0f * i;
  printf("%d wrong\n", wrong);
  CHECK(cudaFree(x));
  CHECK(cudaFree(y));
}

void three_dimensions() {
  float *x, *y, *sums;
  CHECK(cudaMallocManaged(&x, 32 * 8 * 4 * sizeof(float)));
  CHECK(cudaMallocManaged(&y, 2 * 8 * 32 * sizeof(float)));
  CHECK(cudaMallocManaged(&sums, 8 * 32 * sizeof(float)));
  for (int i = 0; i < 32 * 8 * 4; ++i) x[i] = 1 + i;
  for (int i = 0; i < 8 * 32; ++i) sums[i] = 1;
  swizzled<<<2, 32>>>(map_of(x, {32, 8, 4}, {32, 4, 2}, CU_TENSOR_MAP_SWIZZLE_128B), y,
                      map_of(sums, {32, 8}, {32, 8}, CU_TENSOR_MAP_SWIZZLE_128B));
  CHECK(cudaDeviceSynchronize());
  int wrong = 0;
  for (int i = 0; i < 2 * 8 * 32; ++i) {
    const int row = i / 32 % 8, line = 1 + row % 4, slice = 2 + row / 4;
    const float value = 1 + (slice * 8 + line) * 32 + i % 32;
    wrong += y[i] != value || sums[i % 256] != 1 + 2 * value;
  }
  printf("%d wrong\n", wrong);
  for (float* each : {x, y, sums}) CHECK(cudaFree(each));
}

int main(int argc, char** argv) {
  const char* const words[] = {"", "unfenced", "early", "misaligned", "more bytes", "unwaited", "dimensions"};
  const char* const word = argc > 1 ? argv[1] : "";
  int mistake = 0;
  for (int i = none; i <= dimensions; ++i)
    if (strcmp(words[i], word) == 0) mistake = i;
  if (strcmp(word, "encode") == 0) {
    map_of(nullptr, {width, height}, {box_width - 1, box_height});
  } else {
    two_dimensions(static_cast<Mistake>(mistake), strcmp(word, "beyond") == 0 ? height + 8 : height);
    if (mistake == none) three_dimensions();
  }
}
