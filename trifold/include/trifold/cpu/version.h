// The version of CUDA that runtime_api.h implements, in the forms in which programs test it. The compiler's own macros,
// which nvcc defines, are in program_macros.h.
#pragma once

#define CUDART_VERSION 13000
#define CUDA_VERSION CUDART_VERSION
