// What a port's library says of itself: its variables of thread storage, and where it is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trifold::host {

struct ThreadVariable {
  std::string name;  // "threadIdx", or that of a kernel's: "tile"
  bool shared;       // it is a kernel's, and none of the dialect's
  size_t offset;
  size_t bytes;
};

struct Range {
  uintptr_t begin, end;
};

// A __device__ or __constant__ variable, or one of the host's.
struct GlobalVariable {
  std::string name;
  Range place;
};

struct Module {
  std::vector<ThreadVariable> thread_variables;
  std::vector<GlobalVariable> globals;
  std::vector<Range>
      others;  // where it has anything else: code, constants, the variables of the dialect and of libraries
};

// The library that has this function. Read once a library.
const Module& module_of(const void* function);

}  // namespace trifold::host
