#include "limits.h"

#include <stdexcept>
#include <string>
#include <tuple>

#include "module.h"
#include "settings.h"

namespace trifold::cpu {
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

namespace {

[[noreturn, gnu::cold]] void refuse_clusters(const Kernel& kernel, const std::string& why, const std::string& remedy) {
  throw FailedLaunch(Error::invalid_cluster_size, std::string(kernel.name) + " is launched in clusters of " +
                                                      shape(kernel.cluster) + " blocks: " + why + "; " + remedy);
}

}  // namespace

// CUDA Runtime API, cudaLaunchAttributeValue::clusterDim and cudaFuncAttributes.
Kernel with_clusters(Kernel kernel) {
  constexpr uint32_t portable = 8, most = 16;
  dim3& cluster = kernel.cluster;
  const dim3 none(0, 0, 0), declared = declared_by(kernel.code).cluster;
  const auto same = [](dim3 a, dim3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; };
  const bool by_launch = kernel.clusters_given || !same(cluster, none), by_kernel = !same(declared, none);
  if (by_launch && by_kernel && !same(cluster, declared))
    refuse_clusters(kernel, "its __cluster_dims__ say " + shape(declared), "leave the launch's attribute out");
  if (!by_launch) cluster = by_kernel ? declared : dim3(1, 1, 1);
  kernel.clusters_given = by_launch || by_kernel;
  const uint64_t blocks = uint64_t{cluster.x} * cluster.y * cluster.z;
  if (blocks == 0) refuse_clusters(kernel, "that is no block", "let each extent be at least 1");
  if (blocks > 1 && device_shape().major < 9)
    refuse_clusters(kernel, std::string("a device of compute capability ") + device_name() + " has no clusters",
                    "they need 9.0");
  if (blocks > most) refuse_clusters(kernel, "a cluster has at most 16 blocks", "take smaller clusters");
  if (blocks > portable && !kernel.large_clusters)
    refuse_clusters(kernel, "a cluster has at most 8 blocks where the kernel does not allow more",
                    "set cudaFuncAttributeNonPortableClusterSizeAllowed of the kernel to 1, for up to 16");
  const dim3& grid = kernel.grid;
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0)
    refuse_clusters(kernel, "the grid of " + shape(grid) + " blocks cannot be divided into them",
                    "let each extent of the grid be a multiple of the cluster's");
  return kernel;
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
  const auto& [declared, launch_bounds, cluster] = declared_by(kernel.code);
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

}  // namespace trifold::cpu
