// What only C++ has: vectors at odd addresses, casts, members and rows that are left, pointers, bytes.
#pragma once

#include <trifold/cuda.cuh>

#include <cstring>

namespace native {

constexpr int threads = 32;

struct alignas(16) Quad {
  float value[4];
};
struct alignas(8) Pair {
  float x, y;
};

__global__ void copy_by_quads(const float* x, float* y, int) {
  const int t = threadIdx.x;
  reinterpret_cast<Quad*>(y)[t] = reinterpret_cast<const Quad*>(x)[t];
}

__global__ void quad_at_an_odd_element(const float* x, float* y, int) {
  if (threadIdx.x == 0) {
    const Quad quad = *reinterpret_cast<const Quad*>(x + 1);  // first
    *reinterpret_cast<Quad*>(y) = quad;
  }
}

// The first row begins at a multiple of 16 bytes, the second one does not.
__global__ void rows_of_five_by_quads(const float* x, float* y, int) {
  const int t = threadIdx.x;
  const Quad quad = *reinterpret_cast<const Quad*>(x + 5 * (t % 4));  // first
  y[t] = quad.value[0];
}

__global__ void pair_stored_at_an_odd_element(const float* x, float* y, int) {
  const int t = threadIdx.x;
  *reinterpret_cast<Pair*>(y + 2 * t + 1) = Pair{x[t], x[t]};  // first
}

// The number of vectors is rounded up: the last one has two elements that are not there.
__global__ void quads_rounded_up(const float* x, float* y, int n) {
  const int t = threadIdx.x;
  if (t < (n + 3) / 4) {
    const Quad quad = reinterpret_cast<const Quad*>(x)[t];  // first
    y[t] = quad.value[0];
  }
}

__global__ void quads_and_a_tail(const float* x, float* y, int n) {
  const int t = threadIdx.x;
  if (t < n / 4) {
    reinterpret_cast<Quad*>(y)[t] = reinterpret_cast<const Quad*>(x)[t];
  } else if (const int i = n / 4 * 4 + t - n / 4; i < n) {
    y[i] = x[i];
  }
}

// As many doubles as there are floats.
__global__ void floats_taken_for_doubles(const float* x, float* y, int n) {
  const int t = threadIdx.x;
  for (int i = t; i < n; i += threads) y[i] = static_cast<float>(reinterpret_cast<const double*>(x)[i]);  // first
}

// The extent in bytes is taken for one in elements.
__global__ void bytes_taken_for_elements(const float* x, float* y, int n) {
  const int bytes = n * static_cast<int>(sizeof(float));
  for (int i = threadIdx.x; i < bytes; i += threads) y[i] = x[i];  // first
}

struct Box {
  float sides[3];
  float weight;
};

// A box has three sides; the fourth number is its weight.
__global__ void box_of_four_sides(Box* boxes, float* y, int) {
  const int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k <= 3; ++k) sum += boxes[t].sides[k];  // first
  y[t] = sum;
}

__global__ void box_written_past_its_sides(Box* boxes, float* y, int) {
  const int t = threadIdx.x;
  Box* const box = &boxes[t];
  for (int k = 0; k <= 3; ++k) box->sides[k] = 0;  // first
  y[t] = box->weight;
}

__global__ void box_of_three_sides(Box* boxes, float* y, int) {
  const int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 3; ++k) sum += boxes[t].sides[k];
  y[t] = sum;
}

// A pointer has no extent: what it points into is the whole array of boxes.
__global__ void box_of_four_sides_by_pointer(Box* boxes, float* y, int) {
  const int t = threadIdx.x;
  const float* const sides = boxes[t].sides;
  float sum = 0;
  for (int k = 0; k <= 3; ++k) sum += sides[k];
  y[t] = sum;
}

// The row's last element has a neighbour: the next row's first.
__global__ void row_of_a_tile_left(const float* x, float* y, int) {
  __shared__ float tile[4][8];
  const int t = threadIdx.x, row = t / 8, column = t % 8;
  tile[row][column] = x[t];
  __syncthreads();
  y[t] = tile[row][column + 1];  // first
}

__global__ void stack_array_left(const float* x, float* y, int) {
  float last[4];
  const int t = threadIdx.x;
  for (int k = 0; k < 4; ++k) last[k] = x[t];
  y[t] = last[t / 4];  // first
}

// In a template the compiler points elsewhere in the line.
template <class T>
__device__ void stage(const T* x, T* y) {
  __shared__ T staged[threads - 1];
  const int t = threadIdx.x;
  staged[t] = x[t] > T(0) ? x[t] : T(0);  // first
  __syncthreads();
  y[t] = staged[0];
}
__global__ void template_past_its_shared_array(const float* x, float* y, int) {
  stage(x, y);
}

template <class T>
__device__ void keep(const T* x, T* y) {
  T last[threads - 1];
  const int t = threadIdx.x;
  last[t] = x[t];  // first
  y[t] = last[t] + last[0];
}
__global__ void template_past_its_local_array(const float* x, float* y, int) {
  keep(x, y);
}

__device__ inline void fill_from(float* values, float value, int count) {
  for (int k = 0; k < count; ++k) values[k] = value;
}

// Room of one on the stack is left through a pointer, within the thread's own stack.
__global__ void stack_array_left_by_pointer(const float* x, float* y, int) {
  struct {
    float values[4];
    float rest[4];
  } room = {};
  const int t = threadIdx.x;
  fill_from(room.values, x[t], 5);
  y[t] = room.rest[0];
}

// The stack holds what earlier calls left there.
__global__ void local_array_half_filled(const float* x, float* y, int) {
  float values[4];
  const int t = threadIdx.x;
  fill_from(values, x[t], 2);
  y[t] = values[t % 2 == 0 ? 3 : 0] * 0;
}

// Two arrays in dynamic shared memory, room for one and a half.
__global__ void second_array_past_dynamic_shared_memory(const float* x, float* y, int) {
  float* const values = trifold::dynamic_shared<float>();
  int* const ranks = reinterpret_cast<int*>(values + threads);
  const int t = threadIdx.x;
  values[t] = x[t];
  ranks[t] = t;  // first
  __syncthreads();
  y[t] = values[ranks[threads - 1 - t]];
}

// Through the read-only cache: a GPU need not see what the launch itself writes.
template <class T>
__device__ __forceinline__ T read_only(const T* p) {
#ifdef TRIFOLD_GPU_ARCH
  return __ldg(p);
#else
  return *p;  // second
#endif
}

__global__ void read_only_load_of_written_data(const float* x, float* y, int) {
  const int t = threadIdx.x;
  y[t] = x[t];  // first
  y[t] += read_only(&y[t / 2 * 2]);
}

__global__ void read_only_load(const float* x, float* y, int) {
  const int t = threadIdx.x;
  y[t] = read_only(&x[t ^ 1]);
}

__device__ float total = 0;

// Memory of the library's own, which no argument names.
__global__ void variable_without_atomic(const float* x, float* y, int) {
  total += x[threadIdx.x];  // first
  y[threadIdx.x] = total;
}

__global__ void variable_by_atomic(const float* x, float* y, int) {
  atomicAdd(&total, x[threadIdx.x]);
  __syncthreads();
  y[threadIdx.x] = x[threadIdx.x];
}

__global__ void one_total_by_atomics_of_a_block(const float* x, float* y, int) {
  atomicAdd_block(&y[0], x[threadIdx.x]);  // first
}

__global__ void total_of_each_block(const float* x, float* y, int) {
  atomicAdd_block(&y[blockIdx.x], x[threadIdx.x]);
  if (threadIdx.x == 0) atomicAdd_system(&y[gridDim.x], 1.0f);
}

// What other blocks see of a maximum is an atomic of the device; the one before it is not.
__global__ void largest_of_all_by_one_wide_atomic(const int* x, int* y, int) {
  const int t = threadIdx.x;
  atomicMax_block(&y[0], x[t]);  // first
  __syncthreads();
  if (t == 0) atomicMax(&y[0], x[0]);  // second
}

// The lock keeps out this block's threads, not another block's.
__global__ void lock_of_a_block_for_all(const int* x, int* y, int) {
  if (threadIdx.x > 0) return;
  while (atomicCAS_block(&y[0], 0, 1) != 0) {  // first
  }
  __threadfence();
  y[1] += x[blockIdx.x];
  __threadfence();
  atomicExch_block(&y[0], 0);  // first
}

// The programming guide's atomicAdd of a double, and one of a type that atomicCAS has in 16 bits.
__device__ inline void add_to(double* sum, double value) {
  auto* const word = reinterpret_cast<unsigned long long*>(sum);
  unsigned long long old = *word, assumed;
  do {
    assumed = old;
    old = atomicCAS(word, assumed,
                    static_cast<unsigned long long>(__double_as_longlong(__longlong_as_double(assumed) + value)));
  } while (assumed != old);
}
__device__ inline void add_to(unsigned short* sum, unsigned short value) {
  unsigned short old;
  do {
    old = *sum;
  } while (atomicCAS(sum, old, static_cast<unsigned short>(old + value)) != old);
}

__global__ void sums_by_compare_and_swap_of_other_widths(const float* x, float* y, int) {
  __shared__ double wide;
  __shared__ unsigned short narrow[2];
  const int t = threadIdx.x;
  if (t == 0) wide = narrow[0] = narrow[1] = 0;
  __syncthreads();
  add_to(&wide, x[t]);
  add_to(&narrow[t % 2], static_cast<unsigned short>(x[t]));
  __syncthreads();
  y[t] = static_cast<float>(wide) + narrow[t % 2];
}

__global__ void box_of_the_block_by_all_threads(const float* x, float* y, int) {
  __shared__ Box whole;
  const int t = threadIdx.x;
  whole = Box{{1, 2, 3}, x[1]};  // first
  __syncthreads();
  y[t] = whole.sides[2] + whole.weight;
}

// g++ copies it by memcpy: the writes are compared once it has.
struct Crate {
  Box boxes[8];
};

__global__ void box_of_the_block_but_one_side(const float* x, float* y, int) {
  __shared__ Crate crate;
  const int t = threadIdx.x;
  Crate own{};
  own.boxes[7].weight = x[t / 16];
  crate = own;  // first
  __syncthreads();
  y[t] = crate.boxes[7].weight;
}

__global__ void pair_over_an_element_and_another(const float* x, float* y, int) {
  const int t = threadIdx.x;
  if (t < 2) y[t] = x[t];                                               // first
  if (t == 2) *reinterpret_cast<float2*>(y) = make_float2(x[0], x[3]);  // second
}

__constant__ float weights[4] = {1, 2, 3, 4};
static const __constant__ float doublings[4] = {1, 2, 4, 8};

__device__ inline float* writable(const float* p) {
  return const_cast<float*>(p);
}

__global__ void constant_written_through_a_pointer(const float* x, float* y, int) {
  const int t = threadIdx.x;
  writable(weights)[t % 4] = x[t];  // first
  y[t] = weights[t % 4];
}

__global__ void fixed_constant_added_to(const float* x, float* y, int) {
  const int t = threadIdx.x;
  if (t == 5) atomicAdd(writable(&doublings[1]), x[t]);  // first
  y[t] = doublings[t % 4];
}

__global__ void constants_read_through_a_pointer(const float* x, float* y, int) {
  const int t = threadIdx.x;
  const volatile float* const read = doublings;
  y[t] = x[t] * writable(weights)[t % 4] * read[t % 4];
}

__global__ void element_before_the_first(const float* x, float* y, int) {
  const int t = threadIdx.x;
  y[t] = x[t] - x[t - 1];  // first
}

// threadIdx.x is unsigned: 0 - 1 is four billion.
__global__ void element_before_the_first_by_unsigned_index(const float* x, float* y, int) {
  y[threadIdx.x] = x[threadIdx.x - 1];  // first
}

__global__ void null_pointer(const float* x, float* y, int) {
  const float* const nowhere = nullptr;
  y[threadIdx.x] = x == y ? 0 : nowhere[threadIdx.x];  // first
}

struct Flags {
  unsigned low : 4, high : 4;
};

// Two members of one byte: writing one means to read and write both.
__global__ void bit_fields_of_one_byte(const float* x, float* y, int) {
  __shared__ Flags flags[threads / 2];
  const int t = threadIdx.x;
  if (t % 2 == 0) flags[t / 2] = {};
  __syncthreads();
  if (t % 2 == 0) {
    flags[t / 2].low = 1;  // first
  } else {
    flags[t / 2].high = 2;  // second
  }
  __syncthreads();
  y[t] = x[t] + static_cast<float>(flags[t / 2].low + flags[t / 2].high);
}

__global__ void bytes_beside_each_other(const float* x, float* y, int) {
  __shared__ unsigned char bytes[threads];
  const int t = threadIdx.x;
  bytes[t] = static_cast<unsigned char>(t);
  __syncthreads();
  y[t] = x[t] + bytes[threads - 1 - t];
}

// volatile makes the compiler load and store; it makes no lane wait.
__global__ void volatile_in_place_of_syncwarp(const float* x, float* y, int) {
  __shared__ float sums[2 * threads];
  const int t = threadIdx.x;
  sums[t] = x[t];
  sums[t + threads] = 0;
  __syncthreads();
  volatile float* const seen = sums;
  for (int s = threads / 2; s > 0; s /= 2) seen[t] = seen[t] + seen[t + s];  // first
  y[t] = seen[0];
}

// Each lane has passed the rendezvous, but not the store of the lane it reads from.
__global__ void volatile_with_a_rendezvous_left_out(const float* x, float* y, int) {
  __shared__ volatile float values[threads];
  const int t = threadIdx.x;
  values[t] = x[t];
  __syncwarp();
  const float other = values[t ^ 1];  // second
  values[t] = 2 * other;              // first
  __syncwarp();
  y[t] = values[t];
}

__global__ void volatile_with_syncwarp(const float* x, float* y, int) {
  __shared__ float sums[2 * threads];
  const int t = threadIdx.x;
  sums[t] = x[t];
  sums[t + threads] = 0;
  __syncwarp();
  volatile float* const seen = sums;
  for (int s = threads / 2; s > 0; s /= 2) {
    const float sum = seen[t] + seen[t + s];
    __syncwarp();
    seen[t] = sum;
    __syncwarp();
  }
  y[t] = seen[0];
}

// Each lane but the last waits for the next one.
__global__ void volatile_flags_that_lanes_poll(const float* x, float* y, int) {
  __shared__ volatile int ready[threads];
  const int t = threadIdx.x;
  ready[t] = 0;
  __syncthreads();
  if (t + 1 < threads) {
    while (ready[t + 1] == 0) {
    }
  }
  ready[t] = 1;
  __syncthreads();
  y[t] = x[t];
}

// The lanes look together, and meet after each look.
__global__ void volatile_flags_polled_by_vote(const float* x, float* y, int) {
  __shared__ volatile int ready[2];
  const int t = threadIdx.x;
  if (t < 2) ready[t] = 0;
  __syncthreads();
  if (t / 16 == 0) {
    while (!__all_sync(0xffff, ready[t % 2])) {
    }
  } else if (t < 18) {
    ready[t % 2] = 1;
  }
  __syncthreads();
  y[t] = x[t];
}

// Whether a thread still looks at its last elements may change; that one finds the element does not.
__global__ void search_ended_by_a_volatile_flag(const float* x, float* y, int n) {
  __shared__ volatile bool found;
  const int t = threadIdx.x;
  if (t == 0) found = false;
  __syncthreads();
  for (int i = t; i < n && !found; i += threads) {
    if (x[i] == 9) {
      y[0] = static_cast<float>(i);
      found = true;
    }
  }
}

// A copy as a loop by one thread, and its last part past the end.
__global__ void memcpy_past_the_end(const float* x, float* y, int n) {
  const int t = threadIdx.x;
  if (8 * t < n) memcpy(&y[8 * t], &x[8 * t], 8 * sizeof(float));  // first
}

__global__ void memcpy_of_whole_rows(const float* x, float* y, int n) {
  const int t = threadIdx.x;
  if (8 * t < n) memcpy(&y[8 * t], &x[8 * t], sizeof(float) * static_cast<size_t>(n - 8 * t < 8 ? n - 8 * t : 8));
}

// Eight lanes add what they have as if they were a whole warp.
__global__ void sum_of_eight_lanes_from_all(const float* x, float* y, int) {
  const int t = threadIdx.x;
  y[t] = x[t];
  if (t >= 8) return;
  float sum = x[t];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xff, sum, distance);  // first
  y[t] = t == 0 ? sum : x[t];
}

__global__ void sum_of_eight_lanes(const float* x, float* y, int) {
  const int t = threadIdx.x;
  y[t] = x[t];
  if (t >= 8) return;
  float sum = x[t];
  for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_down_sync(0xff, sum, distance);
  y[t] = t == 0 ? sum : x[t];
}

// Two kernels: the second one reads all that the first one writes, and more.
__global__ void squares_but_the_last(const float* x, float* y, int n) {
  for (int i = threadIdx.x; i < n - 1; i += threads) y[i] = x[i] * x[i];
}
__global__ void squares(const float* x, float* y, int n) {
  for (int i = threadIdx.x; i < n; i += threads) y[i] = x[i] * x[i];
}
__global__ void add_one(const float*, float* y, int n) {
  for (int i = threadIdx.x; i < n; i += threads) y[i] += 1;  // first
}

}  // namespace native
