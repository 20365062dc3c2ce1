// cuda::ptx, libcu++'s functions for PTX instructions (CCCL, "PTX"): those for clusters and barriers in shared memory.
// Pointers are generic.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/ptx/threads.h>
#include <trifold/cpu/standard.h>
#include <trifold/cuda.cuh>

#include <cstdint>

namespace cuda::ptx {

using trifold::cpu::Line;
using trifold::cpu::MBarrierArrival;
using trifold::cpu::Patience;

// The modifiers of an instruction, as values.
enum class dot_sem { acq_rel, acquire, relaxed, release, sc, weak };
enum class dot_scope { cta, cluster, gpu, sys };
enum class dot_space { global, cluster, shared };
template <dot_sem sem>
struct sem_t {};
template <dot_scope scope>
struct scope_t {};
template <dot_space space>
struct space_t {};
using sem_acq_rel_t = sem_t<dot_sem::acq_rel>;
using sem_acquire_t = sem_t<dot_sem::acquire>;
using sem_relaxed_t = sem_t<dot_sem::relaxed>;
using sem_release_t = sem_t<dot_sem::release>;
using sem_sc_t = sem_t<dot_sem::sc>;
using scope_cta_t = scope_t<dot_scope::cta>;
using scope_cluster_t = scope_t<dot_scope::cluster>;
using scope_gpu_t = scope_t<dot_scope::gpu>;
using scope_sys_t = scope_t<dot_scope::sys>;
using space_global_t = space_t<dot_space::global>;
using space_cluster_t = space_t<dot_space::cluster>;
using space_shared_t = space_t<dot_space::shared>;
inline constexpr sem_acq_rel_t sem_acq_rel{};
inline constexpr sem_acquire_t sem_acquire{};
inline constexpr sem_relaxed_t sem_relaxed{};
inline constexpr sem_release_t sem_release{};
inline constexpr sem_sc_t sem_sc{};
inline constexpr scope_cta_t scope_cta{};
inline constexpr scope_cluster_t scope_cluster{};
inline constexpr scope_gpu_t scope_gpu{};
inline constexpr scope_sys_t scope_sys{};
inline constexpr space_global_t space_global{};
inline constexpr space_cluster_t space_cluster{};
inline constexpr space_shared_t space_shared{};

// ---------------------------------------------------------------------------------------------------- dependent grids

inline void griddepcontrol_wait() {
  cudaGridDependencySynchronize();
}
inline void griddepcontrol_launch_dependents() {
  cudaTriggerProgrammaticLaunchCompletion();
}

// ---------------------------------------------------------------------------------------------------- barriers

inline void mbarrier_init(uint64_t* barrier, const uint32_t& count, Line line = {}) {
  trifold::cpu::init_mbarrier(barrier, count, line);
}
template <dot_sem sem, dot_scope scope>
void fence(sem_t<sem>, scope_t<scope>) {
  using trifold::cpu::Scope;
  constexpr Scope scopes[] = {Scope::block, Scope::cluster, Scope::device, Scope::system};
  trifold::cpu::fence(scopes[static_cast<int>(scope)]);
}
inline void fence_mbarrier_init(sem_release_t, scope_cluster_t, Line line = {}) {
  trifold::cpu::fence_mbarrier_inits(line);
}

inline uint64_t mbarrier_arrive(uint64_t* barrier, const uint32_t& count, Line line = {}) {
  return trifold::cpu::arrive_at_mbarrier(barrier, {.count = count}, line);
}
inline uint64_t mbarrier_arrive(uint64_t* barrier, Line line = {}) {
  return mbarrier_arrive(barrier, 1, line);
}
inline uint64_t mbarrier_arrive_no_complete(uint64_t* barrier, const uint32_t& count, Line line = {}) {
  return trifold::cpu::arrive_at_mbarrier(barrier, {.count = count, .must_not_complete = true}, line);
}
// On a barrier of the block itself, which returns the state, and of another block.
template <dot_sem sem, dot_scope scope>
  requires(sem == dot_sem::release || sem == dot_sem::relaxed)
uint64_t mbarrier_arrive(sem_t<sem>, scope_t<scope>, space_shared_t, uint64_t* barrier, const uint32_t& count,
                         Line line = {}) {
  const MBarrierArrival arrival{
      .count = count, .relaxed = sem == dot_sem::relaxed, .of_cluster = scope == dot_scope::cluster};
  return trifold::cpu::arrive_at_mbarrier(barrier, arrival, line);
}
template <dot_sem sem, dot_scope scope>
uint64_t mbarrier_arrive(sem_t<sem> order, scope_t<scope> threads, space_shared_t space, uint64_t* barrier,
                         Line line = {}) {
  return mbarrier_arrive(order, threads, space, barrier, 1, line);
}
template <dot_sem sem>
  requires(sem == dot_sem::release || sem == dot_sem::relaxed)
void mbarrier_arrive(sem_t<sem>, scope_cluster_t, space_cluster_t, uint64_t* barrier, const uint32_t& count,
                     Line line = {}) {
  const MBarrierArrival arrival{
      .count = count, .relaxed = sem == dot_sem::relaxed, .of_cluster = true, .own_only = false};
  trifold::cpu::arrive_at_mbarrier(barrier, arrival, line);
}
template <dot_sem sem>
void mbarrier_arrive(sem_t<sem> order, scope_cluster_t threads, space_cluster_t space, uint64_t* barrier,
                     Line line = {}) {
  mbarrier_arrive(order, threads, space, barrier, 1, line);
}

template <dot_sem sem, dot_scope scope>
  requires(sem == dot_sem::release || sem == dot_sem::relaxed)
uint64_t mbarrier_arrive_expect_tx(sem_t<sem>, scope_t<scope>, space_shared_t, uint64_t* barrier, const uint32_t& bytes,
                                   Line line = {}) {
  const MBarrierArrival arrival{
      .bytes = bytes, .expects = true, .relaxed = sem == dot_sem::relaxed, .of_cluster = scope == dot_scope::cluster};
  return trifold::cpu::arrive_at_mbarrier(barrier, arrival, line);
}
template <dot_sem sem>
  requires(sem == dot_sem::release || sem == dot_sem::relaxed)
void mbarrier_arrive_expect_tx(sem_t<sem>, scope_cluster_t, space_cluster_t, uint64_t* barrier, const uint32_t& bytes,
                               Line line = {}) {
  const MBarrierArrival arrival{
      .bytes = bytes, .expects = true, .relaxed = sem == dot_sem::relaxed, .of_cluster = true, .own_only = false};
  trifold::cpu::arrive_at_mbarrier(barrier, arrival, line);
}
template <dot_scope scope>
void mbarrier_expect_tx(sem_relaxed_t, scope_t<scope>, space_shared_t, uint64_t* barrier, const uint32_t& bytes,
                        Line line = {}) {
  trifold::cpu::expect_at_mbarrier(barrier, bytes, true, line);
}
template <dot_scope scope>
void mbarrier_expect_tx(sem_relaxed_t, scope_t<scope>, space_cluster_t, uint64_t* barrier, const uint32_t& bytes,
                        Line line = {}) {
  trifold::cpu::expect_at_mbarrier(barrier, bytes, false, line);
}

// The waits; the schedule decides when a try_wait times out. Four names in two forms each, which only a macro can
// define.
#define TRIFOLD_WAIT(name, Of, by_parity, patience)                                                                  \
  template <dot_sem sem, dot_scope scope>                                                                            \
    requires(sem == dot_sem::acquire || sem == dot_sem::relaxed)                                                     \
  bool name(sem_t<sem>, scope_t<scope>, uint64_t* barrier, const Of& of, Line line = {}) {                           \
    return trifold::cpu::wait_at_mbarrier(barrier, {of, by_parity, Patience::patience, scope == dot_scope::cluster}, \
                                          line);                                                                     \
  }                                                                                                                  \
  inline bool name(uint64_t* barrier, const Of& of, Line line = {}) {                                                \
    return name(sem_acquire, scope_cta, barrier, of, line);                                                          \
  }
TRIFOLD_WAIT(mbarrier_test_wait, uint64_t, false, none)
TRIFOLD_WAIT(mbarrier_test_wait_parity, uint32_t, true, none)
TRIFOLD_WAIT(mbarrier_try_wait, uint64_t, false, tries)
TRIFOLD_WAIT(mbarrier_try_wait_parity, uint32_t, true, tries)
#undef TRIFOLD_WAIT
inline bool mbarrier_try_wait(uint64_t* barrier, const uint64_t& state, const uint32_t&, Line line = {}) {
  return mbarrier_try_wait(barrier, state, line);
}
inline bool mbarrier_try_wait_parity(uint64_t* barrier, const uint32_t& parity, const uint32_t&, Line line = {}) {
  return mbarrier_try_wait_parity(barrier, parity, line);
}
template <dot_sem sem, dot_scope scope>
bool mbarrier_try_wait(sem_t<sem> order, scope_t<scope> threads, uint64_t* barrier, const uint64_t& state,
                       const uint32_t&, Line line = {}) {
  return mbarrier_try_wait(order, threads, barrier, state, line);
}
template <dot_sem sem, dot_scope scope>
bool mbarrier_try_wait_parity(sem_t<sem> order, scope_t<scope> threads, uint64_t* barrier, const uint32_t& parity,
                              const uint32_t&, Line line = {}) {
  return mbarrier_try_wait_parity(order, threads, barrier, parity, line);
}

// ---------------------------------------------------------------------------------------------------- clusters

inline uint32_t getctarank(space_cluster_t, const void* address, Line line = {}) {
  return trifold::cpu::rank_of_shared(address, line);
}

inline void barrier_cluster_arrive(Line line = {}) {
  __cluster_barrier_arrive(line);
}
inline void barrier_cluster_arrive(sem_release_t, Line line = {}) {
  __cluster_barrier_arrive(line);
}
inline void barrier_cluster_arrive(sem_relaxed_t, Line line = {}) {
  __cluster_barrier_arrive_relaxed(line);
}
inline void barrier_cluster_wait(Line line = {}) {
  __cluster_barrier_wait(line);
}
inline void barrier_cluster_wait(sem_acquire_t, Line line = {}) {
  __cluster_barrier_wait(line);
}

#define TRIFOLD_REGISTER(name)        \
  inline uint32_t get_sreg_##name() { \
    return ::trifold::ptx::name();    \
  }
#define TRIFOLD_REGISTERS(name) \
  TRIFOLD_REGISTER(name##_x)    \
  TRIFOLD_REGISTER(name##_y)    \
  TRIFOLD_REGISTER(name##_z)
TRIFOLD_REGISTERS(tid)
TRIFOLD_REGISTERS(ntid)
TRIFOLD_REGISTERS(ctaid)
TRIFOLD_REGISTERS(nctaid)
TRIFOLD_REGISTERS(clusterid)
TRIFOLD_REGISTERS(nclusterid)
TRIFOLD_REGISTERS(cluster_ctaid)
TRIFOLD_REGISTERS(cluster_nctaid)
TRIFOLD_REGISTER(cluster_ctarank)
TRIFOLD_REGISTER(cluster_nctarank)
TRIFOLD_REGISTER(laneid)
TRIFOLD_REGISTER(warpid)
TRIFOLD_REGISTER(nwarpid)
TRIFOLD_REGISTER(smid)
TRIFOLD_REGISTER(nsmid)
TRIFOLD_REGISTER(lanemask_eq)
TRIFOLD_REGISTER(lanemask_le)
TRIFOLD_REGISTER(lanemask_lt)
TRIFOLD_REGISTER(lanemask_ge)
TRIFOLD_REGISTER(lanemask_gt)
TRIFOLD_REGISTER(clock)
TRIFOLD_REGISTER(clock_hi)
TRIFOLD_REGISTER(globaltimer_lo)
TRIFOLD_REGISTER(globaltimer_hi)
#undef TRIFOLD_REGISTERS
#undef TRIFOLD_REGISTER
inline bool get_sreg_is_explicit_cluster() {
  return ::trifold::ptx::is_explicit_cluster();
}
inline uint64_t get_sreg_clock64() {
  return ::trifold::ptx::clock64();
}
inline uint64_t get_sreg_globaltimer() {
  return ::trifold::ptx::globaltimer();
}

}  // namespace cuda::ptx
