#include "writes.h"

#include <mutex>
#include <string>

#include "../core/writes.h"
#include "module.h"

namespace trifold::cpu {
namespace {

std::mutex mutex;  // protects both
engine::WriteLog writes;
std::string library;  // the library whose kernels count; empty: all count

}  // namespace

void log_writes(const Kernel& kernel, const CheckedMemory& memory) {
  const std::lock_guard<std::mutex> locked(mutex);
  if (!writes.on()) return;
  memory.add_to(writes, library.empty() || module_of(kernel.code).path == library);
}

}  // namespace trifold::cpu

#pragma GCC visibility push(default)
extern "C" {

// `path`: of the library whose kernels count, absolute and without symbolic links; null: all count.
void trifold_cpu_record_writes(bool on, const char* path) {
  using namespace trifold::cpu;
  const std::lock_guard<std::mutex> locked(mutex);
  if (!on) return writes.stop();
  writes.start();
  library = path == nullptr ? "" : path;
}

void trifold_cpu_written(const void* begin, size_t size, char* found) {
  using namespace trifold::cpu;
  const std::lock_guard<std::mutex> locked(mutex);
  writes.find(reinterpret_cast<uintptr_t>(begin), size, found);
}

}  // extern "C"
#pragma GCC visibility pop
