// What a port's library contains: its variables, and its place in memory.
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

namespace trifold::cpu {

struct ThreadVariable {
  std::string symbol;
  std::string name;      // "threadIdx", or a function's local variable: "tile"
  std::string function;  // the function that declares it; empty: none
  bool shared;           // a kernel's own, and not one of the dialect or of a library
  size_t offset;
  size_t bytes;
};

using Range = engine::ByteRange;

// A variable that is not per thread: in __device__ or __constant__ memory, or the port's.
struct GlobalVariable {
  std::string name;  // without its namespace
  Range place;
  bool constant;  // in __constant__ memory
};

struct Function {
  std::string symbol;
  uintptr_t offset;
};

struct Module {
  std::string path;  // absolute, without symbolic links
  std::vector<ThreadVariable> thread_variables;
  std::vector<Function> functions;
  uintptr_t base = 0;
  std::vector<GlobalVariable> globals;  // ordered by address
  std::vector<Range> segments;
  // The size of the shared arrays of each function and of those that it calls, in a checked build.
  std::map<const void*, size_t> shared_bytes;
  // The threads of a kernel's __launch_bounds__, by the beginning of the symbols of the function's local variables.
  std::map<std::string, const unsigned*, std::less<>> launch_bounds;
  // The extents of its __cluster_dims__, by the same key.
  std::map<std::string, const unsigned*, std::less<>> cluster_dims;

  // Null: no variable has this name.
  const GlobalVariable* global(std::string_view name) const;
};

// The address range of the instructions of the library that contains this function.
Range text_of(const void* function);

// The library that contains this function. Read once for each library.
const Module& module_of(const void* function);

// What a kernel's function declares for its launches.
struct Declared {
  size_t shared_bytes = 0;     // of its shared arrays; in a checked build, also of those of the functions that it calls
  unsigned launch_bounds = 0;  // threads in a block; 0: not declared
  dim3 cluster{0, 0, 0};       // blocks; zeros: no __cluster_dims__
};
// Read once for each function.
const Declared& declared_by(const void* function);

}  // namespace trifold::cpu
