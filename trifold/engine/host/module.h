// What a port's library says of itself: its variables, and where it is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace trifold::host {

struct ThreadVariable {
  std::string name;      // "threadIdx", or that of a function's own variable: "tile"
  std::string function;  // whose it is; empty: no function's
  size_t offset;
  size_t bytes;
};

struct Range {
  uintptr_t begin, end;

  bool operator==(const Range&) const = default;
};

struct Module {
  std::vector<ThreadVariable> thread_variables;
  std::set<std::string> globals;  // the names of its other variables
  std::vector<Range> segments;
};

// The library that has this function. Read once a library.
const Module& module_of(const void* function);

}  // namespace trifold::host
