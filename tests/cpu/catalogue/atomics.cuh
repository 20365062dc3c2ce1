// Counters, histograms and flags: atomic, not atomic, and both on one place.
#pragma once

#include <trifold/cuda.cuh>

namespace atomics {

constexpr int bin_count = 16;

__device__ inline int thread_of_grid() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void histogram(const int* x, int* hist) {
  atomicAdd(&hist[x[thread_of_grid()]], 1);
}

__global__ void histogram_without_atomic(const int* x, int* hist) {
  hist[x[thread_of_grid()]] += 1;  // first
}

__global__ void histogram_in_shared_memory(const int* x, int* hist) {
  __shared__ int bins[bin_count];
  const int t = threadIdx.x;
  if (t < bin_count) bins[t] = 0;
  __syncthreads();
  atomicAdd(&bins[x[thread_of_grid()]], 1);
  __syncthreads();
  if (t < bin_count) atomicAdd(&hist[t], bins[t]);
}

__global__ void histogram_merged_too_early(const int* x, int* hist) {
  __shared__ int bins[bin_count];
  const int t = threadIdx.x;
  if (t < bin_count) bins[t] = 0;
  __syncthreads();
  atomicAdd(&bins[x[thread_of_grid()]], 1);         // first
  if (t < bin_count) atomicAdd(&hist[t], bins[t]);  // second
}

__global__ void histogram_cleared_too_late(const int* x, int* hist) {
  __shared__ int bins[bin_count];
  const int t = threadIdx.x;
  if (t == 0)
    for (int b = 0; b < bin_count; ++b) bins[b] = 0;  // first
  atomicAdd(&bins[x[thread_of_grid()]], 1);           // second
  __syncthreads();
  if (t < bin_count) atomicAdd(&hist[t], bins[t]);
}

__global__ void histogram_stored_by_each_block(const int* x, int* hist) {
  __shared__ int bins[bin_count];
  const int t = threadIdx.x;
  if (t < bin_count) bins[t] = 0;
  __syncthreads();
  atomicAdd(&bins[x[thread_of_grid()]], 1);
  __syncthreads();
  if (t < bin_count) hist[t] = bins[t];  // first
}

__global__ void count_multiples(const int* x, int* count) {
  const int i = thread_of_grid();
  if (i == 0) count[0] = 0;
  __syncthreads();
  if (x[i] % 3 == 0) atomicAdd(&count[0], 1);
}

__global__ void count_multiples_without_barrier(const int* x, int* count) {
  const int i = thread_of_grid();
  if (i == 0) count[0] = 0;                    // first
  if (x[i] % 3 == 0) atomicAdd(&count[0], 1);  // second
}

__global__ void count_multiples_by_barrier(const int* x, int* count) {
  const int i = thread_of_grid();
  const int n = __syncthreads_count(x[i] % 3 == 0);
  if (i == 0) count[0] = n;
}

__global__ void collect_four(const int* x, int* y, int* count, int size) {
  const int v = x[thread_of_grid()];
  if (v % 2 == 1) {
    const int place = atomicAdd(&count[0], 1);
    if (place < size) y[place] = v;
  }
}

__global__ void collect_four_with_plain_test(const int* x, int* y, int* count, int size) {
  const int v = x[thread_of_grid()];
  if (v % 2 == 1 && count[0] < size) {          // first
    const int place = atomicAdd(&count[0], 1);  // second
    if (place < size) y[place] = v;
  }
}

__global__ void contains_by_plain_stores(const int* x, int wanted, int* found) {
  if (x[thread_of_grid()] == wanted) found[0] = 1;  // first
}

__global__ void place_of_any_by_plain_stores(const int* x, int wanted, int* found) {
  const int i = thread_of_grid();
  if (x[i] == wanted) found[0] = i;  // first
}

__global__ void contains_unless_another_has_found_it(const int* x, int wanted, int* found) {
  if (found[0] != 0) return;                        // second
  if (x[thread_of_grid()] == wanted) found[0] = 1;  // first
}

__global__ void contains_by_atomic(const int* x, int wanted, int* found) {
  if (x[thread_of_grid()] == wanted) atomicExch(&found[0], 1);
}

__global__ void contains_by_vote(const int* x, int wanted, int* found) {
  if (__syncthreads_or(x[thread_of_grid()] == wanted) && threadIdx.x == 0) atomicOr(&found[0], 1);
}

__global__ void product_by_compare_and_swap(const int* x, int* product) {
  const int v = x[thread_of_grid()];
  int old = atomicAdd(&product[0], 0);
  int seen = atomicCAS(&product[0], old, old * v);
  while (seen != old) {
    old = seen;
    seen = atomicCAS(&product[0], old, old * v);
  }
}

__global__ void product_by_compare_and_swap_of_a_plain_read(const int* x, int* product) {
  const int v = x[thread_of_grid()];
  int old = product[0];
  int seen = atomicCAS(&product[0], old, old * v);
  while (seen != old) {
    old = seen;
    seen = atomicCAS(&product[0], old, old * v);
  }
}

__global__ void product_by_compare_and_swap_of_the_first_element(const int* x, int* product) {
  const int v = x[thread_of_grid()];
  for (;;) {
    const int old = *product;
    if (atomicCAS(product, old, old * v) == old) break;
  }
}

__global__ void largest_by_compare_and_swap_after_a_plain_look(const int* x, int* largest) {
  const int v = x[thread_of_grid()];
  int old = largest[0];  // first
  while (old < v) {
    const int seen = atomicCAS(&largest[0], old, v);  // second
    if (seen == old) break;
    old = seen;
  }
}

__global__ void product_by_compare_and_swap_with_a_plain_read_again(const int* x, int* product) {
  const int v = x[thread_of_grid()];
  const int expected = product[0] * v;  // first
  __threadfence_block();
  int old = product[0];
  int seen = atomicCAS(&product[0], old, expected);  // second
  while (seen != old) {
    old = seen;
    seen = atomicCAS(&product[0], old, old * v);  // second
  }
}

}  // namespace atomics
