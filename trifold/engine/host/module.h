// What a port's library says of itself: its variables of thread storage, and where it is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trifold::host {

struct ThreadVariable {
  std::string symbol;
  std::string name;  // "threadIdx", or that of a function's own variable: "tile"
  bool in_function;
  size_t offset;
  size_t bytes;
};

struct Range {
  uintptr_t begin, end;
};

struct Function {
  std::string symbol;
  uintptr_t offset;
};

struct Module {
  std::vector<ThreadVariable> thread_variables;
  std::vector<Function> functions;
  uintptr_t base = 0;
  std::vector<Range> segments;
};

// The instructions of the library that has this function.
Range text_of(const void* function);

// The library that has this function. Read once a library.
const Module& module_of(const void* function);

// What the shared arrays take that this function itself declares, not one that it calls. Read once a function.
size_t static_shared_bytes(const void* function);

}  // namespace trifold::host
