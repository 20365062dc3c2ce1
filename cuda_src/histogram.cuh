// histogram: how many of n numbers x lie in each of `bins` equally wide parts of [low, high]. x is in bin
//
//   min(floor((x - low)·bins / (high - low)), bins - 1)
//
// where low <= x <= high, and in no bin otherwise; nan is in none. This is torch.histc's formula. Each of its four
// operations is rounded to nearest, in double for double and in float otherwise. The kernels keep it as written, with a
// quotient instead of a product with bins / (high - low): a number on the edge of two bins is then counted in the same
// one on the CPU, on a GPU and by the reference. No product is added to anything, so no compiler can contract the
// formula.
//
// Least traffic: x is read once, sizeof(T) bytes an element. Besides memory, atomic additions to one counter limit a
// histogram. Each block counts in shared memory, with several counters per bin, up to one for each lane of a warp. The
// counters of one bin are in different banks, so that lanes never conflict. Bins that do not fit in shared memory are
// counted in global memory.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/vector.cuh>

inline constexpr int histogram_block = 512;
inline constexpr int histogram_shared_counters = 8192;  // 32 KiB: a multiprocessor holds four such blocks
inline constexpr int histogram_most_copies = 32;        // counters per bin in a block: a warp's lanes, a bank each
inline constexpr int histogram_vectors_at_once = 2;     // loads in flight per thread

// The range, and the number of bins, in the type that bins are computed in.
template <class C>
struct HistogramRange {
  C low, high, factor;

  // The bin of x, or -1. An int suffices for few bins: a GPU converts to 64 bits more slowly.
  template <class Index>
  __device__ __forceinline__ Index bin_of(C x, Index bins) const {
    if (!(x >= low && x <= high)) return -1;
    const auto bin = static_cast<Index>((x - low) * factor / (high - low));
    return bin < bins ? bin : bins - 1;
  }
};

__global__ void histogram_zero_kernel(int64_t* counts, int64_t bins) {
  const int64_t i = trifold::thread_index();
  if (i < bins) counts[i] = 0;
}

__device__ __forceinline__ void count_globally(int64_t* counter, unsigned long long more) {
  static_assert(sizeof(int64_t) == sizeof(unsigned long long));
  atomicAdd(reinterpret_cast<unsigned long long*>(counter), more);
}

// Calls use(x) for each of this thread's elements. The first `share.head` elements precede the first vector.
template <class T, class Use>
__device__ __forceinline__ void for_each_of_thread(const T* x, trifold::Share share, Use use) {
  using C = trifold::compute_t<T>;
  using Vector = trifold::Vector<T>;
  constexpr int at_once = histogram_vectors_at_once;
  const auto* const vectors = reinterpret_cast<const Vector*>(x + share.head);
  const int64_t thread = trifold::thread_index<histogram_block>();
  const int64_t step = static_cast<int64_t>(gridDim.x) * histogram_block;
  for (int64_t first = thread; first < share.vectors; first += at_once * step) {
    Vector part[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k)
      if (first + k * step < share.vectors) part[k] = vectors[first + k * step];
#pragma unroll
    for (int k = 0; k < at_once; ++k)
      if (first + k * step < share.vectors)
#pragma unroll
        for (int j = 0; j < Vector::size; ++j) use(C(part[k].value[j]));
  }
  if (thread < share.rest)  // one thread each, in the first block
    use(C(x[thread < share.head ? thread : thread + share.vectors * Vector::size]));
}

// `copies` counters per bin, a power of two. 32 bits suffice for a block's counters: no memory holds 528 blocks of 2^32
// elements.
template <class T>
__global__ void __launch_bounds__(histogram_block)
    histogram_kernel(const T* x, int64_t* counts, trifold::Share share, int bins, int copies,
                     HistogramRange<trifold::compute_t<T>> range) {
  __shared__ unsigned of_block[histogram_shared_counters];
  for (int i = threadIdx.x; i < bins * copies; i += histogram_block) of_block[i] = 0;
  trifold::wait_for_earlier_kernels();
  __syncthreads();
  unsigned* const of_lane = of_block + threadIdx.x % copies;
  for_each_of_thread(x, share, [&](auto number) {
    const int bin = range.bin_of(number, bins);
    if (bin >= 0) atomicAdd(of_lane + bin * copies, 1u);
  });
  __syncthreads();
  for (int i = threadIdx.x; i < bins; i += histogram_block) {
    // Neighbouring threads start at different copies, which are in different banks.
    const int rotated = i * copies / histogram_most_copies;
    unsigned total = 0;
    for (int k = 0; k < copies; ++k) total += of_block[i * copies + (rotated + k) % copies];
    if (total > 0) count_globally(counts + i, total);
  }
}

// For more bins than shared memory has counters.
template <class T>
__global__ void __launch_bounds__(histogram_block)
    histogram_global_kernel(const T* x, int64_t* counts, trifold::Share share, int64_t bins,
                            HistogramRange<trifold::compute_t<T>> range) {
  trifold::wait_for_earlier_kernels();
  for_each_of_thread(x, share, [&](auto number) {
    const int64_t bin = range.bin_of(number, bins);
    if (bin >= 0) count_globally(counts + bin, 1);
  });
}
