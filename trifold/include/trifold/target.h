// For what the including file is compiled. Ask these macros, and not CUDA's own: where the CPU stands for a GPU, these
// are defined as well, since programs ask them which of CUDA's features there are.
//
//   TRIFOLD_CPU        g++ compiles the kernels, for the CPU.
//   TRIFOLD_GPU_ARCH   nvcc compiles device code, for a GPU of this architecture: 900.
//   TRIFOLD_GPU_PATHS  host code chooses among a port's kernels as for a GPU: under nvcc, and under g++ where
//                      TRIFOLD_PATHS=gpu asks for it, whose build then gives the architecture of that GPU.
#pragma once

#ifndef __CUDACC__
#define TRIFOLD_CPU
#elif defined(__CUDA_ARCH__)
#define TRIFOLD_GPU_ARCH __CUDA_ARCH__
#endif
#ifdef __CUDACC__
#define TRIFOLD_GPU_PATHS
#endif
