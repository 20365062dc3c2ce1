// Functions for both sides, and a macro that differs, in a header of the program's own.
#pragma once

#ifdef __CUDACC__
#define BOTH __host__ __device__
#else
#define BOTH
#endif

#ifdef __CUDA_ARCH__
#define WIDTH 32
#else
#define WIDTH 8
#endif

BOTH inline int side() {
#if defined(__CUDA_ARCH__)
  return WIDTH + 1;
#else
  return WIDTH + 2;
#endif
}

struct Point {
  int x;
  BOTH Point(int x) : x(x) {
#ifdef __CUDA_ARCH__
    this->x += __CUDA_ARCH__;
#endif
  }
};
