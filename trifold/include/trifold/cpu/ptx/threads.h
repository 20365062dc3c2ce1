// Special registers, barriers, and operations of a warp's lanes.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/barriers.h>
#include <trifold/cpu/clocks.h>
#include <trifold/cpu/clusters.h>
#include <trifold/cpu/ending.h>
#include <trifold/cpu/ptx/registers.h>
#include <trifold/cpu/warp.h>

#include <cstdint>

namespace trifold::ptx {

using cpu::Line;
using cpu::Wait;

// The names are those of the variables and axes: only a macro can define them.
#define TRIFOLD_AXES(name, variable)    \
  __forceinline__ uint32_t name##_x() { \
    return variable.x;                  \
  }                                     \
  __forceinline__ uint32_t name##_y() { \
    return variable.y;                  \
  }                                     \
  __forceinline__ uint32_t name##_z() { \
    return variable.z;                  \
  }
TRIFOLD_AXES(tid, threadIdx)
TRIFOLD_AXES(ntid, blockDim)
TRIFOLD_AXES(ctaid, blockIdx)
TRIFOLD_AXES(nctaid, gridDim)
TRIFOLD_AXES(cluster_ctaid, __clusterRelativeBlockIdx())
TRIFOLD_AXES(cluster_nctaid, __clusterDim())
TRIFOLD_AXES(clusterid, __clusterIdx())
TRIFOLD_AXES(nclusterid, __clusterGridDimInClusters())
#undef TRIFOLD_AXES

__forceinline__ uint32_t cluster_ctarank() {
  return __clusterRelativeBlockRank();
}
__forceinline__ uint32_t cluster_nctarank() {
  return __clusterSizeInBlocks();
}
__forceinline__ bool is_explicit_cluster() {
  return __clusterDimIsSpecified() != 0;
}
__forceinline__ uint32_t laneid() {
  return cpu::lane();
}
__forceinline__ uint32_t warpid() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
}
__forceinline__ uint32_t nwarpid() {
  return (cpu::threads_of_block() + 31) / 32;
}
// One multiprocessor, and one grid.
__forceinline__ uint32_t smid() {
  return 0;
}
__forceinline__ uint32_t nsmid() {
  return 1;
}
__forceinline__ uint64_t gridid() {
  return 0;
}
__forceinline__ uint64_t clock64() {
  return static_cast<uint64_t>(::clock64());
}
__forceinline__ uint32_t clock() {
  return static_cast<uint32_t>(clock64());
}
__forceinline__ uint32_t clock_hi() {
  return static_cast<uint32_t>(clock64() >> 32);
}
__forceinline__ uint64_t globaltimer() {
  return clock64();  // nanoseconds
}
__forceinline__ uint32_t globaltimer_lo() {
  return clock();
}
__forceinline__ uint32_t globaltimer_hi() {
  return clock_hi();
}
__forceinline__ uint32_t lanemask_eq() {
  return 1u << laneid();
}
__forceinline__ uint32_t lanemask_lt() {
  return lanemask_eq() - 1;
}
__forceinline__ uint32_t lanemask_le() {
  return lanemask_lt() | lanemask_eq();
}
__forceinline__ uint32_t lanemask_gt() {
  return ~lanemask_le();
}
__forceinline__ uint32_t lanemask_ge() {
  return ~lanemask_lt();
}

// ---------------------------------------------------------------------------------------------------- barriers

// bar.sync and bar.arrive.
template <class... M, class A, class B>
  requires(!cpu::same_as<B, Line>)
__forceinline__ void bar_(A number, B threads, Line line = {}) {
  constexpr Wait operation = has<modifier::arrive_, M...> ? Wait::named_arrive : Wait::named_barrier;
  cpu::wait_at_numbered_barrier(operation, get<uint32_t>(number), get<uint32_t>(threads), false, line);
}
template <class... M, class A>
  requires(!has<modifier::warp_, M...>)
__forceinline__ void bar_(A number, Line line = {}) {
  bar_<M...>(number, cpu::threads_of_block(), line);
}
template <class... M, class A>
  requires has<modifier::warp_, M...>
__forceinline__ void bar_(A mask, Line line = {}) {
  __syncwarp(get<uint32_t>(mask), line);
}
// bar.red: the number of threads whose predicates are true, and whether all or any are.
template <class T, class... M, class D, class A, class B>
__forceinline__ void bar_(D& d, A number, B of, bool predicate, Line line = {}) {
  const auto threads = get<uint32_t>(of);
  const unsigned count =
      cpu::wait_at_numbered_barrier(Wait::named_barrier, get<uint32_t>(number), threads, predicate, line);
  put(d, static_cast<T>(has<modifier::popc_, M...>  ? count
                        : has<modifier::and_, M...> ? count == threads
                                                    : count != 0));
}
template <class T, class... M, class D, class A>
__forceinline__ void bar_(D& d, A number, bool predicate, Line line = {}) {
  bar_<T, M...>(d, number, cpu::threads_of_block(), predicate, line);
}

// barrier.cluster. By default an arrival releases, and a wait acquires.
template <class Cluster, class Way, class... M>
  requires cpu::same_as<Cluster, modifier::cluster_>
__forceinline__ void bar_(Line line = {}) {
  constexpr Wait arrival = has<modifier::relaxed_, M...> ? Wait::cluster_arrive_relaxed : Wait::cluster_arrive;
  cpu::wait_at_wider_barrier(cpu::same_as<Way, modifier::wait_> ? Wait::cluster_wait : arrival, line);
}
template <class Way>
__forceinline__ void griddepcontrol_() {
  if constexpr (cpu::same_as<Way, modifier::wait_>)
    cudaGridDependencySynchronize();
  else
    cudaTriggerProgrammaticLaunchCompletion();
}

// ---------------------------------------------------------------------------------------------------- lanes

template <class T, class Sync, class Mode, class D, class P, class A, class B, class C, class Mask>
__forceinline__ void shfl_(D& d, P& in_range, A a, B lane, C clamp, Mask mask, Line line = {}) {
  constexpr Wait operation = has<Mode, modifier::up_>     ? Wait::shuffle_up
                             : has<Mode, modifier::down_> ? Wait::shuffle_down
                             : has<Mode, modifier::bfly_> ? Wait::shuffle_xor
                                                          : Wait::shuffle;
  const auto answer =
      cpu::meet_warp(operation, get<uint32_t>(mask), false, get<T>(a), get<uint32_t>(lane), get<uint32_t>(clamp), line);
  put(d, static_cast<T>(answer.value));
  put(in_range, answer.predicate);
}
template <class T, class Sync, class Mode, class D, class Mask>
__forceinline__ void vote_(D& d, bool predicate, Mask mask, Line line = {}) {
  constexpr Wait operation = has<Mode, modifier::all_>   ? Wait::vote_all
                             : has<Mode, modifier::any_> ? Wait::vote_any
                             : has<Mode, modifier::uni_> ? Wait::vote_equal
                                                         : Wait::ballot;
  const auto answer = cpu::meet_warp(operation, get<uint32_t>(mask), predicate, 0, 0, 0, line);
  if constexpr (cpu::same_as<T, bool>)
    put(d, answer.predicate);
  else
    put(d, static_cast<T>(answer.value));
}
template <class T, class Mode, class Sync, class D, class A, class Mask>
__forceinline__ void match_(D& d, A a, Mask mask, Line line = {}) {
  put(d, __match_any_sync(get<uint32_t>(mask), get<T>(a), line));
}
template <class T, class Mode, class Sync, class D, class P, class A, class Mask>
__forceinline__ void match_(D& d, P& all, A a, Mask mask, Line line = {}) {
  int same = 0;
  put(d, __match_all_sync(get<uint32_t>(mask), get<T>(a), &same, line));
  put(all, same != 0);
}
template <class T, class Sync, class Of, class D, class A, class Mask>
__forceinline__ void redux_(D& d, A a, Mask among, Line line = {}) {
  const auto mask = get<uint32_t>(among);
  const T value = get<T>(a);
  if constexpr (has<Of, modifier::add_>) put(d, __reduce_add_sync(mask, value, line));
  if constexpr (has<Of, modifier::min_>) put(d, __reduce_min_sync(mask, value, line));
  if constexpr (has<Of, modifier::max_>) put(d, __reduce_max_sync(mask, value, line));
  if constexpr (has<Of, modifier::and_>) put(d, __reduce_and_sync(mask, value, line));
  if constexpr (has<Of, modifier::or_>) put(d, __reduce_or_sync(mask, value, line));
  if constexpr (has<Of, modifier::xor_>) put(d, __reduce_xor_sync(mask, value, line));
}
// The leader is the first of the lanes; PTX does not specify which.
template <class Sync, class D, class P, class Mask>
__forceinline__ void elect_(D& d, P& leader, Mask mask, Line line = {}) {
  const auto came = __ballot_sync(get<uint32_t>(mask), 1, line);
  const auto first = static_cast<uint32_t>(__ffs(static_cast<int>(came))) - 1;
  put(d, first);
  put(leader, first == laneid());
}
template <class T, class D>
__forceinline__ void activemask_(D& d, Line line = {}) {
  put(d, __activemask(line));
}

// ---------------------------------------------------------------------------------------------------- time and ends

template <class T, class A>
__forceinline__ void nanosleep_(A, Line line = {}) {
  __nanosleep(0, line);
}
inline void trap_(Line line = {}) {
  __trap(line);
}
inline void brkpt_(Line line = {}) {
  __brkpt(line);
}

// The CPU's registers differ from a GPU's.
template <class T, class... M, class Count>
__forceinline__ void setmaxnreg_(Count) {}

}  // namespace trifold::ptx
