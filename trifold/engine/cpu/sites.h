// Lines of C++ source: of waiting calls, by file and line; of memory accesses, by the instruction's address.
#pragma once

#include <trifold/cpu.h>

#include <array>
#include <string>
#include <vector>

#include "../core/finding.h"

namespace trifold::host {

// Before a launch, which knows no site yet: room for all that one kernel has.
void begin_sites();
engine::Site site_of_line(Line line);
engine::Site site_of_address(const void* return_address);

// The calls by which a kernel came to call the engine: their return addresses in the kernel's library, the innermost
// first. What is longer is cut.
using Calls = std::array<const void*, 8>;
engine::Site site_of_call(Line line, const Calls& calls);

// What a site stands for.
struct Place {
  const void* pointer = nullptr;  // a file's name, or an address where line is 0
  int line = 0;
  uint32_t calls = 0;  // the number of the Calls that led there; 0: they are not known

  bool operator==(const Place&) const = default;
};
Place place_of(engine::Site site);

// The kernel's line and, where that lies in a function that it calls, its callers' as far as they are known: of calls
// that are inlined, and of asynchronous operations. Frames of the dialect's own headers are not shown. Runs addr2line.
engine::Location location_of(engine::Site site);

// "add_kernel" of "void add_kernel<float>(float const*, …)".
std::string short_name(std::string name);

// What the source indexes with the brackets of which one is in this column: "tile", "tile[row]", "boxes[i].sides";
// empty where the source does not say. And whether that is what a plain assignment writes.
struct IndexedArray {
  std::string name;
  bool assigned = false;
};
IndexedArray array_indexed_at(const char* file, int line, int column);

// The names of the `count` parameters of the function that begins at this address, as its source has them; empty where
// the source cannot be read. Instances of one template are asked for once: overloads of it with as many parameters
// share their names.
std::vector<std::string> parameter_names(const void* function, std::string_view name, int count);

}  // namespace trifold::host
