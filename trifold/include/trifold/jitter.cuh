// Pauses for the jittered build (trifold/build/jitter.py), which inserts them into kernels and headers; no file
// includes this one.
//
// A seed decides which warps, blocks and lanes are slow at which places of the source: one block of 16, one warp of 8,
// and half of the lanes of another warp of 8. They pause at each visit, all others at one visit of 64. A pause lasts up
// to about 1 µs; one of 32 lasts 16 times as long, so that other warps and blocks may advance to a later row. One block
// of 4 begins late by such a long pause: otherwise the blocks of a cluster begin together.
#pragma once

#include <cuda_runtime.h>

namespace trifold::jitter {

// 0: no pauses.
static __constant__ unsigned seed;

__device__ __forceinline__ unsigned mixed(unsigned a, unsigned b) {
  unsigned bits = a * 0x9e3779b9u + b;
  bits = (bits ^ bits >> 16) * 0x85ebca6bu;
  bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
  return bits ^ bits >> 16;
}

constexpr unsigned longest = 2047, times_as_long = 16;  // in clock cycles

__device__ __forceinline__ unsigned number_of_block(unsigned place) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  return mixed(mixed(seed, place), block);
}

// The length of a pause, in clock cycles. Not inlined: a kernel has hundreds of places, each of which is then one call.
static __device__ __noinline__ unsigned length_of_pause(unsigned place) {
  if (seed == 0) return 0;
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned of_block = number_of_block(place);
  const unsigned of_warp = mixed(of_block, thread / 32 + 1), of_lane = mixed(of_warp, thread % 32);
  const bool slow = of_block % 16 == 0 || of_warp % 8 == 0 || (of_warp % 8 == 1 && of_lane % 2 == 0);
  const unsigned of_visit = mixed(of_warp, static_cast<unsigned>(clock()));
  if (!slow && of_visit % 64 != 0) return 0;
  return (of_visit >> 8 & longest) * ((of_visit >> 19) % 32 == 0 ? times_as_long : 1);
}

// The delay of a block's start.
static __device__ __noinline__ unsigned length_before_block(unsigned place) {
  const unsigned of_block = number_of_block(~place);
  return seed != 0 && of_block % 4 == 0 ? (of_block >> 8 & longest) * times_as_long : 0;
}

// Polls the clock until the time is over. Inlined, so that all lanes of a warp reconverge after the loop. __nanosleep
// is not safe: on an H200 (nvcc 13.0), lanes that do not sleep continue past that point, and change uniform registers
// that the others use for addresses when they wake up. Nor is a loop in a called function, from which lanes return at
// different times.
__device__ __forceinline__ void spend(unsigned length) {
  if (length == 0) return;
  const unsigned begin = static_cast<unsigned>(clock());
  while (static_cast<unsigned>(clock()) - begin < length) {
  }
}

// `place` is the number of the place in the source. Does nothing on the host.
__host__ __device__ __forceinline__ void pause([[maybe_unused]] unsigned place) {
#ifdef __CUDA_ARCH__
  spend(length_of_pause(place));
#endif
}

// The same at the start of a kernel.
__device__ __forceinline__ void begin(unsigned place) {
  spend(length_before_block(place));
  pause(place);
}

// Pauses when constructed and when destroyed.
class Pauses {
 public:
  __host__ __device__ __forceinline__ explicit Pauses(unsigned place) : place_(place) { pause(place_); }
  __host__ __device__ __forceinline__ ~Pauses() { pause(~place_); }
  Pauses(const Pauses&) = delete;
  Pauses& operator=(const Pauses&) = delete;

 private:
  unsigned place_;
};

}  // namespace trifold::jitter

// Sets another seed on the current device, for later launches; waits for earlier ones. Returns CUDA's error.
extern "C" __attribute__((visibility("default"))) int trifold_set_jitter(unsigned seed) {
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) return error;
  return cudaMemcpyToSymbol(trifold::jitter::seed, &seed, sizeof seed);
}
