// cuda::pipeline and cuda::memcpy_async: y = 2 x, tile by tile, and each mistake one line that is missing.
#include <cooperative_groups.h>

#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

constexpr int threads = 64, tile = 64, tiles = 5;

enum Mistake { none, no_wait, no_release, released_early, no_sync };

using State = cuda::pipeline_shared_state<cuda::thread_scope_block, 2>;

// All threads fill and use two stages.
extern "C" __global__ void together(const float* x, float* y, int mistake) {
  __shared__ float stage[2][tile];
  __shared__ State state;
  const auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  for (int filled = 0, used = 0; used < tiles; ++used) {
    for (; filled < tiles && filled < used + 2; ++filled) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, stage[filled % 2], x + filled * tile, sizeof(float) * tile, pipe);  // filled
      pipe.producer_commit();
    }
    if (mistake != no_wait) pipe.consumer_wait();
    if (mistake == released_early) pipe.consumer_release();
    const int other = tile - 1 - threadIdx.x;
    y[used * tile + other] = 2 * stage[used % 2][other];  // used
    if (mistake != no_release && mistake != released_early) pipe.consumer_release();
  }
}

// The first warp fills, the second one uses: by their number, or by each thread's role.
__device__ void fill_and_use(cuda::pipeline<cuda::thread_scope_block>& pipe, float (&stage)[2][tile], const float* x,
                             float* y, int mistake) {
  const int t = threadIdx.x % 32;
  for (int each = 0; each < tiles; ++each) {
    if (threadIdx.x < 32) {
      pipe.producer_acquire();
      for (int i = t; i < tile; i += 32)
        cuda::memcpy_async(&stage[each % 2][i], &x[each * tile + i], cuda::aligned_size_t<4>(4), pipe);  // filled
      pipe.producer_commit();
    } else {
      if (mistake != no_wait) pipe.consumer_wait();
      if (mistake == released_early) pipe.consumer_release();
      for (int i = t; i < tile; i += 32) y[each * tile + i] = 2 * stage[each % 2][i];  // used
      if (mistake != no_release && mistake != released_early) pipe.consumer_release();
    }
  }
}
extern "C" __global__ void apart(const float* x, float* y, int mistake) {
  __shared__ float stage[2][tile];
  __shared__ State state;
  auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state, 32);
  fill_and_use(pipe, stage, x, y, mistake);
}
extern "C" __global__ void by_role(const float* x, float* y, int mistake) {
  __shared__ float stage[2][tile];
  __shared__ State state;
  const auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state, role);
  fill_and_use(pipe, stage, x, y, mistake);
}

// Each thread has its own stages.
extern "C" __global__ void alone(const float* x, float* y, int mistake) {
  __shared__ float stage[2][threads];
  const int t = threadIdx.x;
  auto pipe = cuda::make_pipeline();
  for (int filled = 0, used = 0; used < tiles; ++used) {
    for (; filled < tiles && filled < used + 2; ++filled) {
      pipe.producer_acquire();
      cuda::memcpy_async(&stage[filled % 2][t], &x[filled * tile + t], sizeof(float), pipe);  // filled
      pipe.producer_commit();
    }
    if (mistake != no_wait) pipe.consumer_wait();
    const int i = mistake == no_sync ? t ^ 1 : t;
    y[used * tile + i] = 2 * stage[used % 2][i];  // used
    pipe.consumer_release();
  }
}

// A barrier's phase ends when all copies have.
extern "C" __global__ void barrier(const float* x, float* y, int mistake) {
  __shared__ float stage[tile];
  __shared__ cuda::barrier<cuda::thread_scope_block> full;
  const auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&full, threads);
  block.sync();
  const int i = tile - 1 - threadIdx.x;
  for (int each = 0; each < tiles; ++each) {
    cuda::memcpy_async(block, stage, x + each * tile, sizeof(float) * tile, full);  // filled
    auto token = full.arrive();
    if (mistake != no_wait) full.wait(std::move(token));
    y[each * tile + i] = 2 * stage[i];  // used
    if (mistake != no_release) block.sync();
  }
}
