// What a port's library says of itself: its variables of thread storage, and where it is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trifold::host {

struct ThreadVariable {
  std::string name;  // "threadIdx", or that of a function's own variable: "tile"
  bool in_function;
  size_t offset;
  size_t bytes;
};

struct Range {
  uintptr_t begin, end;
};

struct Module {
  std::vector<ThreadVariable> thread_variables;
  std::vector<Range> segments;
};

// The library that has this function. Read once a library.
const Module& module_of(const void* function);

}  // namespace trifold::host
