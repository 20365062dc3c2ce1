// cuda::barrier of a block (libcu++, "cuda::barrier"), a barrier in its shared memory.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/cuda_scopes.h>
#include <trifold/cpu/standard.h>
#include <trifold/cuda.cuh>

#include <cstddef>
#include <cstdint>

namespace cuda {

using trifold::cpu::Line;

template <thread_scope scope>
class barrier {
  static_assert(scope == thread_scope_block, "on the CPU a cuda::barrier is one of thread_scope_block");

 public:
  // The phase in which a thread has arrived.
  class arrival_token {
   public:
    arrival_token() = default;
    arrival_token(arrival_token&&) = default;
    arrival_token& operator=(arrival_token&&) = default;

   private:
    friend class barrier;
    explicit arrival_token(uint64_t state) : state_(state) {}
    uint64_t state_;
  };

  barrier() = default;
  explicit barrier(ptrdiff_t count, Line line = {}) { init(this, count, line); }
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;

  friend void init(barrier* made, ptrdiff_t count, Line line = {}) {
    trifold::cpu::init_mbarrier(&made->native_, static_cast<unsigned>(count), line);
  }
  static constexpr ptrdiff_t(max)() { return (1 << 20) - 1; }

  [[nodiscard]] arrival_token arrive(ptrdiff_t count = 1, Line line = {}) {
    return arrive({.count = static_cast<unsigned>(count)}, line);
  }
  void wait(arrival_token&& token, Line line = {}) const { wait_for(token.state_, false, line); }
  void wait_parity(bool parity, Line line = {}) const { wait_for(parity ? 1 : 0, true, line); }
  // May return false spuriously.
  [[nodiscard]] bool try_wait(arrival_token&& token, Line line = {}) const {
    return wait_for(token.state_, false, line, trifold::cpu::Patience::tries);
  }
  [[nodiscard]] bool try_wait_parity(bool parity, Line line = {}) const {
    return wait_for(parity ? 1 : 0, true, line, trifold::cpu::Patience::tries);
  }
  void arrive_and_wait(Line line = {}) { wait(arrive(1, line), line); }
  void arrive_and_drop(Line line = {}) { arrive({.drops = true}, line); }

  friend uint64_t* native_handle_of(barrier& of) { return &of.native_; }
  static arrival_token token_of(uint64_t state) { return arrival_token(state); }

 private:
  arrival_token arrive(const trifold::cpu::MBarrierArrival& arrival, Line line) {
    return arrival_token(trifold::cpu::arrive_at_mbarrier(&native_, arrival, line));
  }
  bool wait_for(uint64_t of, bool by_parity, Line line,
                trifold::cpu::Patience patience = trifold::cpu::Patience::waits) const {
    return trifold::cpu::wait_at_mbarrier(&native_, {of, by_parity, patience}, line);
  }

  mutable uint64_t native_;
};

namespace device {

inline uint64_t* barrier_native_handle(barrier<thread_scope_block>& of) {
  return native_handle_of(of);
}
// Bytes for which the current phase waits; and the same together with arrivals.
inline void barrier_expect_tx(barrier<thread_scope_block>& at, ptrdiff_t bytes, Line line = {}) {
  trifold::cpu::expect_at_mbarrier(native_handle_of(at), static_cast<unsigned>(bytes), true, line);
}
[[nodiscard]] inline barrier<thread_scope_block>::arrival_token barrier_arrive_tx(barrier<thread_scope_block>& at,
                                                                                  ptrdiff_t count, ptrdiff_t bytes,
                                                                                  Line line = {}) {
  const trifold::cpu::MBarrierArrival arrival{
      .count = static_cast<unsigned>(count), .bytes = static_cast<unsigned>(bytes), .expects = true};
  return barrier<thread_scope_block>::token_of(trifold::cpu::arrive_at_mbarrier(native_handle_of(at), arrival, line));
}

}  // namespace device

}  // namespace cuda
