// Indices outside their arrays.
#pragma once

#include <trifold/cuda.cuh>

namespace bounds {

__device__ inline int thread_of_grid() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void twice(const float* x, float* y, int n) {
  const int i = thread_of_grid();
  if (i < n) y[i] = 2 * x[i];
}

__global__ void double_with_guard_off_by_one(const float* x, float* y, int n) {
  const int i = thread_of_grid();
  if (i <= n) y[i] = 2 * x[i];  // first
}

__global__ void double_without_guard(const float* x, float* y, int) {
  const int i = thread_of_grid();
  y[i] = 2 * x[i];  // first
}

__global__ void double_with_early_return(const float* x, float* y, int n) {
  const int i = thread_of_grid();
  if (i >= n) return;
  y[i] = 2 * x[i];
}

__global__ void fill(float* y, float value, int size) {
  const int i = thread_of_grid();
  if (i < size) y[i] = value;
}

__global__ void fill_without_guard(float* y, float value) {
  y[thread_of_grid()] = value;  // first
}

// x is a matrix in row order, as one long array.
__global__ void column_sums(const double* x, double* sums, int rows, int columns) {
  const int j = thread_of_grid();
  if (j >= columns) return;
  double s = 0;
  for (int i = 0; i < rows; ++i) s += x[i * columns + j];
  sums[j] = s;
}

__global__ void column_sums_with_row_stride_too_long(const double* x, double* sums, int rows, int columns) {
  const int j = thread_of_grid();
  if (j >= columns) return;
  double s = 0;
  for (int i = 0; i < rows; ++i) s += x[i * (columns + 2) + j];  // first
  sums[j] = s;
}

__global__ void ring_difference_from_far_below(const float* x, float* y, int size) {
  const int i = thread_of_grid();
  if (i < size) y[i] = x[i] - x[i - 1 - size];  // first
}

__global__ void reverse_in_dynamic_shared_memory(const float* x, float* y) {
  float* const tile = trifold::dynamic_shared<float>();
  const int t = threadIdx.x;
  tile[t] = x[t];
  __syncthreads();
  y[t] = tile[blockDim.x - 1 - t];
}

// Counts from one; the launch has room for as many elements as threads.
__global__ void reverse_past_dynamic_shared_memory(const float* x, float* y) {
  float* const tile = trifold::dynamic_shared<float>();
  const int t = threadIdx.x;
  tile[t + 1] = x[t];  // first
  __syncthreads();
  y[t] = tile[blockDim.x - t];
}

__global__ void reverse_of_doubles_in_room_for_floats(const float* x, float* y) {
  double* const tile = trifold::dynamic_shared<double>();
  const int t = threadIdx.x;
  tile[t] = x[t];  // first
  __syncthreads();
  y[t] = static_cast<float>(tile[blockDim.x - 1 - t]);
}

__global__ void histogram_of_unit_interval(const double* x, int* hist, int bins) {
  const int b = static_cast<int>(x[thread_of_grid()] * bins);
  atomicAdd(&hist[b < bins ? b : bins - 1], 1);
}

__global__ void histogram_without_the_last_edge(const double* x, int* hist, int bins) {
  const int b = static_cast<int>(x[thread_of_grid()] * bins);
  atomicAdd(&hist[b], 1);  // first
}

__global__ void polynomial(const double* coefficients, const double* x, double* y, int count) {
  double powers[4];
  const int i = thread_of_grid();
  powers[0] = 1;
  for (int k = 1; k < 4; ++k) powers[k] = powers[k - 1] * x[i];
  double s = 0;
  for (int k = 0; k < count; ++k) s += coefficients[k] * powers[k];
  y[i] = s;
}

__global__ void polynomial_past_its_local_array(const double* coefficients, const double* x, double* y, int count) {
  double powers[4];
  const int i = thread_of_grid();
  powers[0] = 1;
  for (int k = 0; k < 4; ++k) powers[k + 1] = powers[k] * x[i];  // first
  double s = 0;
  for (int k = 0; k < count; ++k) s += coefficients[k] * powers[k];
  y[i] = s;
}

__global__ void border(int* image, int height, int width) {
  const int x = thread_of_grid(), y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x < width && y < height && (x == 0 || x == width - 1 || y == 0 || y == height - 1)) image[y * width + x] = 1;
}

__global__ void border_with_swapped_index(int* image, int height, int width) {
  const int x = thread_of_grid(), y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x < width && y < height && (x == 0 || x == width - 1 || y == 0 || y == height - 1))
    image[x * width + y] = 1;  // first
}

// Column 9 of row 0 is the first element of row 1, which a thread of another block writes.
__global__ void border_past_the_row(int* image, int height, int width) {
  const int x = thread_of_grid(), y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x <= width && y < height && (x == 0 || x == width || y == 0 || y == height - 1))
    image[y * width + x] = 1;  // first
}

__global__ void number_a_window(float* window, int size) {
  const int i = thread_of_grid();
  if (i < size) window[i] = static_cast<float>(i);
}

__global__ void number_past_a_window(float* window) {
  const int i = thread_of_grid();
  window[i] = static_cast<float>(i);  // first
}

}  // namespace bounds
