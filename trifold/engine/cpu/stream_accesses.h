// What the operations of streams have accessed, and conflicts between those that nothing orders (stream_order.h).
//
// Copies, memsets and allocations state their bytes; a kernel's are taken from its shadow memory when it has ended.
// They are kept, as ranges of bytes with the line that accessed them, until the host has waited for their operation:
// then every later operation comes after it. A new operation is compared with the kept ones that are not ordered before
// it. Two accesses of one byte conflict if one of them writes and they are not both atomic.
//
// Pages of pinned and managed memory that a kept operation accessed are protected from the host, whose own access is
// compared when it faults (program_report.cpp). An access of other bytes of the page is stepped over. A system call
// that is given bytes of such a page fails with EFAULT.
//
// A program that uses only the default stream and has no such memory pays for copies and memsets alone: kernels' shadow
// memory is not looked at until the program has made a stream. At most `most_kept` operations are kept.
#pragma once

#include <trifold/cpu/program.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../core/shadow.h"
#include "stream_order.h"

namespace trifold::cpu {

inline constexpr size_t most_kept = 1024;               // operations
inline constexpr size_t most_ranges = size_t{1} << 22;  // of all of them

enum class Way : uint8_t { read, write, atomic, atomic_read };
inline constexpr std::array ways{Way::read, Way::write, Way::atomic, Way::atomic_read};

constexpr bool conflict(Way one, Way other) {
  const auto writes = [](Way way) { return way == Way::write || way == Way::atomic; };
  const auto is_atomic = [](Way way) { return way == Way::atomic || way == Way::atomic_read; };
  return (writes(one) || writes(other)) && !(is_atomic(one) && is_atomic(other));
}

// Bytes that were accessed at one line of a kernel (site 0: by something else).
struct AccessedRange {
  uintptr_t begin, end;
  engine::Site site;
};

// Ranges by the way of the access, each list disjoint and in the order of addresses.
class Accesses {
 public:
  void add(Way way, AccessedRange range);  // not before those that were added
  // What a launch did to a cell of its shadow memory.
  void add(const engine::ByteRange& bytes, const engine::Cell& cell);
  const std::vector<AccessedRange>& of(Way way) const { return ranges_[static_cast<size_t>(way)]; }
  size_t size() const;

 private:
  std::array<std::vector<AccessedRange>, ways.size()> ranges_;
};

enum class Doer : uint8_t { kernel, copy, fill, allocation, release, host_release, host };

// Of host code that is no operation of a stream.
inline constexpr Moment of_host{~uint32_t{0}, 0};

using FindLine = std::function<engine::Location()>;

// An operation with its accesses.
struct KeptOperation {
  Moment moment;
  uint64_t call = 0;  // its place in the order of calls
  uint32_t node = 0;
  Doer doer = Doer::kernel;
  std::string kernel = "";
  Line line{nullptr, 0};      // of the call
  Line graph{nullptr, 0};     // of the launch of the graph whose node it is
  bool reaches_host = false;  // as RunningOperation's
  Accesses accesses{};
};

// Bytes that two operations have accessed, and how.
struct Conflict {
  uintptr_t begin, end;
  Way later, earlier;
  engine::Site later_site, earlier_site;
};

// Whether the calling thread executes an operation of a program that is checked. Without one, what follows does
// nothing.
bool accesses_count();
void note_copied_rows(const void* to, size_t to_pitch, const void* from, const Rectangle& shape, Line line);
void note_copied_variable(const void* variable, const void* other, size_t count, bool to_variable, Line line);
void note_filled_rows(const void* to, const Rectangle& shape, Line line);
void note_allocation(const void* memory, size_t bytes, Doer doer, Line line);
// The running kernel's: replaces those under an earlier schedule of the launch, until it is kept.
void note_kernel(Accesses accesses);
void keep_kernel(const std::string& kernel, Line line);
// The name of a variable of the device that a kernel has accessed.
void note_variable(uintptr_t begin, uintptr_t end, const std::string& name);

// The host frees memory of cudaMallocAsync, which does not wait.
void note_host_frees(const void* memory, size_t bytes, Line line);
// The host's code accesses a byte at the line that find_line() returns. Conflicts are reported.
void note_host_access(uintptr_t address, bool writes, const FindLine& find_line);
// The address of the atomic or volatile access that the host's code makes on this OS thread now; 0: none.
inline thread_local uintptr_t host_atomic = 0;

// The accesses of memory in [begin, end) that may not have ended for the host: whether they write.
struct Flight {
  AccessedRange range;
  bool writes;
};
std::vector<Flight> flights(uintptr_t begin, uintptr_t end);
// The host has waited: what has ended for it is compared with nothing any more, and its pages are open again.
void forget_accesses_that_ended();

// The variable in these bytes and its description: "d_x", "d_x, 4096 bytes of the device made at main.cu:12".
struct Described {
  std::string name, description;
  uintptr_t begin;
};
Described describe_memory(uintptr_t address);

}  // namespace trifold::cpu
