#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                         \
  do {                                                                                                      \
    const cudaError_t status = (call);                                                                      \
    if (status != cudaSuccess) {                                                                            \
      fprintf(stderr, "%s failed at %s:%d: %s (%s)\n", #call, __FILE__, __LINE__, cudaGetErrorName(status), \
              cudaGetErrorString(status));                                                                  \
      exit(3);                                                                                              \
    }                                                                                                       \
  } while (0)
