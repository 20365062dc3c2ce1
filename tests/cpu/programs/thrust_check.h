// Compares results of Thrust with what they must be.
#pragma once

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <cstdio>
#include <vector>

inline int failures = 0;

template <class Vector, class T = typename Vector::value_type>
void expect(int line, const Vector& found, std::vector<T> wanted) {
  const thrust::host_vector<T> values(found.begin(), found.end());
  bool same = values.size() == wanted.size();
  for (size_t i = 0; same && i < wanted.size(); ++i) same = values[i] == wanted[i];
  if (same) return;
  ++failures;
  std::printf("line %d:", line);
  for (const T& value : values) std::printf(" %g", static_cast<double>(value));
  std::printf("\n");
}
inline void expect(int line, bool right) {
  if (!right) std::printf("line %d\n", line);
  failures += !right;
}

#define EXPECT(...) expect(__LINE__, __VA_ARGS__)
