// The version of CUDA whose runtime API runtime_api.h has; in the forms in which programs ask for it. The compiler's
// own, which nvcc defines, are in program_macros.h.
#pragma once

#define CUDART_VERSION 13000
#define CUDA_VERSION CUDART_VERSION
