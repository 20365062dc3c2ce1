#include "finding.h"

#include <algorithm>
#include <cstdio>

namespace trifold::engine {
namespace {

std::string coordinates(Dim3 at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

// "writes tile[3]": the operation as a verb.
std::string verb(const std::string& operation) {
  if (operation == "atomic") return "has an atomic on it";
  return operation + "s it";
}

std::string memory_and_element(const Finding& finding) {
  return (finding.memory.empty() ? "" : finding.memory + " ") + "array element " +
         element(finding.array, finding.index);
}

// What would order the two accesses of a race.
std::string remedy(const Finding& finding) {
  const Access& later = finding.accesses[0];
  const Access& earlier = finding.accesses[1];
  const bool over_blocks = finding.memory == name(Space::shared) && later.block != earlier.block;
  if (finding.severity == Severity::warning) {
    return "volatile makes the compiler load and store, and no thread wait: put a syncwarp (or a syncthreads) between "
           "the two. Where one thread is to wait for the other's write, let it read until it sees it.";
  }
  const bool one_atomic = (later.operation == "atomic") != (earlier.operation == "atomic");
  if (one_atomic) {
    const bool reads = later.operation == "read" || earlier.operation == "read";
    return "An atomic is ordered with other atomics only: make both atomic, or put a " +
           std::string(later.block == earlier.block ? "syncthreads"
                       : over_blocks                ? "barrier of the cluster"
                                                    : "launch boundary") +
           " between the two." +
           (reads ? " A plain read is right beside atomics only where the thread's next access there is a "
                    "compare-and-swap of what it read."
                  : "");
  }
  if (later.operation == "atomic" && earlier.operation == "atomic") {
    return "An atomic of block scope is one for the threads of its own block only: use the form without _block.";
  }
  if (later.block == earlier.block) {
    return later.location.file == earlier.location.file && later.location.line == earlier.location.line
               ? "Give each thread an element of its own, use an atomic, or let one thread do it."
               : "Put a syncthreads between the two lines (or syncwarp, if both threads are of one warp).";
  }
  if (over_blocks)
    return "Put a barrier of the cluster (cluster.sync()) between the two lines: an arrival that is not relaxed after "
           "the first, and the wait before the second.";
  return "Blocks of one launch run in any order: use an atomic, give each block elements of its own, or split the "
         "kernel in two launches. A flag between blocks wants write, threadfence, atomic on the flag, and an atomic "
         "to read it.";
}

// "race on shared array element x[0] in kernel k: … writes it at …, and … writes it at …. Nothing orders the two"
std::string two_accesses(const Finding& finding) {
  const Access& later = finding.accesses[0];
  const Access& earlier = finding.accesses[1];
  const bool one_block = later.block == earlier.block;
  return "race on " + memory_and_element(finding) + " in kernel " + finding.kernel + ": " + who(earlier, true) + " " +
         verb(earlier.operation) + " at " + where(earlier.location) + ", and " + who(later, true) + " " +
         verb(later.operation) + " at " + where(later.location) + ". Nothing orders the two" +
         (one_block ? "" : ", they are of different blocks");
}

void append_json(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_key(std::string& out, std::string_view key) {
  if (out.back() != '{') out += ", ";
  append_json(out, key);
  out += ": ";
}

void append_field(std::string& out, std::string_view key, std::string_view text) {
  append_key(out, key);
  append_json(out, text);
}

void append_dim(std::string& out, std::string_view key, Dim3 at) {
  append_key(out, key);
  out += "[" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + "]";
}

void append_access(std::string& out, const Access& access) {
  out += '{';
  append_dim(out, "thread", access.thread);
  append_dim(out, "block", access.block);
  append_key(out, "interval");
  out += access.interval < 0 ? "null" : std::to_string(access.interval);
  append_field(out, "operation", access.operation);
  append_field(out, "file", access.location.file);
  append_key(out, "line");
  out += std::to_string(access.location.line);
  append_field(out, "function", access.location.function);
  out += '}';
}

}  // namespace

std::string_view name(Kind kind) {
  constexpr std::string_view names[] = {
      "race",     "out-of-bounds",  "misaligned", "uninitialised read", "barrier divergence", "warp divergence",
      "deadlock", "barrier misuse", "lifetime",   "negative index"};
  return names[static_cast<int>(kind)];
}

std::string_view name(Severity severity) {
  constexpr std::string_view names[] = {"error", "warning", "lint"};
  return names[static_cast<int>(severity)];
}

std::string_view name(Space space) {
  constexpr std::string_view names[] = {"global", "shared", "local", "constant"};
  return names[static_cast<int>(space)];
}

std::string who(const Access& access, bool with_interval) {
  std::string text = "thread " + coordinates(access.thread) + " of block " + coordinates(access.block);
  if (with_interval && access.interval >= 0) text += ", barrier interval " + std::to_string(access.interval) + ",";
  return text;
}

std::string where(const Location& location) {
  if (location.file.empty()) return "an unknown line";
  std::string text(file_name(location.file));
  text += ":" + std::to_string(location.line);
  if (!location.function.empty()) text += " in " + location.function;
  if (!location.source.empty()) text += " (" + location.source + ")";
  return text;
}

std::string element(std::string_view array, const std::vector<int64_t>& index) {
  std::string text(array.empty() ? "an array" : array);
  text += '[';
  for (size_t i = 0; i < index.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(index[i]);
  return text + (index.empty() ? "()]" : "]");
}

void describe_race(Finding& finding) {
  finding.message = two_accesses(finding) + ": which comes first can change from run to run. " + remedy(finding);
}

void describe_same_bits(Finding& finding) {
  finding.severity = Severity::warning;
  finding.message = two_accesses(finding) +
                    ", but both wrote the same value: whichever comes first, memory is the same. CUDA C++ calls that a "
                    "data race all the same, and with another value it is a mistake: let one thread write it, or use "
                    "an atomic.";
}

void describe_uninitialised(Finding& finding) {
  const Access& access = finding.accesses[0];
  std::string why = "Memory made without values holds whatever was there before: write each element before it is read.";
  if (finding.memory == "shared") {
    why =
        "Shared memory holds whatever was there before a block: write each element before it is read, and where "
        "another thread writes it, put a syncthreads between the write and this read.";
  } else if (finding.memory == "local") {
    why = "Local memory holds whatever was there before: write each element before it is read.";
  }
  finding.message = "uninitialised read of " + memory_and_element(finding) + " in kernel " + finding.kernel + ": " +
                    who(access, false) + " reads it at " + where(access.location) +
                    ", but nobody has written it yet. " + why;
}

void describe_out_of_bounds(Finding& finding, int axis, int64_t index, const std::vector<int64_t>& shape) {
  const Access& access = finding.accesses[0];
  std::string rule;
  if (axis >= 0 && axis < static_cast<int>(shape.size())) {
    const int64_t extent = shape[static_cast<size_t>(axis)];
    rule = "index " + std::to_string(index) + " is out of bounds for axis " + std::to_string(axis) + " with size " +
           std::to_string(extent) + " (shape " + shape_text(shape) + ")";
  } else {
    rule = "index " + std::to_string(index) + " is out of bounds (shape " + shape_text(shape) + ")";
  }
  finding.message = "out-of-bounds " + access.operation + " of " + memory_and_element(finding) + " in kernel " +
                    finding.kernel + ": " + rule + ", by " + who(access, false) + " at " + where(access.location) +
                    ". The access did not happen. Guard it with a comparison of the index and the size.";
}

void describe_constant_write(Finding& finding) {
  const Access& access = finding.accesses[0];
  finding.message = "out-of-bounds " + access.operation + " of " + memory_and_element(finding) + " in kernel " +
                    finding.kernel + ": constant memory is for kernels to read only, by " + who(access, false) +
                    " at " + where(access.location) +
                    ". The access did not happen. Make it a __device__ variable, or let the host write it.";
}

void describe_memory_of_another_block(Finding& finding, Dim3 block) {
  const Access& access = finding.accesses[0];
  finding.message = "out-of-bounds " + access.operation + " of " + memory_and_element(finding) + " in kernel " +
                    finding.kernel + ": it is shared memory of block " + coordinates(block) +
                    ", and a block may touch its own only, by " + who(access, false) + " at " + where(access.location) +
                    ". The access did not happen. Pass the value on in global memory, not its address.";
}

void describe_access_of_barrier(Finding& finding) {
  const Access& access = finding.accesses[0];
  const Access& initialised = finding.accesses[1];
  finding.message = "barrier misuse of " + memory_and_element(finding) + " in kernel " + finding.kernel + ": " +
                    who(access, true) + " " + verb(access.operation) + " at " + where(access.location) +
                    ", but it is an mbarrier, which " + who(initialised, false) + " has initialised at " +
                    where(initialised.location) +
                    " and nobody has invalidated. Its bytes are for the operations of mbarrier only: keep the data "
                    "elsewhere, or let mbarrier.inval and a syncthreads come before that.";
}

void describe_lifetime(Finding& finding, Dim3 block, bool ended) {
  const Access& access = finding.accesses[0];
  finding.message =
      "lifetime of " + memory_and_element(finding) + " in kernel " + finding.kernel + ": " + who(access, false) + " " +
      verb(access.operation) + " at " + where(access.location) + ", but it is shared memory of block " +
      coordinates(block) +
      (ended ? ", which has exited, and its shared memory with it. The access did not happen. Put a barrier of the "
               "cluster (cluster.sync()) between the last access to another block's shared memory and the end of the "
               "kernel: no block exits before the others are done."
             : ", and nothing says that this block has begun. The access did not happen. The blocks of a cluster are "
               "resident together, but may begin one after the other: put a barrier of the cluster (cluster.sync()) "
               "before the first access to another block's shared memory.");
}

void describe_exit_before_access(Finding& finding, Dim3 block) {
  const Access& access = finding.accesses[0];
  finding.message = "lifetime of shared memory in kernel " + finding.kernel + ": " + who(access, false) + " " +
                    access.operation + "s shared memory of block " + coordinates(block) + " at " +
                    where(access.location) + ", but block " + coordinates(block) +
                    " exits without waiting for that, and its shared memory ends with it. Put a barrier of the cluster "
                    "(cluster.sync()) between the last access to another block's shared memory and the end of the "
                    "kernel: no block exits before the others are done.";
}

void describe_unknown_address(Finding& finding, uint64_t address) {
  const Access& access = finding.accesses[0];
  char number[24];
  snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(address));
  const std::string what = address < 4096 ? "a null pointer, or an index from one" : "no argument and no array is near";
  finding.message = "out-of-bounds " + access.operation + " of address " + number + " in kernel " + finding.kernel +
                    ": " + what + ", by " + who(access, false) + " at " + where(access.location) +
                    ". The access did not happen. Look at how the pointer and the index are made.";
}

void describe_misaligned(Finding& finding, std::string_view type, int64_t alignment, int64_t offset) {
  const Access& access = finding.accesses[0];
  finding.message = "misaligned " + std::string(type) + " in " + finding.memory + " array " +
                    (finding.array.empty() ? "" : finding.array + " ") + "in kernel " + finding.kernel + ": " +
                    who(access, false) + " sees byte " + std::to_string(offset) + " of it as " + std::string(type) +
                    " at " + where(access.location) + ", but a GPU loads that type only from multiples of " +
                    std::to_string(alignment) + " bytes. Start the view at such a multiple.";
}

void describe_negative_index(Finding& finding, int axis, int64_t index, const std::vector<int64_t>& shape) {
  const Access& access = finding.accesses[0];
  finding.message = "negative index " + std::to_string(index) + " for axis " + std::to_string(axis) + " of " +
                    finding.memory + " array element " + element(finding.array, finding.index) + " (shape " +
                    shape_text(shape) + ") in kernel " + finding.kernel + ", by " + who(access, false) + " at " +
                    where(access.location) +
                    ". Numba counts it from the end; C++ would access memory before the array. Add the size.";
}

std::string replay(const Finding& finding) {
  return "replay: --seed " + std::to_string(finding.seed);
}

std::string to_json(const Finding& finding) {
  std::string out = "{";
  append_field(out, "kind", name(finding.kind));
  append_field(out, "severity", name(finding.severity));
  append_field(out, "kernel", finding.kernel);
  append_field(out, "memory", finding.memory);
  append_field(out, "array", finding.array);
  append_key(out, "index");
  out += '[';
  for (size_t i = 0; i < finding.index.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(finding.index[i]);
  out += ']';
  append_field(out, "message", finding.message);
  append_key(out, "accesses");
  out += '[';
  for (size_t i = 0; i < finding.accesses.size(); ++i) {
    if (i != 0) out += ", ";
    append_access(out, finding.accesses[i]);
  }
  out += ']';
  append_key(out, "seed");
  out += std::to_string(finding.seed);
  append_key(out, "count");
  out += std::to_string(finding.count);
  append_field(out, "accepted", finding.accepted);
  append_field(out, "accepted_at", finding.accepted_at);
  append_field(out, "replay", replay(finding));
  return out + "}";
}

}  // namespace trifold::engine
