#include "report.h"

#include <string>
#include <utility>

#include "../core/per_thread.h"
#include "earlier_grid.h"
#include "memory.h"

namespace trifold::cpu {
namespace {

thread_local uint64_t seed = 0;
thread_local engine::PerThread<std::string> findings;  // JSON objects, a line each
thread_local engine::PerThread<std::string> taken;

}  // namespace

void record(const engine::Finding& finding) {
  *findings += engine::to_json(finding) + '\n';
}

uint64_t schedule_seed() {
  return seed;
}

engine::Policy& policy() {
  static engine::Policy of_this_process;
  return of_this_process;
}

void begin_call(uint64_t chosen) {
  seed = chosen;
  findings->clear();
  forget_tensors();
}

std::string take_findings() {
  return std::exchange(*findings, {});
}

}  // namespace trifold::cpu

extern "C" [[gnu::visibility("default")]] void trifold_cpu_begin(uint64_t seed) {
  trifold::cpu::forget_earlier_grid();
  trifold::cpu::begin_call(seed);
}

// Sets the findings after which launches continue, in the form of engine::Policy::accept().
extern "C" [[gnu::visibility("default")]] void trifold_cpu_accept(const char* lines) {
  trifold::cpu::policy().accept(lines);
}

// The text is valid until the next call on this OS thread.
extern "C" [[gnu::visibility("default")]] const char* trifold_cpu_findings() {
  *trifold::cpu::taken = trifold::cpu::take_findings();
  return trifold::cpu::taken->c_str();
}

// Notes that these bytes were allocated and not written; and that earlier notes on such bytes are void.
extern "C" [[gnu::visibility("default")]] void trifold_cpu_note_fresh(const void* begin, size_t bytes,
                                                                      size_t element_bytes) {
  trifold::cpu::note_fresh(begin, bytes, element_bytes);
}
extern "C" [[gnu::visibility("default")]] void trifold_cpu_forget_fresh() {
  trifold::cpu::forget_fresh();
}

// Notes that an array in these bytes will be a kernel's argument.
extern "C" [[gnu::visibility("default")]] void trifold_cpu_note(const void* begin, size_t bytes) {
  trifold::cpu::note_tensor(begin, bytes);
}
