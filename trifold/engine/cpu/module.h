// What a port's library says of itself: its variables, and where it is loaded.
#pragma once

#include <trifold/cpu.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "../core/shadow.h"

namespace trifold::host {

struct ThreadVariable {
  std::string symbol;
  std::string name;      // "threadIdx", or that of a function's own variable: "tile"
  std::string function;  // whose it is; empty: no function's
  bool shared;           // it is a kernel's, and none of the dialect's or of a library's
  size_t offset;
  size_t bytes;
};

using Range = engine::ByteRange;

// A variable that is no thread's own: of __device__ or __constant__ memory, or the port's.
struct GlobalVariable {
  std::string name;  // without its namespace
  Range place;
  bool constant;  // of __constant__ memory
};

struct Function {
  std::string symbol;
  uintptr_t offset;
};

struct Module {
  std::string path;  // with no link in it
  std::vector<ThreadVariable> thread_variables;
  std::vector<Function> functions;
  uintptr_t base = 0;
  std::vector<GlobalVariable> globals;  // in the order of their addresses
  std::vector<Range> segments;
  // What their shared arrays take, and those of the functions that they call: as built with checks.
  std::map<const void*, size_t> shared_bytes;
  // The threads of a kernel's __launch_bounds__, by how its function's symbol begins those of its own variables.
  std::map<std::string, const unsigned*, std::less<>> launch_bounds;
  // The extents of its __cluster_dims__, by the same.
  std::map<std::string, const unsigned*, std::less<>> cluster_dims;

  // Null: none has this name.
  const GlobalVariable* global(std::string_view name) const;
};

// The instructions of the library that has this function.
Range text_of(const void* function);

// The library that has this function. Read once a library.
const Module& module_of(const void* function);

// What a kernel's function declares of its launches.
struct Declared {
  size_t shared_bytes = 0;     // of its shared arrays; as built with checks, also of those of the functions it calls
  unsigned launch_bounds = 0;  // threads in a block; 0: it has none
  dim3 cluster{0, 0, 0};       // blocks; zeros: it has no __cluster_dims__
};
// Read once a function.
const Declared& declared_by(const void* function);

}  // namespace trifold::host
