// CUDA's primitives of a barrier in shared memory (cuda_awbarrier_primitives.h).
#pragma once

#include <trifold/cpu.h>

#include <cstdint>

using __mbarrier_t = uint64_t;
using __mbarrier_token_t = uint64_t;

inline constexpr uint32_t __mbarrier_maximum_count() {
  return (1 << 20) - 1;
}
inline void __mbarrier_init(__mbarrier_t* barrier, uint32_t count, trifold::cpu::Line line = {}) {
  trifold::cpu::init_mbarrier(barrier, count, line);
}
inline void __mbarrier_inval(__mbarrier_t* barrier, trifold::cpu::Line line = {}) {
  trifold::cpu::invalidate_mbarrier(barrier, line);
}
inline __mbarrier_token_t __mbarrier_arrive(__mbarrier_t* barrier, trifold::cpu::Line line = {}) {
  return trifold::cpu::arrive_at_mbarrier(barrier, {}, line);
}
inline __mbarrier_token_t __mbarrier_arrive_and_drop(__mbarrier_t* barrier, trifold::cpu::Line line = {}) {
  return trifold::cpu::arrive_at_mbarrier(barrier, {.drops = true}, line);
}
inline bool __mbarrier_test_wait(__mbarrier_t* barrier, __mbarrier_token_t token, trifold::cpu::Line line = {}) {
  return trifold::cpu::wait_at_mbarrier(barrier, {token, false, trifold::cpu::Patience::none}, line);
}
inline bool __mbarrier_test_wait_parity(__mbarrier_t* barrier, bool parity, trifold::cpu::Line line = {}) {
  return trifold::cpu::wait_at_mbarrier(barrier, {parity, true, trifold::cpu::Patience::none}, line);
}
inline bool __mbarrier_try_wait(__mbarrier_t* barrier, __mbarrier_token_t token, uint32_t,
                                trifold::cpu::Line line = {}) {
  return trifold::cpu::wait_at_mbarrier(barrier, {token, false, trifold::cpu::Patience::tries}, line);
}
inline bool __mbarrier_try_wait_parity(__mbarrier_t* barrier, bool parity, uint32_t, trifold::cpu::Line line = {}) {
  return trifold::cpu::wait_at_mbarrier(barrier, {parity, true, trifold::cpu::Patience::tries}, line);
}
inline uint32_t __mbarrier_token_pending_count(__mbarrier_token_t token) {
  return static_cast<uint32_t>(token >> 32);
}
