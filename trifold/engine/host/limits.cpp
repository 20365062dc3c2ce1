#include "limits.h"

#include <stdexcept>
#include <string>
#include <tuple>

#include "module.h"
#include "settings.h"

namespace trifold::host {
namespace {

std::string shape(const dim3& extents) {
  return std::to_string(extents.x) + " × " + std::to_string(extents.y) + " × " + std::to_string(extents.z);
}

[[noreturn, gnu::cold]] void refuse(const Kernel& kernel, const std::string& asked, const std::string& limit,
                                    const std::string& remedy) {
  throw std::runtime_error(std::string(kernel.name) + " is launched with " + asked + ": " + limit +
                           " (compute capability " + device_name() + "); " + remedy);
}

}  // namespace

std::string too_many_threads(const Kernel& kernel, unsigned launch_bounds) {
  return std::string(kernel.name) + " is launched with blocks of " + shape(kernel.threads) +
         " threads: its __launch_bounds__ allow " + std::to_string(launch_bounds) +
         "; take smaller blocks, or wider bounds";
}

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the extents are the same for all.
void require_launchable(const Kernel& kernel) {
  const auto& [grid, threads] = std::tie(kernel.grid, kernel.threads);
  constexpr uint32_t most_blocks_x = 0x7fffffff, most_blocks = 65535, most_threads = 1024, most_threads_z = 64;
  if (grid.x > most_blocks_x || grid.y > most_blocks || grid.z > most_blocks)
    refuse(kernel, "a grid of " + shape(grid) + " blocks", "a grid has at most 2147483647 × 65535 × 65535",
           "put the blocks into another axis, or let each thread do more");
  const uint64_t block = uint64_t{threads.x} * threads.y * threads.z;
  if (threads.x > most_threads || threads.y > most_threads || threads.z > most_threads_z || block > most_threads ||
      block == 0)
    refuse(kernel, "blocks of " + shape(threads) + " threads", "a block has 1 to 1024 threads, in z at most 64",
           "take smaller blocks, and more of them");
  const engine::Limits& limits = device_limits();
  const auto& [declared, launch_bounds] = declared_by(kernel.code);
  if (launch_bounds != 0 && block > launch_bounds) throw std::runtime_error(too_many_threads(kernel, launch_bounds));
  if (declared > limits.static_shared_bytes)
    refuse(kernel, std::to_string(declared) + " bytes of shared arrays of fixed size",
           "a kernel has at most " + std::to_string(limits.static_shared_bytes),
           "take smaller tiles, or dynamic shared memory");
  if (kernel.shared_bytes + declared > limits.shared_bytes)
    refuse(kernel,
           std::to_string(kernel.shared_bytes) + " bytes of dynamic shared memory" +
               (declared == 0 ? "" : " and " + std::to_string(declared) + " of shared arrays"),
           "a block has at most " + std::to_string(limits.shared_bytes), "take smaller tiles");
}

}  // namespace trifold::host
