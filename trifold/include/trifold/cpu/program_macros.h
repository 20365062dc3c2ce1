// What nvcc defines for each program. Included in front of a program's own text, and nowhere else: what is included
// after this must not ask these macros whether nvcc compiles it.
#pragma once

#include <trifold/cpu/version.h>
#include <trifold/target.h>

#define __NVCC__
#define __CUDACC__
#define __CUDACC_VER_MAJOR__ (CUDART_VERSION / 1000)
#define __CUDACC_VER_MINOR__ (CUDART_VERSION % 1000 / 10)
#define __CUDACC_VER_BUILD__ 0
#define __CUDACC_EXTENDED_LAMBDA__
#define __CUDACC_RELAXED_CONSTEXPR__
#define CUDART_CB  // how functions that the runtime calls are called

// Of cuda_runtime.h and what it includes, which nvcc includes in front of each program: headers that serve programs
// without CUDA as well ask these.
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
