// rope: the kernels of prototypes/rope.py.
#pragma once

#include <trifold/cuda.cuh>

inline constexpr int HEADS_A_THREAD = 4;

template <class T>
__device__ __forceinline__ void rotate_heads(const T* x, int64_t x_stride0, int64_t x_stride1, int64_t x_length0,
                                             T* out, int64_t out_stride0, int64_t out_stride1, int64_t first,
                                             int64_t position, int64_t pair, int64_t pairs,
                                             trifold::compute_t<T> cosine, trifold::compute_t<T> sine) {
  using C = trifold::compute_t<T>;
  for (int64_t head = first; head < min(first + HEADS_A_THREAD, x_length0); ++head) {
    const C x1 = C(x[head * x_stride0 + position * x_stride1 + pair]);
    const C x2 = C(x[head * x_stride0 + position * x_stride1 + pair + pairs]);
    out[head * out_stride0 + position * out_stride1 + pair] = T(x1 * cosine - x2 * sine);
    out[head * out_stride0 + position * out_stride1 + pair + pairs] = T(x2 * cosine + x1 * sine);
  }
}

template <class T>
__global__ void rope_kernel(const T* __restrict__ q, int64_t q_stride0, int64_t q_stride1, int64_t q_length0,
                            const T* __restrict__ k, int64_t k_stride0, int64_t k_stride1, int64_t k_length0,
                            const T* __restrict__ cos, int64_t cos_stride0, int64_t cos_stride1,
                            const T* __restrict__ sin, int64_t sin_stride0, int64_t sin_stride1, T* __restrict__ q_out,
                            int64_t q_out_stride0, int64_t q_out_stride1, T* __restrict__ k_out, int64_t k_out_stride0,
                            int64_t k_out_stride1, int64_t positions, int64_t pairs, bool inverse) {
  using C = trifold::compute_t<T>;
  const int64_t position = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (position >= positions) return;
  const int64_t q_groups = (q_length0 + HEADS_A_THREAD - 1) / HEADS_A_THREAD;
  const int64_t k_groups = (k_length0 + HEADS_A_THREAD - 1) / HEADS_A_THREAD;
  for (int64_t pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
    const C cosine = C(cos[position * cos_stride0 + pair * cos_stride1]);
    const C sine = inverse ? -C(sin[position * sin_stride0 + pair * sin_stride1])
                           : C(sin[position * sin_stride0 + pair * sin_stride1]);
    const int first_group = blockIdx.y * blockDim.z + threadIdx.z;
    for (int64_t group = first_group; group < q_groups + k_groups; group += static_cast<int>(gridDim.y * blockDim.z)) {
      if (group < q_groups) {
        rotate_heads(q, q_stride0, q_stride1, q_length0, q_out, q_out_stride0, q_out_stride1, group * HEADS_A_THREAD,
                     position, pair, pairs, cosine, sine);
      } else {
        rotate_heads(k, k_stride0, k_stride1, k_length0, k_out, k_out_stride0, k_out_stride1,
                     (group - q_groups) * HEADS_A_THREAD, position, pair, pairs, cosine, sine);
      }
    }
  }
}
