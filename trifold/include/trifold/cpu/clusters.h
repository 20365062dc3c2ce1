// Clusters of blocks: the position of the running block, the cluster's barrier, and shared memory of other blocks.
// (CUDA C++ Programming Guide, "Thread Block Clusters"; the names are those of nvcc's sm_90_rt.h.)
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/qualifiers.h>

namespace trifold::cpu {

inline unsigned size_of(dim3 extents) {
  return extents.x * extents.y * extents.z;
}
// The linear index of a place in a volume; x varies fastest.
inline unsigned linear(dim3 place, dim3 extents) {
  return place.x + extents.x * (place.y + extents.y * place.z);
}

}  // namespace trifold::cpu

inline unsigned __clusterDimIsSpecified() {
  return trifold::cpu::clusters().given ? 1 : 0;
}
inline dim3 __clusterDim() {
  return trifold::cpu::clusters().shape;
}
inline unsigned __clusterSizeInBlocks() {
  return trifold::cpu::size_of(__clusterDim());
}
inline dim3 __clusterRelativeBlockIdx() {
  const dim3 shape = __clusterDim();
  return {blockIdx.x % shape.x, blockIdx.y % shape.y, blockIdx.z % shape.z};
}
inline unsigned __clusterRelativeBlockRank() {
  return trifold::cpu::linear(__clusterRelativeBlockIdx(), __clusterDim());
}
inline dim3 __clusterIdx() {
  const dim3 shape = __clusterDim();
  return {blockIdx.x / shape.x, blockIdx.y / shape.y, blockIdx.z / shape.z};
}
inline dim3 __clusterGridDimInClusters() {
  const dim3 shape = __clusterDim();
  return {gridDim.x / shape.x, gridDim.y / shape.y, gridDim.z / shape.z};
}

inline void __cluster_barrier_arrive(trifold::cpu::Line line = {}) {
  trifold::cpu::wait_at_wider_barrier(trifold::cpu::Wait::cluster_arrive, line);
}
inline void __cluster_barrier_arrive_relaxed(trifold::cpu::Line line = {}) {
  trifold::cpu::wait_at_wider_barrier(trifold::cpu::Wait::cluster_arrive_relaxed, line);
}
inline void __cluster_barrier_wait(trifold::cpu::Line line = {}) {
  trifold::cpu::wait_at_wider_barrier(trifold::cpu::Wait::cluster_wait, line);
}

inline void* __cluster_map_shared_rank(const void* address, unsigned rank, trifold::cpu::Line line = {}) {
  return trifold::cpu::map_shared(address, rank, line);
}
inline unsigned __cluster_query_shared_rank(const void* address, trifold::cpu::Line line = {}) {
  return trifold::cpu::rank_of_shared(address, line);
}
