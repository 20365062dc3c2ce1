// cuda::ptx's functions for copies by tensor maps (CCCL, "PTX": cp.async.bulk.tensor and cp.reduce.async.bulk.tensor).
#pragma once

#include <trifold/cpu/cuda_barrier.h>
#include <trifold/cpu/cuda_ptx_copies.h>
#include <trifold/cpu/tensor_copies.h>

#include <cstdint>
#include <tuple>

namespace cuda::ptx {

namespace details {

template <int dimensions>
trifold::cpu::TensorCopy tensor_load(void* to, const void* map, const int32_t (&at)[dimensions], uint64_t* barrier) {
  return {.map = map,
          .at = at,
          .dimensions = dimensions,
          .shared = static_cast<char*>(to),
          .to_shared = true,
          .barrier = barrier};
}
template <int dimensions>
trifold::cpu::TensorCopy tensor_store(const void* map, const int32_t (&at)[dimensions], const void* from) {
  return {.map = map,
          .at = at,
          .dimensions = dimensions,
          .shared = static_cast<char*>(const_cast<void*>(from)),
          .to_shared = false};
}

}  // namespace details

template <dot_space space, int dimensions>
  requires(space != dot_space::global)
void cp_async_bulk_tensor(space_t<space>, space_global_t, void* to, const void* map, const int32_t (&at)[dimensions],
                          uint64_t* barrier, Line line = {}) {
  trifold::cpu::start_tensor_copy(details::tensor_load(to, map, at, barrier), line);
}
template <int dimensions>
void cp_async_bulk_tensor(space_cluster_t, space_global_t, void* to, const void* map, const int32_t (&at)[dimensions],
                          uint64_t* barrier, const uint16_t& ranks, Line line = {}) {
  auto copy = details::tensor_load(to, map, at, barrier);
  copy.ranks = ranks;
  trifold::cpu::start_tensor_copy(copy, line);
}
template <int dimensions>
void cp_async_bulk_tensor(space_global_t, space_shared_t, const void* map, const int32_t (&at)[dimensions],
                          const void* from, Line line = {}) {
  trifold::cpu::start_tensor_copy(details::tensor_store(map, at, from), line);
}
template <int dimensions, dot_op op>
void cp_reduce_async_bulk_tensor(space_global_t, space_shared_t, op_t<op>, const void* map,
                                 const int32_t (&at)[dimensions], const void* from, Line line = {}) {
  using Word = std::tuple_element_t<static_cast<size_t>(op), details::Words>;
  trifold::cpu::start_tensor_reduction<Word>(details::tensor_store(map, at, from), line);
}

}  // namespace cuda::ptx

// As of CUDA 12, in <cuda/barrier>.
namespace cuda::device::experimental {

using trifold::cpu::Line;

inline void cp_async_bulk_global_to_shared(void* to, const void* from, uint32_t bytes,
                                           barrier<thread_scope_block>& counts, Line line = {}) {
  ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, to, from, bytes, native_handle_of(counts), line);
}
inline void cp_async_bulk_shared_to_global(void* to, const void* from, uint32_t bytes, Line line = {}) {
  ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, to, from, bytes, line);
}
inline void fence_proxy_async_shared_cta() {
  ptx::fence_proxy_async(ptx::space_shared);
}
inline void cp_async_bulk_commit_group(Line line = {}) {
  ptx::cp_async_bulk_commit_group(line);
}
template <int pending>
void cp_async_bulk_wait_group_read(Line line = {}) {
  ptx::cp_async_bulk_wait_group_read(ptx::n32_t<pending>(), line);
}

// The names contain the number of coordinates: only a macro can define them.
#define TRIFOLD_TENSOR_COPIES(rank, parameters, ...)                                                                 \
  inline void cp_async_bulk_tensor_##rank##d_global_to_shared(void* to, const CUtensorMap* map,                      \
                                                              TRIFOLD_UNPACKED parameters,                           \
                                                              barrier<thread_scope_block>& counts, Line line = {}) { \
    const int32_t at[] = {__VA_ARGS__};                                                                              \
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to, map, at, native_handle_of(counts), line);   \
  }                                                                                                                  \
  inline void cp_async_bulk_tensor_##rank##d_shared_to_global(const CUtensorMap* map, TRIFOLD_UNPACKED parameters,   \
                                                              const void* from, Line line = {}) {                    \
    const int32_t at[] = {__VA_ARGS__};                                                                              \
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, map, at, from, line);                            \
  }
#define TRIFOLD_UNPACKED(...) __VA_ARGS__
TRIFOLD_TENSOR_COPIES(1, (int x), x)
TRIFOLD_TENSOR_COPIES(2, (int x, int y), x, y)
TRIFOLD_TENSOR_COPIES(3, (int x, int y, int z), x, y, z)
TRIFOLD_TENSOR_COPIES(4, (int x, int y, int z, int u), x, y, z, u)
TRIFOLD_TENSOR_COPIES(5, (int x, int y, int z, int u, int v), x, y, z, u, v)
#undef TRIFOLD_UNPACKED
#undef TRIFOLD_TENSOR_COPIES

}  // namespace cuda::device::experimental
