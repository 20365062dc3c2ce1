// CUDA's cooperative groups larger than a block: a cluster of blocks, and the grid.
#pragma once

#include <trifold/cuda.cuh>

namespace cooperative_groups {

using trifold::cpu::Line;

namespace details {

inline unsigned thread_rank_in_block() {
  return trifold::cpu::linear(threadIdx, blockDim);
}
inline unsigned threads_of_block() {
  return trifold::cpu::size_of(blockDim);
}

}  // namespace details

// The blocks of the running block's cluster; only the block itself if the launch has no clusters.
class cluster_group {
 public:
  struct arrival_token {};

  static void sync(Line line = {}) { trifold::cpu::wait_at_wider_barrier(trifold::cpu::Wait::cluster_barrier, line); }
  static arrival_token barrier_arrive(Line line = {}) {
    __cluster_barrier_arrive(line);
    return {};
  }
  static void barrier_wait(Line line = {}) { __cluster_barrier_wait(line); }
  static void barrier_wait(arrival_token&&, Line line = {}) { __cluster_barrier_wait(line); }

  // The address in block `rank` that corresponds to `address` in this block's shared memory.
  template <class T>
  static T* map_shared_rank(T* address, int rank, Line line = {}) {
    return static_cast<T*>(__cluster_map_shared_rank(address, static_cast<unsigned>(rank), line));
  }
  // The rank of the block whose shared memory contains the address.
  static unsigned query_shared_rank(const void* address, Line line = {}) {
    return __cluster_query_shared_rank(address, line);
  }

  static dim3 block_index() { return __clusterRelativeBlockIdx(); }
  static unsigned block_rank() { return __clusterRelativeBlockRank(); }
  static dim3 dim_blocks() { return __clusterDim(); }
  static unsigned num_blocks() { return __clusterSizeInBlocks(); }
  static dim3 thread_index() {
    const dim3 block = block_index();
    return {block.x * blockDim.x + threadIdx.x, block.y * blockDim.y + threadIdx.y, block.z * blockDim.z + threadIdx.z};
  }
  static unsigned thread_rank() { return block_rank() * details::threads_of_block() + details::thread_rank_in_block(); }
  static dim3 dim_threads() {
    const dim3 blocks = dim_blocks();
    return {blocks.x * blockDim.x, blocks.y * blockDim.y, blocks.z * blockDim.z};
  }
  static unsigned num_threads() { return num_blocks() * details::threads_of_block(); }
  static unsigned size() { return num_threads(); }
};

inline cluster_group this_cluster() {
  return {};
}

// The whole grid. Ranks and sizes work in any launch; the barrier needs a cooperative one, in which all blocks are
// resident.
class grid_group {
 public:
  struct arrival_token {};

  static bool is_valid() { return trifold::cpu::is_cooperative(); }  // whether the barrier can be used
  static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
  static unsigned long long block_rank() {
    return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
  }
  static unsigned long long size() { return num_blocks() * details::threads_of_block(); }
  static unsigned long long num_threads() { return size(); }
  static unsigned long long thread_rank() {
    return block_rank() * details::threads_of_block() + details::thread_rank_in_block();
  }
  static dim3 group_dim() { return gridDim; }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 block_index() { return blockIdx; }
  static dim3 dim_threads() { return {gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z}; }
  static dim3 thread_index() {
    return {blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
            blockIdx.z * blockDim.z + threadIdx.z};
  }
  static void sync(Line line = {}) {
    if (!is_valid())
      trifold::cpu::stop_launch(
          "a barrier of the grid in a launch that is not cooperative (start it with cudaLaunchCooperativeKernel or "
          "trifold::launch_cooperative, or split the kernel in two launches)",
          line);
    trifold::cpu::wait_at_wider_barrier(trifold::cpu::Wait::grid_barrier, line);
  }
  // On the CPU a thread arrives when it waits. So what it does in between is ordered before all that others do after
  // their wait, also for the checks.
  static arrival_token barrier_arrive() { return {}; }
  static void barrier_wait(arrival_token&&, Line line = {}) { sync(line); }
};

inline grid_group this_grid() {
  return {};
}

}  // namespace cooperative_groups
