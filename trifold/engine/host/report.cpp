#include "report.h"

#include <string>
#include <utility>

#include "memory.h"

namespace trifold::host {
namespace {

thread_local uint64_t seed = 0;
thread_local std::string findings;  // JSON objects, a line each
thread_local std::string taken;

}  // namespace

void record(const engine::Finding& finding) {
  findings += engine::to_json(finding) + '\n';
}

uint64_t schedule_seed() {
  return seed;
}

}  // namespace trifold::host

// An op call begins: its launches follow this schedule, and know only the tensors that are noted from here on.
extern "C" [[gnu::visibility("default")]] void trifold_host_begin(uint64_t seed) {
  trifold::host::seed = seed;
  trifold::host::findings.clear();
  trifold::host::forget_tensors();
}

// What was found since, as JSON objects, a line each. The text lives until the next call on this OS thread.
extern "C" [[gnu::visibility("default")]] const char* trifold_host_findings() {
  trifold::host::taken = std::exchange(trifold::host::findings, {});
  return trifold::host::taken.c_str();
}
