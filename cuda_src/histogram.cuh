// histogram: how many of n numbers x lie in each of `bins` equally wide parts of [low, high]. x is in bin
//
//   min(floor((x - low)·bins / (high - low)), bins - 1)
//
// where low <= x <= high, and in none else; nan is in none. This is torch.histc's formula. Each of its four operations
// is rounded to nearest, in double for double and in float else. The kernels keep it as it is written, with a quotient
// in place of a product with bins / (high - low): a number on an edge between two bins is then counted on the CPU, on
// a GPU and by the reference in the same one. No product is added to anything, so that no compiler can fuse the two.
//
// The least that must move: x is read once, sizeof(T) bytes an element. What bounds a histogram beside memory is atomic
// additions to one counter. Each block counts in shared memory, where it keeps several counters of each bin, up to one
// for each lane of a warp: lane by lane in different banks, which thus never wait for each other. More bins than fit
// are counted in global memory.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/vector.cuh>

inline constexpr int histogram_block = 512;
inline constexpr int histogram_shared_counters = 8192;  // 32 KiB: four such blocks fill a multiprocessor
inline constexpr int histogram_most_copies = 32;        // counters of a bin in a block: a warp's lanes, a bank each
inline constexpr int histogram_vectors_at_once = 2;     // loads in flight of each thread

// The range, and the number of bins, in the type that bins are computed in.
template <class C>
struct HistogramRange {
  C low, high, factor;

  // The bin of x, or -1. Of few bins it is an int: a GPU converts to 64 bits more slowly.
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

// use(x) of each element that is this thread's. The first `share.head` of them stand before the first vector.
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
  if (thread < share.rest)  // the first block has a thread for each
    use(C(x[thread < share.head ? thread : thread + share.vectors * Vector::size]));
}

// `copies` counters of each bin, a power of two. A block's counters are of 32 bits: 528 blocks of as many elements are
// more than any memory holds.
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
    // Neighbouring threads begin at different copies, which are in different banks.
    const int rotated = i * copies / histogram_most_copies;
    unsigned total = 0;
    for (int k = 0; k < copies; ++k) total += of_block[i * copies + (rotated + k) % copies];
    if (total > 0) count_globally(counts + i, total);
  }
}

// Of more bins than shared memory has counters.
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
