// cuda::ptx's functions for asynchronous operations (CCCL, "PTX": cp.async.bulk, st.async, red.async and their fences).
#pragma once

#include <trifold/cpu/asynchronous.h>
#include <trifold/cpu/cuda_ptx.h>
#include <trifold/cpu/ptx/copies.h>

#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

namespace cuda::ptx {

template <int n>
using n32_t = std::integral_constant<int, n>;

enum class dot_op { and_op, or_op, xor_op, add, inc, dec, min, max };
template <dot_op op>
struct op_t {};
using op_and_op_t = op_t<dot_op::and_op>;
using op_or_op_t = op_t<dot_op::or_op>;
using op_xor_op_t = op_t<dot_op::xor_op>;
using op_add_t = op_t<dot_op::add>;
using op_inc_t = op_t<dot_op::inc>;
using op_dec_t = op_t<dot_op::dec>;
using op_min_t = op_t<dot_op::min>;
using op_max_t = op_t<dot_op::max>;
inline constexpr op_and_op_t op_and_op{};
inline constexpr op_or_op_t op_or_op{};
inline constexpr op_xor_op_t op_xor_op{};
inline constexpr op_add_t op_add{};
inline constexpr op_inc_t op_inc{};
inline constexpr op_dec_t op_dec{};
inline constexpr op_min_t op_min{};
inline constexpr op_max_t op_max{};

namespace details {

using trifold::cpu::Asynchronous;
using trifold::cpu::GroupKind;
using trifold::cpu::Instruction;

namespace words = trifold::ptx::modifier;
// In the order of dot_op.
using Words =
    std::tuple<words::and_, words::or_, words::xor_, words::add_, words::inc_, words::dec_, words::min_, words::max_>;
// The new value of an element.
template <class T, dot_op op>
inline constexpr trifold::ptx::Combine combined =
    trifold::ptx::combine<T, std::tuple_element_t<static_cast<size_t>(op), Words>>;

inline Asynchronous bulk(void* to, const void* from, uint32_t bytes) {
  return {
      .instruction = Instruction::cp_async_bulk, .to = to, .from = from, .bytes = bytes, .alignment = 16, .unit = 16};
}
inline Asynchronous bulk_to_shared(void* to, const void* from, uint32_t bytes, uint64_t* barrier, bool from_shared) {
  Asynchronous made = bulk(to, from, bytes);
  made.barrier = barrier;
  made.from_shared = from_shared;
  return made;
}
inline Asynchronous bulk_to_global(void* to, const void* from, uint32_t bytes) {
  Asynchronous made = bulk(to, from, bytes);
  made.to_shared = false;
  made.from_shared = true;
  return made;
}

template <class T>
void store(Instruction instruction, trifold::ptx::Combine made, void* to, const T& value, uint64_t* barrier,
           Line line) {
  Asynchronous operation{.instruction = instruction,
                         .to = to,
                         .from = nullptr,
                         .bytes = sizeof value,
                         .alignment = sizeof value,
                         .combine = made,
                         .barrier = barrier};
  std::memcpy(operation.value, &value, sizeof value);
  trifold::cpu::start(operation, line);
}

}  // namespace details

// ---------------------------------------------------------------------------------------------------- bulk copies

template <dot_space space>
  requires(space != dot_space::global)
void cp_async_bulk(space_t<space>, space_global_t, void* to, const void* from, const uint32_t& bytes, uint64_t* barrier,
                   Line line = {}) {
  trifold::cpu::start(details::bulk_to_shared(to, from, bytes, barrier, false), line);
}
inline void cp_async_bulk(space_cluster_t, space_global_t, void* to, const void* from, const uint32_t& bytes,
                          uint64_t* barrier, const uint16_t& ranks, Line line = {}) {
  auto operation = details::bulk_to_shared(to, from, bytes, barrier, false);
  operation.ranks = ranks;
  trifold::cpu::start(operation, line);
}
inline void cp_async_bulk(space_cluster_t, space_shared_t, void* to, const void* from, const uint32_t& bytes,
                          uint64_t* barrier, Line line = {}) {
  trifold::cpu::start(details::bulk_to_shared(to, from, bytes, barrier, true), line);
}
inline void cp_async_bulk(space_global_t, space_shared_t, void* to, const void* from, const uint32_t& bytes,
                          Line line = {}) {
  trifold::cpu::start(details::bulk_to_global(to, from, bytes), line);
}

template <dot_op op, class T>
void cp_reduce_async_bulk(space_cluster_t, space_shared_t, op_t<op>, T* to, const T* from, uint32_t bytes,
                          uint64_t* barrier, Line line = {}) {
  auto operation = details::bulk_to_shared(to, from, bytes, barrier, true);
  operation.instruction = details::Instruction::cp_reduce_async_bulk;
  operation.combine = details::combined<T, op>;
  trifold::cpu::start(operation, line);
}
template <dot_op op, class T>
void cp_reduce_async_bulk(space_global_t, space_shared_t, op_t<op>, T* to, const T* from, uint32_t bytes,
                          Line line = {}) {
  auto operation = details::bulk_to_global(to, from, bytes);
  operation.instruction = details::Instruction::cp_reduce_async_bulk;
  operation.combine = details::combined<T, op>;
  trifold::cpu::start(operation, line);
}

inline void cp_async_bulk_commit_group(Line line = {}) {
  trifold::cpu::commit_group(details::GroupKind::bulk, line);
}
template <int n>
void cp_async_bulk_wait_group(n32_t<n>, Line line = {}) {
  trifold::cpu::wait_for_groups(details::GroupKind::bulk, n, false, line);
}
template <int n>
void cp_async_bulk_wait_group_read(n32_t<n>, Line line = {}) {
  trifold::cpu::wait_for_groups(details::GroupKind::bulk, n, true, line);
}

inline void cp_async_mbarrier_arrive(uint64_t* barrier, Line line = {}) {
  trifold::cpu::arrive_after_copies(barrier, true, line);
}
inline void cp_async_mbarrier_arrive_noinc(uint64_t* barrier, Line line = {}) {
  trifold::cpu::arrive_after_copies(barrier, false, line);
}

// ---------------------------------------------------------------------------------------------------- stores

template <class T>
  requires(!std::is_array_v<T>)
void st_async(T* to, const T& value, uint64_t* barrier, Line line = {}) {
  details::store(details::Instruction::st_async, nullptr, to, value, barrier, line);
}
template <class T, size_t count>
  requires(count == 2 || (count == 4 && sizeof(T) == 4))
void st_async(T* to, const T (&values)[count], uint64_t* barrier, Line line = {}) {
  details::store(details::Instruction::st_async, nullptr, to, values, barrier, line);
}
template <dot_op op, class T>
void red_async(op_t<op>, T* to, const T& value, uint64_t* barrier, Line line = {}) {
  details::store(details::Instruction::red_async, details::combined<T, op>, to, value, barrier, line);
}

// ---------------------------------------------------------------------------------------------------- fences

inline void fence_proxy_async() {
  trifold::cpu::fence_proxy(trifold::cpu::global_proxy | trifold::cpu::shared_proxy);
}
template <dot_space space>
void fence_proxy_async(space_t<space>) {
  trifold::cpu::fence_proxy(space == dot_space::global ? trifold::cpu::global_proxy : trifold::cpu::shared_proxy);
}
inline void fence_proxy_alias() {}

}  // namespace cuda::ptx
