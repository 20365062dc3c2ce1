#include "stream_findings.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/tolerance.h"
#include "device_memory.h"
#include "program_report.h"
#include "report.h"
#include "sites.h"

namespace trifold::cpu {
namespace {

std::string_view verb(Doer doer, Way way) {
  if (doer == Doer::allocation) return "allocates it";
  if (doer == Doer::release || doer == Doer::host_release) return "frees it";
  constexpr std::string_view verbs[] = {"reads it", "writes it", "has an atomic on it", "has an atomic on it"};
  return verbs[static_cast<size_t>(way)];
}

std::string_view operation_of(Doer doer, Way way) {
  if (doer == Doer::allocation) return "allocation";
  if (doer == Doer::release || doer == Doer::host_release) return "free";
  return way == Way::read ? "read" : way == Way::write ? "write" : "atomic";
}

std::string_view name_of(Doer doer) {
  constexpr std::string_view names[] = {"the kernel",    "the copy", "the memset",       "cudaMallocAsync",
                                        "cudaFreeAsync", "cudaFree", "the host function"};
  return names[static_cast<size_t>(doer)];
}

engine::Location location_of_call(Line line) {
  return {line.file == nullptr ? "" : line.file, line.line, "", "", {}};
}

engine::Access access_of(const KeptOperation& operation, Way way, engine::Site site) {
  engine::Access access;
  access.operation = operation_of(operation.doer, way);
  access.location = site != 0 ? location_of(site) : location_of_call(operation.line);
  access.kernel = operation.kernel;
  return access;
}

// "the kernel scale, launched at main.cu:20 in stream 1, writes it at main.cu:7 in scale (…)"
std::string clause(const KeptOperation& operation, Way way, const engine::Location& at) {
  const std::string does(verb(operation.doer, way));
  if (operation.doer == Doer::host && operation.moment == of_host)
    return "the program's host code " + does + " at " + (at.line == 0 ? "an unknown line" : engine::where(at));
  const bool is_node = operation.graph.file != nullptr;
  const std::string of_graph = is_node ? " as a node of the graph launched at " + place(operation.graph) : "";
  const std::string in =
      operation.moment == of_host ? "" : of_graph + " in " + describe_stream(operation.moment.stream);
  const std::string called(name_of(operation.doer));
  if (operation.doer == Doer::kernel)
    return called + " " + operation.kernel + ", launched at " + place(operation.line) + in + ", " + does + " at " +
           engine::where(at);
  if (operation.doer == Doer::host)
    return called + " of " + place(operation.line) + in + " " + does + " at " + engine::where(at);
  return called + " at " + place(operation.line) + in + " " + does;
}

// "bytes 0 to 63 of d_x, 64 bytes of the device made at main.cu:12"
std::string bytes_of(const Conflict& conflict, const Described& memory) {
  const std::string first = std::to_string(conflict.begin - memory.begin);
  const bool one = conflict.end - conflict.begin == 1;
  return (one ? "byte " + first : "bytes " + first + " to " + std::to_string(conflict.end - 1 - memory.begin)) +
         " of " + memory.description;
}

std::string remedy_for_host(const KeptOperation& later) {
  if (later.doer == Doer::host_release)
    return "cudaFree does not wait for the streams that use memory of cudaMallocAsync: call cudaStreamSynchronize "
           "before, or free it by cudaFreeAsync in a stream that comes after its last use.";
  return "A call that only adds work to a stream returns before the work is done: call cudaStreamSynchronize, "
         "cudaDeviceSynchronize, or cudaEventSynchronize for an event that is recorded after it, before the host uses "
         "the memory.";
}

std::string remedy(const KeptOperation& later, const KeptOperation& earlier) {
  if (later.moment == of_host) return remedy_for_host(later);
  if (later.moment == earlier.moment)
    return "Add a dependency to the graph or, in a capture, an event that the stream of the first records and that of "
           "the second waits for.";
  const uint32_t own = later.moment.stream, other = earlier.moment.stream;
  std::string text = ignore_each_other(own, other) ? "A stream made with cudaStreamNonBlocking does not wait for the "
                                                     "default stream, and that does not wait for it."
                                                   : describe_last_wait(own, earlier.moment, earlier.call);
  if (!text.empty()) text += ' ';
  if (earlier.doer == Doer::allocation)
    return text +
           "Memory of cudaMallocAsync may be used in another stream once that has waited for an event recorded "
           "after the call (cudaEventRecord, cudaStreamWaitEvent), or once the host has waited.";
  return text + "Record an event in " + describe_stream(other) + " after its operation (cudaEventRecord), and let " +
         describe_stream(own) + " wait for it before its own (cudaStreamWaitEvent); or use one stream for both.";
}

// Reports a finding, once for its lines and array.
void tell(engine::Finding finding) {
  static std::set<std::string> told;
  std::string key = finding.array;
  for (const engine::Access& access : finding.accesses)
    key += '\t' + access.location.file + ':' + std::to_string(access.location.line);
  if (!told.insert(key).second) return;
  if (const engine::Acceptance* const acceptance = policy().accepting(finding)) {
    finding.accepted = acceptance->reason;
    finding.accepted_at = acceptance->place;
  }
  tell_findings(engine::to_json(finding) + '\n');
}

}  // namespace

void report_conflict(const KeptOperation& later, const KeptOperation& earlier, const Conflict& conflict,
                     const engine::Location& at) {
  const Described memory = describe_memory(conflict.begin);
  const bool lifetime =
      later.doer == Doer::release || later.doer == Doer::host_release || earlier.doer == Doer::allocation;
  engine::Finding finding;
  finding.kind = lifetime ? engine::Kind::lifetime : engine::Kind::race;
  finding.kernel = later.kernel;
  finding.memory = engine::name(engine::Space::global);
  finding.array = memory.name;
  finding.seed = program_options().seed;
  finding.accesses = {access_of(later, conflict.later, conflict.later_site),
                      access_of(earlier, conflict.earlier, conflict.earlier_site)};
  finding.accesses[0].kernel = "";
  if (at.line != 0) finding.accesses[0].location = at;
  // Kernels are launched in several streams: the launches are the places to order.
  for (const KeptOperation* const kernel : {&later, &earlier}) {
    if (kernel->doer != Doer::kernel) continue;
    engine::Access launch;
    launch.operation = engine::launched;
    launch.location = location_of_call(kernel->line);
    if (kernel == &earlier) launch.kernel = kernel->kernel;
    finding.accesses.push_back(launch);
  }
  const bool of_host = later.moment == trifold::cpu::of_host;
  std::string making;
  for (const uint32_t stream :
       std::set<uint32_t>{of_host ? earlier.moment.stream : later.moment.stream, earlier.moment.stream})
    making += describe_making(stream);
  finding.message = std::string(engine::name(finding.kind)) + (lifetime ? " of " : " on ") +
                    (memory.name.empty() ? "memory" : memory.name) + " between " +
                    (of_host                          ? "the host and a stream"
                     : later.moment == earlier.moment ? "nodes of a graph"
                                                      : "streams") +
                    ": " + clause(later, conflict.later, finding.accesses[0].location) + ", and " +
                    clause(earlier, conflict.earlier, finding.accesses[1].location) +
                    "; nothing makes the one wait for the other.\nBoth use " + bytes_of(conflict, memory) + "." +
                    making + " " + remedy(later, earlier);
  tell(std::move(finding));
}

}  // namespace trifold::cpu
