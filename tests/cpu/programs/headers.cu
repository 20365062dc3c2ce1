// What programs include beside the runtime: complex numbers, parts of the C++ library, marks for a profiler; reductions
// of groups into atomics.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuComplex.h>
#include <nvtx3/nvToolsExt.h>
#include <cuda/atomic>
#include <cuda/std/bit>
#include <cuda/std/functional>
#include <cuda/std/span>

#include "check.h"

namespace cg = cooperative_groups;
using Counter = cuda::atomic<int, cuda::thread_scope_device>;

__global__ void turn(cuda::std::span<cuFloatComplex> z, cuDoubleComplex* quotient) {
  const int i = threadIdx.x;
  z[i] = cuCmulf(z[i], make_cuFloatComplex(0, cuda::std::bit_cast<float>(0x3f800000)));
  static_assert(cuda::std::bit_ceil(33u) == 64 && cuda::std::countl_zero(static_cast<unsigned short>(1)) == 15 &&
                cuda::std::rotl(0x80000001u, 1) == 3);
  if (i == 0) *quotient = cuCdiv(make_cuDoubleComplex(1, 2), cuConj(make_cuDoubleComplex(3, -4)));
}
__global__ void count(Counter* sum, Counter* most) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  cg::reduce_update_async(warp, *sum, cuda::std::multiplies<>()(1, 1), cg::plus<int>());
  if (warp.meta_group_rank() == 0) cg::reduce_store_async(warp, *most, (int)threadIdx.x, cg::greater<int>());
}

int main() {
  nvtxRangePushA("all");
  cuFloatComplex* z;
  cuDoubleComplex* quotient;
  Counter* counters;
  CHECK(cudaMallocManaged(&z, 4 * sizeof *z));
  CHECK(cudaMallocManaged(&quotient, sizeof *quotient));
  CHECK(cudaMallocManaged(&counters, 2 * sizeof *counters));
  for (int i = 0; i < 4; ++i) z[i] = make_cuComplex(i, 1);
  for (int i = 0; i < 2; ++i) new (counters + i) Counter(0);
  turn<<<1, 4>>>(cuda::std::span<cuFloatComplex>(z, 4), quotient);
  count<<<2, 64>>>(counters, counters + 1);
  CHECK(cudaDeviceSynchronize());
  printf("%g%+gi %g%+gi %g, ", cuCrealf(z[3]), cuCimagf(z[3]), quotient->x, quotient->y,
         cuCabs(make_cuDoubleComplex(3, 4)));
  printf("%d %d\n", counters[0].load(), counters[1].load());
  for (void* each : {(void*)z, (void*)quotient, (void*)counters}) CHECK(cudaFree(each));
  nvtxRangePop();
}
