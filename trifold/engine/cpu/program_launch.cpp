// Launches of ordinary CUDA programs, whose mistakes become CUDA's errors.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../core/execution.h"
#include "device_memory.h"
#include "earlier_grid.h"
#include "launch.h"
#include "limits.h"
#include "module.h"
#include "program_report.h"
#include "report.h"
#include "sites.h"
#include "stream_accesses.h"

namespace trifold::cpu {
namespace {

std::atomic<Error> latest{Error::success};
// Kernels that may have clusters of more than 8 blocks.
std::mutex large_clusters_mutex;
std::set<const void*> large_clusters;
std::atomic<size_t> dynamic_shared_allowed{48 << 10};
// As in CUDA, a kernel's mistake invalidates the device: every later call returns its error.
std::atomic<Error> lost{Error::success};

// A copy of the program's device memory: its allocations and, since a kernel may change them, its variables.
class DeviceContents {
 public:
  explicit DeviceContents(const Kernel& kernel) : heap_(live_heap()) {
    for (const GlobalVariable& variable : module_of(kernel.code).globals) {
      const char* const begin = reinterpret_cast<const char*>(variable.place.begin);
      if (!variable.constant)
        variables_.push_back({{begin, begin + (variable.place.end - variable.place.begin)}, &variable});
    }
    for (Allocation* const allocation : allocations()) {
      if (!allocation->live) continue;
      const char* const begin = reinterpret_cast<const char*>(allocation->begin);
      saved_.push_back({allocation, {begin, begin + allocation->bytes}, allocation->written});
    }
  }
  void restore() const {
    keep_heap(heap_);
    // Only variables that differ are restored: a program's constants may be in read-only memory.
    for (const auto& [bytes, variable] : variables_) {
      auto* const place = reinterpret_cast<char*>(variable->place.begin);
      if (std::memcmp(place, bytes.data(), bytes.size()) != 0) std::memcpy(place, bytes.data(), bytes.size());
    }
    for (const auto& [allocation, bytes, written] : saved_) {
      std::memcpy(reinterpret_cast<void*>(allocation->begin), bytes.data(), bytes.size());
      allocation->written = written;
    }
  }

 private:
  struct Saved {
    Allocation* allocation;
    std::vector<char> bytes;
    ByteSet written;
  };
  struct SavedVariable {
    std::vector<char> bytes;
    const GlobalVariable* variable;
  };
  std::vector<Saved> saved_;
  std::vector<SavedVariable> variables_;
  std::set<Allocation*> heap_;
};

// While it exists, what kernels print is discarded.
class Muted {
 public:
  Muted() {
    fflush(stdout);
    kept_ = dup(STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
    if (nowhere >= 0) close(nowhere);
  }
  ~Muted() {
    fflush(stdout);
    if (kept_ >= 0) dup2(kept_, STDOUT_FILENO);
    if (kept_ >= 0) close(kept_);
  }
  Muted(const Muted&) = delete;
  Muted& operator=(const Muted&) = delete;

 private:
  int kept_;
};

// Marks the outputs of a launch that failed as written, so that they are not reported as a second mistake.
void forgive_outputs(const Kernel& kernel) {
  for (int i = 0; i < kernel.argument_count; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(kernel.arguments[i].pointer);
    Allocation* const allocation = allocation_near(address);
    if (allocation != nullptr && allocation->live) allocation->written.add(0, allocation->bytes);
  }
}

Error run_once(const Kernel& kernel, void (*run)(const Kernel&), uint64_t seed, Line line) {
  begin_call(seed);
  note_launch(line);
  std::string failed;
  bool ended = false;
  Error error = Error::invalid_configuration;
  try {
    run(kernel);
  } catch (const LaunchEnded&) {
    ended = true;
  } catch (const FailedLaunch& failure) {
    failed = failure.what();
    error = failure.error;
  } catch (const std::exception& mistake) {
    failed = mistake.what();
  }
  tell_findings(take_findings());
  if (ended) return Error::launch_failure;
  if (failed.empty()) return Error::success;
  problem("the launch at " + place(line) + " fails: " + failed);
  return error;
}

Error run_in_schedules(const Kernel& kernel, void (*run)(const Kernel&), Line line) {
  const ProgramOptions& options = program_options();
  if (options.schedules <= 1) return run_once(kernel, run, options.seed, line);
  const DeviceContents before(kernel);
  if (const Error error = run_once(kernel, run, options.seed, line); error != Error::success) return error;
  const DeviceContents after(kernel);
  const Muted muted;
  Error error = Error::success;
  for (int i = 1; i < options.schedules && error == Error::success; ++i) {
    before.restore();
    repeat_launch();
    error = run_once(kernel, run, options.seed + static_cast<uint64_t>(i), line);
  }
  after.restore();
  return error;
}

}  // namespace

Error launch_program(const Kernel& kernel, void (*run)(const Kernel& kernel), Line line) {
  if (lost != Error::success) return lost;
  const dim3& grid = kernel.grid;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    problem("the launch of " + std::string(kernel.name) + " at " + place(line) + " fails: its grid has no block");
    return set_error(Error::invalid_configuration);
  }
  if (const size_t allowed = dynamic_shared_allowed; kernel.shared_bytes > allowed) {
    problem("the launch of " + std::string(kernel.name) + " at " + place(line) + " fails: its " +
            std::to_string(kernel.shared_bytes) + " bytes of dynamic shared memory are more than the " +
            std::to_string(allowed) +
            " that it may have; call cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) "
            "before");
    return set_error(Error::invalid_value);
  }
  const OpenMemory open;
  const Error error = run_in_schedules(kernel, run, line);
  keep_kernel(kernel.name, line);
  if (error != Error::launch_failure && error != Error::assertion) return set_error(error);
  if (program_options().keep_going) {
    forgive_outputs(kernel);
  } else {
    lost = error;
  }
  return set_error(error);
}

void allow_dynamic_shared(size_t bytes) {
  for (size_t known = dynamic_shared_allowed;
       known < bytes && !dynamic_shared_allowed.compare_exchange_weak(known, bytes);) {
  }
}

void allow_large_clusters(const void* kernel, bool allowed) {
  const std::lock_guard<std::mutex> locked(large_clusters_mutex);
  if (allowed) large_clusters.insert(kernel);
  if (!allowed) large_clusters.erase(kernel);
}

bool large_clusters_allowed(const void* kernel) {
  const std::lock_guard<std::mutex> locked(large_clusters_mutex);
  return kernel == nullptr ? !large_clusters.empty() : large_clusters.contains(kernel);
}

Error refuse_call(const char* why, Error error, Line line) {
  problem(std::string(why) + ", at " + place(line));
  return set_error(error);
}

Error refuse_call(const char* why, Error error, const void* return_address) {
  begin_sites();
  const engine::Location at = location_of(site_of_address(return_address));
  return refuse_call(why, error, {at.file.c_str(), at.line});
}

Error active_clusters(const Kernel& kernel, int& count, Line line) {
  try {
    Kernel one = kernel;
    if (one.clusters_given) one.grid = one.cluster;
    one = with_clusters(one);
    if (!one.clusters_given) return refuse_call("a kernel that has no clusters", Error::invalid_value, line);
    require_launchable(one);
    count = static_cast<int>(engine::resident_clusters(launch_of(one)));
    return Error::success;
  } catch (const FailedLaunch& refusal) {
    return refuse_call(refusal.what(), refusal.error, line);
  } catch (const std::exception& refusal) {
    return refuse_call(refusal.what(), Error::invalid_configuration, line);
  }
}

FunctionShape function_shape(const void* kernel) {
  const Declared& declared = declared_by(kernel);
  return {declared.shared_bytes, declared.launch_bounds == 0 ? 1024 : static_cast<int>(declared.launch_bounds)};
}

int most_cluster_blocks(const Kernel& kernel) {
  const dim3& declared = declared_by(kernel.code).cluster;
  const unsigned blocks = declared.x * declared.y * declared.z;
  return blocks != 0 ? static_cast<int>(blocks) : kernel.large_clusters ? 16 : 8;
}

uint64_t program_seed() {
  return program_options().seed;
}

Error set_error(Error error) {
  if (error != Error::success) latest = error;
  return error;
}

Error last_error(bool forget) {
  if (lost != Error::success) return lost;
  return forget ? latest.exchange(Error::success) : latest.load();
}

Error device_error() {
  return lost;
}

Error synchronise() {
  host_waits_for_all();
  return lost;
}

void reset_device() {
  host_waits_for_all();
  lost = Error::success;
  latest = Error::success;
}

}  // namespace trifold::cpu
