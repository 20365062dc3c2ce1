// Prefix sums in a block, sorting networks, double buffering.
#pragma once

#include <trifold/cuda.cuh>

namespace scans {

constexpr int threads = 64;

__device__ inline int thread_of_grid() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

// Two buffers: each step reads one and writes the other.
__global__ void hillis_steele(const float* x, float* y) {
  __shared__ float a[2][threads];
  const int t = threadIdx.x, i = thread_of_grid();
  a[0][t] = x[i];
  int source = 0;
  for (int distance = 1; distance < threads; distance *= 2) {
    __syncthreads();
    float v = a[source][t];
    if (t >= distance) v += a[source][t - distance];
    a[1 - source][t] = v;
    source = 1 - source;
  }
  y[i] = a[source][t];
}

__global__ void hillis_steele_in_one_buffer(const float* x, float* y) {
  __shared__ float a[threads];
  const int t = threadIdx.x, i = thread_of_grid();
  a[t] = x[i];
  for (int distance = 1; distance < threads; distance *= 2) {
    __syncthreads();
    if (t >= distance) a[t] += a[t - distance];  // first, second
  }
  y[i] = a[t];
}

// Alternates, but the barrier is in every second step only.
__global__ void hillis_steele_with_buffers_not_swapped_back(const float* x, float* y) {
  __shared__ float a[2][threads];
  const int t = threadIdx.x, i = thread_of_grid();
  a[0][t] = x[i];
  int source = 0;
  for (int distance = 1; distance < threads; distance *= 2) {
    if (source == 0) __syncthreads();
    float v = a[source][t];                           // second
    if (t >= distance) v += a[source][t - distance];  // second
    a[1 - source][t] = v;                             // first
    source = 1 - source;
  }
  y[i] = a[source][t];
}

// Up-sweep and down-sweep; a thread has two elements.
__global__ void blelloch(const int* x, int* y) {
  __shared__ int a[threads];
  const int t = threadIdx.x;
  a[2 * t] = x[2 * t];
  a[2 * t + 1] = x[2 * t + 1];
  int offset = 1;
  for (int d = threads / 2; d > 0; d /= 2) {
    __syncthreads();
    if (t < d) a[offset * (2 * t + 2) - 1] += a[offset * (2 * t + 1) - 1];
    offset *= 2;
  }
  if (t == 0) a[threads - 1] = 0;
  for (int d = 1; d < threads; d *= 2) {
    offset /= 2;
    __syncthreads();
    if (t < d) {
      const int left = offset * (2 * t + 1) - 1, right_end = offset * (2 * t + 2) - 1;
      const int v = a[left];
      a[left] = a[right_end];
      a[right_end] += v;
    }
  }
  __syncthreads();
  y[2 * t] = a[2 * t];
  y[2 * t + 1] = a[2 * t + 1];
}

__global__ void blelloch_without_last_barrier(const int* x, int* y) {
  __shared__ int a[threads];
  const int t = threadIdx.x;
  a[t] = x[t];
  a[t + threads / 2] = x[t + threads / 2];
  int offset = 1;
  for (int d = threads / 2; d > 0; d /= 2) {
    __syncthreads();
    if (t < d) a[offset * (2 * t + 2) - 1] += a[offset * (2 * t + 1) - 1];
    offset *= 2;
  }
  if (t == 0) a[threads - 1] = 0;
  for (int d = 1; d < threads; d *= 2) {
    offset /= 2;
    __syncthreads();
    if (t < d) {
      const int left = offset * (2 * t + 1) - 1, right_end = offset * (2 * t + 2) - 1;
      const int v = a[left];
      a[left] = a[right_end];  // first
      a[right_end] += v;       // first
    }
  }
  y[t] = a[t];                              // second
  y[t + threads / 2] = a[t + threads / 2];  // second
}

constexpr int row = 32;

__global__ void bitonic_sort(int* x) {
  __shared__ int a[row];
  const int t = threadIdx.x, i = thread_of_grid();
  a[t] = x[i];
  for (int k = 2; k <= row; k *= 2) {
    for (int j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      const int other = t ^ j;
      if (other > t) {
        const int low = a[t], high = a[other];
        if ((low > high) == ((t & k) == 0)) {
          a[t] = high;
          a[other] = low;
        }
      }
    }
  }
  __syncthreads();
  x[i] = a[t];
}

// The barrier is in the outer loop; the inner one exchanges with other partners each time.
__global__ void bitonic_sort_with_barrier_outside(int* x) {
  __shared__ int a[row];
  const int t = threadIdx.x, i = thread_of_grid();
  a[t] = x[i];
  for (int k = 2; k <= row; k *= 2) {
    __syncthreads();
    for (int j = k / 2; j > 0; j /= 2) {
      const int other = t ^ j;
      if (other > t) {
        const int low = a[t], high = a[other];  // first
        if ((low > high) == ((t & k) == 0)) {
          a[t] = high;     // second
          a[other] = low;  // second
        }
      }
    }
  }
  __syncthreads();
  x[i] = a[t];
}

// One warp sorts: a rendezvous a step is enough.
__global__ void odd_even_sort(int* x) {
  __shared__ int a[row];
  const int t = threadIdx.x, i = thread_of_grid();
  a[t] = x[i];
  __syncwarp();
  for (int step = 0; step < row; ++step) {
    if (t % 2 == step % 2 && t + 1 < row) {
      const int low = a[t], high = a[t + 1];
      if (low > high) {
        a[t] = high;
        a[t + 1] = low;
      }
    }
    __syncwarp();
  }
  x[i] = a[t];
}

// Even and odd pairs are exchanged in the same step.
__global__ void odd_even_sort_of_all_pairs(int* x) {
  __shared__ int a[row];
  const int t = threadIdx.x, i = thread_of_grid();
  a[t] = x[i];
  __syncwarp();
  for (int step = 0; step < row; ++step) {
    if (t + 1 < row) {
      const int low = a[t], high = a[t + 1];  // first
      if (low > high) {
        a[t] = high;     // first, second
        a[t + 1] = low;  // first, second
      }
    }
    __syncwarp();
  }
  x[i] = a[t];
}

// Each block goes over its rows; a row is staged while the last one is used.
__global__ void double_buffer(const float* x, float* y, int steps) {
  __shared__ float rows[2][row];
  const int t = threadIdx.x, b = blockIdx.x;
  rows[0][t] = x[b * steps * row + t];
  float s = 0;
  for (int k = 0; k < steps; ++k) {
    __syncthreads();
    if (k + 1 < steps) rows[(k + 1) % 2][t] = x[(b * steps + k + 1) * row + t];
    s += rows[k % 2][row - 1 - t];
  }
  y[b * row + t] = s;
}

__global__ void double_buffer_with_a_barrier_every_other_step(const float* x, float* y, int steps) {
  __shared__ float rows[2][row];
  const int t = threadIdx.x, b = blockIdx.x;
  rows[0][t] = x[b * steps * row + t];  // first
  float s = 0;
  for (int k = 0; k < steps; ++k) {
    if (k % 2 == 0) __syncthreads();
    if (k + 1 < steps) rows[(k + 1) % 2][t] = x[(b * steps + k + 1) * row + t];  // first
    s += rows[k % 2][row - 1 - t];                                               // second
  }
  y[b * row + t] = s;
}

// The next row goes into the buffer in use.
__global__ void double_buffer_that_loads_what_it_reads(const float* x, float* y, int steps) {
  __shared__ float rows[2][row];
  const int t = threadIdx.x, b = blockIdx.x;
  rows[0][t] = x[b * steps * row + t];
  float s = 0;
  for (int k = 0; k < steps; ++k) {
    __syncthreads();
    if (k + 1 < steps) rows[k % 2][t] = x[(b * steps + k + 1) * row + t];  // first
    s += rows[k % 2][row - 1 - t];                                         // second
  }
  y[b * row + t] = s;
}

// A step of a launch reads one array and writes the other.
__global__ void ping_pong(const double* a, double* b, int size) {
  const int i = thread_of_grid();
  b[i] = a[i > 0 ? i - 1 : size - 1] + a[i];
}

__global__ void ping_without_pong(double* a, double* b, int size) {
  const int i = thread_of_grid();
  a[i] = a[i > 0 ? i - 1 : size - 1] + a[i];  // first, second
  b[i] = a[i];
}

}  // namespace scans
