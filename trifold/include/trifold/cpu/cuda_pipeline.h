// cuda::pipeline of a thread and of a block, and cuda::memcpy_async with it (libcu++, "cuda::pipeline"). A thread's
// stages are its groups of cp.async; each stage of a block has two barriers in shared memory, one for full and one for
// empty.
#pragma once

#include <trifold/cpu/asynchronous.h>
#include <trifold/cpu/cuda_copies.h>
#include <trifold/cuda.cuh>

#include <cstddef>
#include <cstdint>

namespace cuda {

enum class pipeline_role { producer, consumer };

namespace details {

using trifold::cpu::GroupKind;

// Shared by the threads of a block's pipeline: each fills and uses all stages in their order.
struct Stage {
  uint64_t full, empty;
};

// A thread's position: a stage, and the parity of the next phase of its barriers.
struct Place {
  unsigned stage = 0;
  bool parity = false;

  void advance(unsigned stages) {
    if (++stage < stages) return;
    stage = 0;
    parity = !parity;
  }
};

inline void wait_for(uint64_t* barrier, bool parity, Line line) {
  trifold::cpu::wait_at_mbarrier(barrier, {parity ? 1u : 0u, true, trifold::cpu::Patience::waits}, line);
}

}  // namespace details

template <thread_scope scope, uint8_t stages>
struct pipeline_shared_state {
  static_assert(scope == thread_scope_block, "on the CPU the state of a cuda::pipeline is one of thread_scope_block");

  details::Stage stage[stages];
  unsigned members, producers;
};

template <thread_scope scope>
class pipeline {
  static_assert(scope == thread_scope_block, "on the CPU a cuda::pipeline is of thread_scope_thread or _block");

 public:
  // `producers` of the group's threads fill the stages. If these are all threads, they also use them.
  template <class Group, uint8_t stages>
  pipeline(const Group& group, pipeline_shared_state<scope, stages>& state, unsigned producers, Line line)
      : stages_(state.stage), stage_count_(stages), members_(&state.members), line_(line) {
    const auto all = static_cast<unsigned>(group.size());
    if (group.thread_rank() == 0) {
      state.members = all;
      for (auto& [full, empty] : state.stage) {
        trifold::cpu::init_mbarrier(&full, producers, line);
        trifold::cpu::init_mbarrier(&empty, producers < all ? all - producers : all, line);
      }
    }
    group.sync(line);
  }
  pipeline(const pipeline&) = delete;
  pipeline& operator=(const pipeline&) = delete;
  ~pipeline() {
    if (stages_ != nullptr) quit(line_);
  }

  // At a barrier without arrivals, waiting for the phase before the first one succeeds at once.
  void producer_acquire(Line line = {}) { details::wait_for(&stages_[filled_.stage].empty, !filled_.parity, line); }
  void producer_commit(Line line = {}) {
    trifold::cpu::arrive_after_copies(full(), true, line);
    trifold::cpu::arrive_at_mbarrier(full(), {}, line);
    filled_.advance(stage_count_);
  }
  void consumer_wait(Line line = {}) { details::wait_for(&stages_[used_.stage].full, used_.parity, line); }
  void consumer_release(Line line = {}) {
    trifold::cpu::arrive_at_mbarrier(&stages_[used_.stage].empty, {}, line);
    used_.advance(stage_count_);
  }
  // The thread leaves the pipeline. Returns true to the last one, after which the memory is no barrier any more.
  bool quit(Line line = {}) {
    details::Stage* const stages = stages_;
    stages_ = nullptr;
    if (atomicSub(members_, 1u) != 1) return false;
    for (unsigned i = 0; i < stage_count_; ++i) {
      trifold::cpu::invalidate_mbarrier(&stages[i].full, line);
      trifold::cpu::invalidate_mbarrier(&stages[i].empty, line);
    }
    return true;
  }

 private:
  uint64_t* full() const { return &stages_[filled_.stage].full; }

  details::Stage* stages_;
  unsigned stage_count_;
  unsigned* members_;
  details::Place filled_, used_;
  Line line_;
};

// Its stages are the thread's groups of copies.
template <>
class pipeline<thread_scope_thread> {
 public:
  void producer_acquire() {}
  void producer_commit(Line line = {}) {
    trifold::cpu::commit_group(details::GroupKind::copies, line);
    ++committed_;
  }
  // Waits for the oldest stage that has not been released.
  void consumer_wait(Line line = {}) {
    const unsigned newer = committed_ > released_ ? committed_ - released_ - 1 : 0;
    trifold::cpu::wait_for_groups(details::GroupKind::copies, newer, false, line);
  }
  void consumer_release() { ++released_; }
  bool quit() { return true; }

 private:
  unsigned committed_ = 0, released_ = 0;
};

// ---------------------------------------------------------------------------------------------------- making one

inline pipeline<thread_scope_thread> make_pipeline() {
  return {};
}
// All threads fill and use the stages; or the first ones fill them, and the others use them; or each thread states its
// role.
template <class Group, thread_scope scope, uint8_t stages>
pipeline<scope> make_pipeline(const Group& group, pipeline_shared_state<scope, stages>* state, Line line = {}) {
  return {group, *state, static_cast<unsigned>(group.size()), line};
}
template <class Group, thread_scope scope, uint8_t stages>
pipeline<scope> make_pipeline(const Group& group, pipeline_shared_state<scope, stages>* state, size_t producers,
                              Line line = {}) {
  return {group, *state, static_cast<unsigned>(producers), line};
}
template <class Group, thread_scope scope, uint8_t stages>
pipeline<scope> make_pipeline(const Group& group, pipeline_shared_state<scope, stages>* state, pipeline_role role,
                              Line line = {}) {
  if (group.thread_rank() == 0) state->producers = 0;
  group.sync(line);
  if (role == pipeline_role::producer) atomicAdd(&state->producers, 1u);
  group.sync(line);
  return {group, *state, state->producers, line};
}

// Waits for all but this many of the thread's groups; and the same for its copies so far, by a barrier.
template <uint8_t prior>
void pipeline_consumer_wait_prior(pipeline<thread_scope_thread>&, Line line = {}) {
  trifold::cpu::wait_for_groups(details::GroupKind::copies, prior, false, line);
}
inline void pipeline_producer_commit(pipeline<thread_scope_thread>&, barrier<thread_scope_block>& at, Line line = {}) {
  trifold::cpu::arrive_after_copies(native_handle_of(at), true, line);
}

// ---------------------------------------------------------------------------------------------------- copies

// Into a stage that the thread, or its group, has acquired.
template <thread_scope scope>
void memcpy_async(void* to, const void* from, size_t bytes, pipeline<scope>&, Line line = {}) {
  details::start_copies(details::Alone(), to, from, bytes, line);
}
template <class Group, thread_scope scope>
void memcpy_async(const Group& group, void* to, const void* from, size_t bytes, pipeline<scope>&, Line line = {}) {
  details::start_copies(group, to, from, bytes, line);
}

}  // namespace cuda
