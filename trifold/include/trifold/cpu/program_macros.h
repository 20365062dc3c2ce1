// Macros that nvcc predefines. Included only before a program's own text: headers that are included after this must not
// test these macros to detect nvcc.
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
#define CUDART_CB  // calling convention of callbacks

// Include guards of cuda_runtime.h and its headers, which nvcc includes before each program: headers that also serve
// programs without CUDA test them.
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
