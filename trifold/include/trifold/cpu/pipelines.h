// CUDA's functions for cp.async. (CUDA C++ Programming Guide, "Pipeline Primitives Interface".)
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/asynchronous.h>
#include <trifold/cuda.cuh>

#include <cstddef>
#include <cstdint>

// The last `zeros` bytes are set to 0 without being read.
inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0,
                                    trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes)
    stop_launch("__pipeline_memcpy_async() of a size that it has not: it copies 4, 8 or 16 bytes,", line);
  start_copy(to, from, bytes, bytes - zeros, line);
}
inline void __pipeline_commit(trifold::cpu::Line line = {}) {
  trifold::cpu::commit_group(trifold::cpu::GroupKind::copies, line);
}
inline void __pipeline_wait_prior(size_t count, trifold::cpu::Line line = {}) {
  trifold::cpu::wait_for_groups(trifold::cpu::GroupKind::copies, static_cast<unsigned>(count), false, line);
}
// The barrier expects one more arrival, which occurs when the thread's copies so far are complete.
inline void __pipeline_arrive_on(uint64_t* barrier, trifold::cpu::Line line = {}) {
  trifold::cpu::arrive_after_copies(barrier, true, line);
}
