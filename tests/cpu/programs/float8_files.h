// What the programs of 8-bit floats share: memory, and the files that their arguments name.
#pragma once

#include <cuda_fp8.h>

#include <vector>

#include "check.h"

constexpr int count8 = 256, count16 = 65536;

__host__ __device__ inline __nv_saturation_t saturation(int way) {
  return way % 2 == 0 ? __NV_NOSAT : __NV_SATFINITE;
}

template <class T>
T* managed(size_t count) {
  T* memory;
  CHECK(cudaMallocManaged(&memory, count * sizeof(T)));
  return memory;
}

// The doubles of a file, 65,536 at most, in managed memory.
inline double* read_numbers(const char* path, int& count) {
  std::vector<double> given(1 << 16);
  FILE* const file = fopen(path, "rb");
  count = static_cast<int>(fread(given.data(), sizeof(double), given.size(), file));
  fclose(file);
  double* const numbers = managed<double>(count);
  for (int i = 0; i < count; ++i) numbers[i] = given[i];
  return numbers;
}

// Writes the results, then the eight conversions of each number.
template <class Results>
void write_results(const char* path, const Results& results, const __nv_fp8_storage_t* of_numbers, int count) {
  FILE* const file = fopen(path, "wb");
  fwrite(&results, sizeof results, 1, file);
  fwrite(of_numbers, 8, count, file);
  fclose(file);
}
