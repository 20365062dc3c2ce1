// A finding: the error in a kernel, where it is, and the accesses involved. The same record for both front ends;
// trifold/findings.py is its Python counterpart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model.h"

namespace trifold::engine {

enum class Kind : uint8_t {
  race,
  out_of_bounds,
  misaligned,
  uninitialised_read,
  barrier_divergence,
  warp_divergence,
  deadlock,
  barrier_misuse,  // of a barrier in shared memory
  lifetime,        // of a block's shared memory, accessed by other blocks of its cluster; of memory of a stream
  negative_index,  // a lint only: Numba wraps a negative index, C++ does not
};

enum class Severity : uint8_t { error, warning, lint };

// The memory of an array. Constant memory is checked for bounds and for writes by kernels.
enum class Space : uint8_t { global, shared, local, constant };

std::string_view name(Kind kind);          // "out-of-bounds"
std::string_view name(Severity severity);  // "error"
std::string_view name(Space space);        // "global"

// A line of the user's source.
struct Location {
  std::string file;  // empty: unknown
  int line = 0;
  std::string function;
  std::string source;             // the line itself without indentation; empty if it cannot be read
  std::vector<Location> callers;  // of that function, innermost first; these have no callers themselves

  bool is_same_line(const Location& other) const { return file == other.file && line == other.line; }
};

// The operation of an Access that is none: a launch of a kernel in a stream, which another one had to wait for.
inline constexpr std::string_view launched = "launch";

struct Access {
  Dim3 thread{0, 0, 0};
  Dim3 block{0, 0, 0};
  int64_t interval = -1;  // barriers that the block had passed; -1: unknown
  std::string operation;  // read, write, atomic, barrier, …
  Location location;
  std::string instruction = "";  // of an asynchronous operation that the thread started; empty: its own access
  std::string kernel = "";       // of an earlier launch, to which the thread belongs; empty: the finding's kernel
};

struct Finding {
  Kind kind = Kind::race;
  Severity severity = Severity::error;
  std::string kernel;
  std::string memory;  // name(Space); empty if no memory is involved, or it is unknown
  std::string array;   // as named in the kernel's source
  std::vector<int64_t> index;
  std::string message;           // the text of the finding, without the replay line
  std::vector<Access> accesses;  // the kernel that found it first
  uint64_t seed = 0;
  uint64_t count = 1;                 // how often the launch found it and continued
  std::string accepted, accepted_at;  // why the user accepts it, and where that is stated; empty: it is not accepted
};

// "thread (3, 0, 0) of block (1, 0, 0)", followed by ", interval 2," if `interval` is set and it is known.
std::string who(const Access& access, bool with_interval);
// "kernel.py:12 in reduce: total[0] += x[i]"
std::string where(const Location& location);
// "tile[3, 4]"
std::string element(std::string_view array, const std::vector<int64_t>& index);

// For a race: the access that found it, and the earlier one. Fills finding.message from the other fields.
void describe_race(Finding& finding);
// For an operation of the async proxy on what a thread has accessed, with no proxy fence between; or, as a warning,
// with only the issuer's fence.
void describe_missing_proxy_fence(Finding& finding);
// For two writes that left the same bits; it becomes a warning.
void describe_same_bits(Finding& finding);
// For a read of memory that nobody wrote.
void describe_uninitialised(Finding& finding);
// For an index outside an array's extents; axis is negative if the array has no axes.
void describe_out_of_bounds(Finding& finding, int axis, int64_t index, const std::vector<int64_t>& shape);
// For a write of constant memory.
void describe_constant_write(Finding& finding);
// For shared memory of this other block.
void describe_memory_of_another_block(Finding& finding, Dim3 block);
// For the bytes of a barrier in shared memory; the second access is its initialisation.
void describe_access_of_barrier(Finding& finding);
// For shared memory of another block of the cluster, which has ended or may not have begun.
void describe_lifetime(Finding& finding, Dim3 block, bool ended);
// The same for a block that ends although nothing makes it wait for the other's access.
void describe_exit_before_access(Finding& finding, Dim3 block);
// For a block that ends while an asynchronous operation uses its shared memory.
void describe_exit_before_operation(Finding& finding, Dim3 block);
// For an address that is near no array.
void describe_unknown_address(Finding& finding, uint64_t address);
// For memory that is viewed as a type whose alignment its address does not have.
void describe_misaligned(Finding& finding, std::string_view type, int64_t alignment, int64_t offset);
// The same for an asynchronous operation's address, and for its size.
void describe_misaligned_operation(Finding& finding, int64_t alignment, int64_t offset);
void describe_size_of_operation(Finding& finding, int64_t unit, int64_t bytes);
// For a copy to blocks that the cluster does not have.
void describe_ranks_outside(Finding& finding, uint32_t ranks, uint32_t blocks);
// For a negative index that wrapped.
void describe_negative_index(Finding& finding, int axis, int64_t index, const std::vector<int64_t>& shape);

std::string coordinates(Dim3 at);  // "(1, 0, 0)"

// The line that repeats a finding: "replay: --seed 7".
std::string replay(const Finding& finding);

// One JSON object, keys as in trifold/findings.py.
std::string to_json(const Finding& finding);

}  // namespace trifold::engine
