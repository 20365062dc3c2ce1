#include "finding.h"

#include <algorithm>
#include <cstdio>

namespace trifold::engine {
namespace {

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

// "thread (3, 0, 0) of block (1, 0, 0) writes it at kernel.cu:12"
std::string clause(const Access& access, bool with_interval) {
  if (access.instruction.empty())
    return who(access, with_interval) + " " + verb(access.operation) + " at " + where(access.location);
  return "the " + access.instruction + " that " + who(access, false) + " starts at " + where(access.location) + " " +
         verb(access.operation);
}

// The ordering required between an asynchronous operation and a later access of the same memory.
std::string wait_for_operation(const Access& operation) {
  const std::string& instruction = operation.instruction;
  if (instruction == "cp.async")
    return "A cp.async is complete for its own thread once that has waited for its group (cp.async.wait_group, "
           "__pipeline_wait_prior), and for other threads after a syncthreads that comes after that wait; or for those "
           "that have waited for the mbarrier at which cp.async.mbarrier.arrive arrives.";
  if (instruction == "st.async" || instruction == "red.async")
    return "It is complete for those that have waited for the phase of the mbarrier that counts its bytes.";
  if (operation.operation == "read")
    return "The source of a bulk operation is free once the thread that started it has waited for its group "
           "(cp.async.bulk.wait_group, or .read, with a count that leaves no group of the source pending), and for "
           "other "
           "threads after a barrier that comes after that wait; or once the phase of the mbarrier is over that counts "
           "its bytes.";
  return "What a bulk operation writes is there once its thread has waited for its group (cp.async.bulk.wait_group "
         "without .read, which is for the source alone), or for those that have waited for the phase of the mbarrier "
         "that counts its bytes. What another block of the cluster does is ordered by waits and arrivals of scope "
         ".cluster alone: without one, a wait acquires at .cta.";
}

// The remedy that would order the two accesses of a race, at least one of which is an asynchronous operation's.
std::string remedy_of_operation(const Access& later, const Access& earlier) {
  if (!earlier.instruction.empty()) return wait_for_operation(earlier);
  return std::string(
             "An asynchronous operation begins when it is started: put a barrier, which both threads come to, "
             "between the line that ") +
         earlier.operation + "s and the one that starts it" +
         (later.instruction == "cp.async" ? "." : ", and the fences that order different proxies.");
}

// The remedy that would order the two accesses of a race.
std::string remedy(const Finding& finding) {
  const Access& later = finding.accesses[0];
  const Access& earlier = finding.accesses[1];
  if (!later.instruction.empty() || !earlier.instruction.empty()) return remedy_of_operation(later, earlier);
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

// "race on shared array element x[0] in kernel k: … writes it at …, and … writes it at …"
std::string two_accesses(const Finding& finding) {
  const Access& later = finding.accesses[0];
  const Access& earlier = finding.accesses[1];
  return "race on " + memory_and_element(finding) + " in kernel " + finding.kernel + ": " + clause(earlier, true) +
         ", and " + clause(later, true);
}

// For two kernels, of which the later may begin before the earlier has ended.
std::string remedy_of_dependent(const Finding& finding) {
  const Access& later = finding.accesses[0];
  return ", since " + finding.kernel + " is launched to begin before " + finding.accesses[1].kernel +
         " has ended (programmatic stream serialization) and has not waited for that: which comes first can change "
         "from run to run. Call cudaGridDependencySynchronize() (griddepcontrol.wait) in " +
         finding.kernel + " before it " + later.operation +
         "s what an earlier kernel uses, in each thread that does so, or before a barrier that comes between.";
}

std::string unordered_accesses(const Finding& finding) {
  if (!finding.accesses[1].kernel.empty()) return two_accesses(finding) + ". Nothing orders the two";
  const bool one_block = finding.accesses[0].block == finding.accesses[1].block;
  return two_accesses(finding) + ". Nothing orders the two" + (one_block ? "" : ", they are of different blocks");
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
  append_field(out, "instruction", access.instruction);
  append_field(out, "kernel", access.kernel);
  append_key(out, "callers");
  out += '[';
  for (const Location& caller : access.location.callers) {
    out += out.back() == '[' ? "{" : ", {";
    append_field(out, "file", caller.file);
    append_key(out, "line");
    out += std::to_string(caller.line);
    append_field(out, "function", caller.function);
    out += '}';
  }
  out += "]}";
}

}  // namespace

std::string coordinates(Dim3 at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

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
  if (!access.kernel.empty()) text += " of kernel " + access.kernel;
  if (with_interval && access.interval >= 0) text += ", barrier interval " + std::to_string(access.interval) + ",";
  return text;
}

std::string where(const Location& location) {
  if (location.file.empty()) return "an unknown line";
  std::string text(file_name(location.file));
  text += ":" + std::to_string(location.line);
  if (!location.function.empty()) text += " in " + location.function;
  if (!location.source.empty()) text += " (" + location.source + ")";
  for (const Location& caller : location.callers)
    text += (&caller == &location.callers.front() ? ", called at " : ", from ") + where(caller);
  return text;
}

std::string element(std::string_view array, const std::vector<int64_t>& index) {
  std::string text(array.empty() ? "an array" : array);
  text += '[';
  for (size_t i = 0; i < index.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(index[i]);
  return text + (index.empty() ? "()]" : "]");
}

void describe_race(Finding& finding) {
  if (!finding.accesses[1].kernel.empty()) {
    finding.message = unordered_accesses(finding) + remedy_of_dependent(finding);
    return;
  }
  finding.message = unordered_accesses(finding) + ": which comes first can change from run to run. " + remedy(finding);
}

void describe_missing_proxy_fence(Finding& finding) {
  const Access& earlier = finding.accesses[1];
  finding.message =
      two_accesses(finding) +
      (finding.severity == Severity::warning
           ? ". Only the thread that starts it fences between the generic proxy, of loads and stores, and the async "
             "proxy, of bulk operations. PTX does not say that this is enough: let each thread that "
           : ". The two are ordered, but not for the async proxy, through which bulk operations go: they may find "
             "memory "
             "as it was before, or be overtaken. Let each thread that ") +
      earlier.operation + "s it call fence.proxy.async after that, before the barrier that orders the two.";
}

void describe_same_bits(Finding& finding) {
  finding.severity = Severity::warning;
  finding.message = unordered_accesses(finding) +
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
                    clause(access, false) + ", but nobody has written it yet. " + why;
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
      "lifetime of " + memory_and_element(finding) + " in kernel " + finding.kernel + ": " + clause(access, false) +
      ", but it is shared memory of block " + coordinates(block) +
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

void describe_exit_before_operation(Finding& finding, Dim3 block) {
  const Access& access = finding.accesses[0];
  const bool reads = access.operation == "read";
  const bool own = access.block == block;
  const bool grouped = access.instruction.starts_with("cp.") && own;
  finding.message = "lifetime of shared memory in kernel " + finding.kernel + ": the " + access.instruction + " that " +
                    who(access, false) + " starts at " + where(access.location) + " " +
                    (reads ? "reads" : "writes or signals to") + " shared memory of block " + coordinates(block) +
                    ", but block " + coordinates(block) +
                    " exits without having waited for it, and its shared memory ends with it. " +
                    (grouped && reads ? "Wait by cp.async.bulk.wait_group.read 0, or for the mbarrier that counts its "
                                        "bytes, before the kernel ends."
                     : own ? "Wait for its group, or for the mbarrier that counts its bytes, before the kernel "
                             "ends."
                           : "Let the block wait for the mbarrier that counts the bytes before it ends, or put "
                             "a barrier of the cluster between that wait and the end of the kernel.");
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

void describe_misaligned_operation(Finding& finding, int64_t alignment, int64_t offset) {
  const Access& access = finding.accesses[0];
  finding.message = "misaligned " + access.instruction + " in kernel " + finding.kernel + ": " + who(access, false) +
                    " starts it at " + where(access.location) + ", and it " + access.operation + "s " + finding.memory +
                    " array " + (finding.array.empty() ? "" : finding.array + " ") + "from byte " +
                    std::to_string(offset) + " on, at an address that is no multiple of " + std::to_string(alignment) +
                    ". Align the array by __align__(" + std::to_string(alignment) +
                    "), and move whole pieces of so many bytes.";
}

void describe_size_of_operation(Finding& finding, int64_t unit, int64_t bytes) {
  const Access& access = finding.accesses[0];
  finding.message = "misaligned " + access.instruction + " in kernel " + finding.kernel + ": " + who(access, false) +
                    " starts it at " + where(access.location) + " with " + std::to_string(bytes) +
                    " bytes, and it moves only multiples of " + std::to_string(unit) +
                    ". Pad the row, or let threads copy what is left over.";
}

void describe_ranks_outside(Finding& finding, uint32_t ranks, uint32_t blocks) {
  const Access& access = finding.accesses[0];
  std::string numbers;
  for (uint32_t rank = blocks; rank < 32; ++rank)
    if ((ranks >> rank & 1) != 0) numbers += (numbers.empty() ? "" : ", ") + std::to_string(rank);
  finding.message = "out-of-bounds multicast in kernel " + finding.kernel + ": the mask of the " + access.instruction +
                    " that " + who(access, false) + " starts at " + where(access.location) + " names rank " + numbers +
                    " of the cluster, which has " + std::to_string(blocks) +
                    " blocks. These copies did not happen. Make the mask of the cluster's size: (1 << "
                    "cluster_nctarank) - 1 are all its blocks.";
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
