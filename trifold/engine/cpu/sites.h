// Lines of C++ source: of waiting calls, by file and line; of memory accesses, by the instruction's address.
#pragma once

#include <trifold/cpu.h>

#include <array>
#include <string>
#include <vector>

#include "../core/finding.h"

namespace trifold::cpu {

// Called before a launch, which has no sites yet: makes room for all sites of one kernel.
void begin_sites();
engine::Site site_of_line(Line line);
engine::Site site_of_address(const void* return_address);

// The calls by which a kernel reached the engine: return addresses in the kernel's library, the innermost first. A
// longer list is truncated.
using Calls = std::array<const void*, 8>;
engine::Site site_of_call(Line line, const Calls& calls);

// The source of a site.
struct Place {
  const void* pointer = nullptr;  // a file's name, or an address if line is 0
  int line = 0;
  uint32_t calls = 0;  // the number of the Calls that led there; 0: unknown

  bool operator==(const Place&) const = default;
};
Place place_of(engine::Site site);

// The kernel's line and, if that is in a function that it calls, its callers' lines as far as they are known: of
// inlined calls, and of asynchronous operations. Frames in the dialect's own headers are left out. Runs addr2line.
engine::Location location_of(engine::Site site);

// The line that launches the running kernel of a program; and location_of, or this line where the kernel has none of
// the user's, as that of an algorithm of CUB or Thrust has.
void note_launch(Line line);
engine::Location location_or_launch(engine::Site site);

// "add_kernel" of "void add_kernel<float>(float const*, …)".
std::string short_name(std::string name);

// The expression that the source indexes at a bracket in this column: "tile", "tile[row]", "boxes[i].sides"; empty if
// the source does not show it. And whether a plain assignment writes the element.
struct IndexedArray {
  std::string name;
  bool assigned = false;
};
IndexedArray array_indexed_at(const char* file, int line, int column);

// The names of the `count` parameters of the function that begins at this address, from its source; empty if it cannot
// be read. Instances of one template are looked up once: overloads with as many parameters share their names.
std::vector<std::string> parameter_names(const void* function, std::string_view name, int count);

}  // namespace trifold::cpu
