// Arguments that share memory, strides, structs, shared memory of two types.
#pragma once

#include <trifold/cuda.cuh>

namespace layouts {

constexpr int threads = 64;

// source and target lie one element apart.
__global__ void shift_through_registers(const float* source, float* target) {
  const int t = threadIdx.x;
  const float v = source[t];
  __syncthreads();
  target[t] = v;
}

__global__ void shift_between_views(const float* source, float* target) {
  const int t = threadIdx.x;
  target[t] = source[t];  // first, second
}

// Every other element is even's, the ones between are odd's; a block has each.
__global__ void even_and_odd_places(int* even, int* odd) {
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    even[2 * t] = 2 * t;
  } else {
    odd[2 * t] = 2 * t + 100;
  }
}

__global__ void windows_kept_apart(int* left, int* right_part) {
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    left[t] = 1;
  } else {
    right_part[t + 8] = 2;
  }
}

__global__ void windows_that_overlap(int* left, int* right_part) {
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    left[t] = 1;  // first
  } else {
    right_part[t] = 2;  // second
  }
}

// First the doubles, then the integers.
__global__ void two_dtypes_in_dynamic_shared_memory(const double* x, double* y) {
  double* const values = trifold::dynamic_shared<double>();
  int* const ranks = reinterpret_cast<int*>(values + threads);
  const int t = threadIdx.x;
  values[t] = x[t];
  ranks[t] = t;
  __syncthreads();
  y[t] = values[threads - 1 - t] + ranks[threads - 1 - t];
}

__global__ void two_dtypes_on_one_place(const double* x, double* y) {
  double* const values = trifold::dynamic_shared<double>();
  int* const ranks = trifold::dynamic_shared<int>();
  const int t = threadIdx.x;
  values[t] = x[t];  // first
  ranks[t] = t;      // second
  __syncthreads();
  y[t] = values[threads - 1 - t] + ranks[threads - 1 - t];
}

// Eight flags of a byte, then the doubles, at a multiple of eight bytes.
__global__ void doubles_behind_flags(const double* x, double* y) {
  signed char* const room = trifold::dynamic_shared<signed char>();
  double* const values = reinterpret_cast<double*>(room + 8);
  const int t = threadIdx.x;
  room[t] = 1;
  values[t] = x[t];
  __syncthreads();
  y[t] = values[7 - t] * room[7 - t];
}

// A header of nine bytes: the GPU would trap at the first double.
__global__ void doubles_behind_an_odd_byte(const double* x, double* y) {
  signed char* const room = trifold::dynamic_shared<signed char>();
  double* const values = reinterpret_cast<double*>(room + 9);
  const int t = threadIdx.x;
  room[t] = 1;
  values[t] = x[t];  // first
  __syncthreads();
  y[t] = values[7 - t] * room[7 - t];
}

// x has strides, bias has the same row for all i.
__global__ void scale_and_shift_tensors(const float* x, const float* scale, const float* bias, float* y, int rows,
                                        int columns, int row_stride, int column_stride) {
  const int i = threadIdx.x, j = threadIdx.y;
  if (i < rows && j < columns) y[i * columns + j] = x[i * row_stride + j * column_stride] * scale[0] + bias[j];
}

__global__ void add_to_an_expanded_tensor(const float* x, float* sums) {
  atomicAdd(&sums[0], x[threadIdx.x]);
}

__global__ void add_to_an_expanded_tensor_without_atomic(const float* x, float* sums) {
  sums[0] += x[threadIdx.x];  // first
}

struct Body {
  float x, v, mass;
};

__global__ void move_bodies(Body* bodies) {
  const int t = threadIdx.x;
  float pull = 0;
  for (int k = 0; k < threads; ++k) pull += bodies[k].mass * bodies[k].x;
  __syncthreads();
  bodies[t].v = pull / bodies[t].mass;
  bodies[t].x += bodies[t].v;
}

__global__ void move_bodies_without_barrier(Body* bodies) {
  const int t = threadIdx.x;
  float pull = 0;
  for (int k = 0; k < threads; ++k) pull += bodies[k].mass * bodies[k].x;  // second
  bodies[t].v = pull / bodies[t].mass;
  bodies[t].x += bodies[t].v;  // first
}

// All masses are read while own velocities are written: members beside each other, no race.
__global__ void share_out_momentum(Body* bodies) {
  const int t = threadIdx.x;
  float total = 0;
  for (int k = 0; k < threads; ++k) total += bodies[k].mass;
  bodies[t].v = total / bodies[t].mass;
}

struct Point {
  int key;
  float value;
};

__global__ void records_in_shared_memory(const int* keys, float* y) {
  __shared__ Point points[threads];
  const int t = threadIdx.x;
  points[t].key = keys[t];
  points[t].value = static_cast<float>(t);
  __syncthreads();
  const Point& partner = points[threads - 1 - t];
  y[partner.key] = partner.value;
}

__global__ void records_with_a_field_left_out(const int* keys, float* y) {
  __shared__ Point points[threads];
  const int t = threadIdx.x;
  points[t].key = keys[t];
  __syncthreads();
  const Point& partner = points[threads - 1 - t];
  y[partner.key] = partner.value;  // first
}

}  // namespace layouts
