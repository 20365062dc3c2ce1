// The target of the compilation. Test these macros instead of CUDA's own, which are also defined when g++ compiles for
// the CPU, since programs use them to test for features of CUDA.
//
//   TRIFOLD_CPU        g++ compiles the kernels, for the CPU.
//   TRIFOLD_GPU_ARCH   nvcc compiles device code, for a GPU of this architecture: 900.
//   TRIFOLD_GPU_PATHS  host code chooses among a port's kernels as for a GPU: under nvcc, and under g++ with
//                      TRIFOLD_PATHS=gpu, where its value is the architecture of that GPU.
#pragma once

#ifndef __CUDACC__
#define TRIFOLD_CPU
#elif defined(__CUDA_ARCH__)
#define TRIFOLD_GPU_ARCH __CUDA_ARCH__
#endif
#ifdef __CUDACC__
#define TRIFOLD_GPU_PATHS
#endif
