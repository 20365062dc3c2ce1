// Barriers in shared memory: operations of threads and of asynchronous operations on them, and waiting.
#include <bit>
#include <string>
#include <utility>

#include "checker.h"
#include "execution.h"

namespace trifold::engine {
namespace {

// How often all try_waits of a cluster time out, without any other event, before it is considered deadlocked: high
// enough for loops that give up after some tries.
constexpr uint32_t most_time_outs = 32;

Actor actor(const Thread& thread) {
  return {&thread, thread.waiting_at, operation_of(thread)};
}

std::string number(uint64_t value) {
  return std::to_string(value);
}

}  // namespace

// ------------------------------------------------------------------------------------------------- objects

void Execution::init_mbarrier(Thread& thread, Block& owner, uint32_t offset, uint64_t count) {
  ++events_;
  const Actor by = actor(thread);
  if (offset % mbarrier_bytes != 0)
    return misuse(by, owner, offset, "which does not begin at a multiple of 8 bytes: let it be a uint64_t.");
  if (&owner != thread.block)
    return misuse(
        by, owner, offset,
        "which is another block's: a block initialises, and waits at, barriers of its own shared memory only.");
  if (count == 0 || count > most_arrivals)
    return misuse(by, owner, offset,
                  "for " + number(count) + " arrivals: the count is a number from 1 to " + number(most_arrivals) + ".");
  MBarrier& barrier = owner.mbarriers[offset];
  if (barrier.live) {
    const bool by_other = barrier.initialised.thread != &thread;
    misuse(by, owner, offset,
           std::string("which is initialised already: ") +
               (by_other ? "let one thread do it." : "once is enough, or mbarrier.inval must come before."),
           &barrier.initialised);
  }
  std::vector<Thread*> waiting = std::move(barrier.waiting);
  barrier = MBarrier{};
  barrier.owner = &owner;
  barrier.offset = offset;
  barrier.live = true;
  barrier.expected = barrier.pending = static_cast<uint32_t>(count);
  barrier.initialised = by;
  barrier.since = launch_.now;
  barrier.waiting = std::move(waiting);
}

void Execution::invalidate_mbarrier(Thread& thread, Block& owner, uint32_t offset) {
  ++events_;
  MBarrier* const barrier = find_mbarrier(thread, owner, offset, true);
  if (barrier == nullptr) return;
  barrier->live = false;
  barrier->invalidated = actor(thread);
}

MBarrier* Execution::mbarrier_for(const Actor& by, Block& owner, uint32_t offset) {
  if (offset % mbarrier_bytes != 0) {
    misuse(by, owner, offset, "which does not begin at a multiple of 8 bytes: let it be a uint64_t.");
    return nullptr;
  }
  const auto found = owner.mbarriers.find(offset);
  if (found != owner.mbarriers.end() && found->second.live) return &found->second;
  const bool was = found != owner.mbarriers.end();
  misuse(
      by, owner, offset,
      was ? "which is invalidated: from then on it is plain memory."
          : "which nobody has initialised: mbarrier.init comes first, and a barrier of the block (of the cluster, for "
            "other blocks' threads) between that and each use.",
      was ? &found->second.invalidated : nullptr);
  return nullptr;
}

MBarrier* Execution::find_mbarrier(Thread& thread, Block& owner, uint32_t offset, bool own_only) {
  const Actor by = actor(thread);
  if (own_only && &owner != thread.block) {
    misuse(
        by, owner, offset,
        "which is another block's: that has no form for .shared::cluster. A block initialises, and waits at, barriers "
        "of its own shared memory only; it may arrive at those of others, without asking for the state.");
    return nullptr;
  }
  MBarrier* const barrier = mbarrier_for(by, owner, offset);
  if (barrier == nullptr || launch_.checker == nullptr || launch_.checker->knows_init(*barrier, thread)) return barrier;
  misuse(by, owner, offset,
         std::string("and nothing orders its initialisation before that: put ") +
             (&owner == thread.block ? "a syncthreads" : "a barrier of the cluster (cluster.sync())") +
             " between the two.",
         &barrier->initialised);
  return barrier;
}

void Execution::fence_mbarrier_inits(const Thread& thread) {
  for (auto& [offset, barrier] : thread.block->mbarriers)
    barrier.fenced |= barrier.live && barrier.initialised.thread == &thread;
}

// ------------------------------------------------------------------------------------------------- arrivals and bytes

MBarrierState Execution::arrive_at_mbarrier(Thread& thread, Block& owner, uint32_t offset, const Arrival& arrival) {
  ++events_;
  MBarrier* const barrier = find_mbarrier(thread, owner, offset, arrival.own_only);
  if (barrier == nullptr) return {0, 0};
  const Actor by = actor(thread);
  const MBarrierState before{barrier->phase, barrier->pending};
  if (launch_.checker != nullptr && barrier->seen < barrier->phase)
    misuse(by, owner, offset,
           "in its phase " + number(barrier->phase) + ", but no test_wait or try_wait has seen that phase " +
               number(barrier->phase - 1) +
               " has ended: before anyone arrives in a phase, some thread has to wait for the one before it.");
  if (arrival.expects) expect(*barrier, by, arrival.bytes);
  if (arrival.count == 0 || arrival.count > barrier->pending) {
    misuse(by, owner, offset,
           "with a count of " + number(arrival.count) + ", where its phase " + number(barrier->phase) + " waits for " +
               (barrier->pending == 0 ? "bytes only" : "only " + number(barrier->pending) + " more") + " of " +
               number(barrier->expected) + " arrivals: more come than it is initialised for.",
           &barrier->initialised);
    return before;
  }
  if (launch_.checker != nullptr) launch_.checker->arrive_at_mbarrier(*barrier, thread, arrival);
  count_arrivals(*barrier, by, arrival);
  return before;
}

void Execution::arrive_later(MBarrier& barrier, const Actor& by, uint32_t count, Knowledge released) {
  ++events_;
  if (count > barrier.pending)
    return misuse(by, *barrier.owner, barrier.offset,
                  "whose phase " + number(barrier.phase) + " waits for " + number(barrier.pending) + " more of " +
                      number(barrier.expected) + " arrivals: more come than it is initialised for.",
                  &barrier.initialised);
  if (launch_.checker != nullptr) launch_.checker->release_at_mbarrier(barrier, released);
  count_arrivals(barrier, by, {.count = count});
}

void Execution::count_arrivals(MBarrier& barrier, const Actor& by, const Arrival& arrival) {
  barrier.pending -= arrival.count;
  if (arrival.drops) barrier.expected -= arrival.count;
  if (!barrier.is_complete()) return;
  if (arrival.must_not_complete)
    misuse(by, *barrier.owner, barrier.offset,
           "by .noComplete, but phase " + number(barrier.phase) +
               " ends with it: that form is for arrivals after which others are still to come.");
  end_phase(barrier);
}

void Execution::expect_at_mbarrier(Thread& thread, Block& owner, uint32_t offset, uint32_t bytes, bool own_only) {
  ++events_;
  if (MBarrier* const barrier = find_mbarrier(thread, owner, offset, own_only); barrier != nullptr)
    expect(*barrier, actor(thread), bytes);
}

void Execution::expect(MBarrier& barrier, const Actor& by, int64_t bytes) {
  barrier.transactions += bytes;
  if (barrier.transactions <= most_transactions) return;
  misuse(by, *barrier.owner, barrier.offset,
         "which then expects " + std::to_string(barrier.transactions) + " bytes in its phase " + number(barrier.phase) +
             ": it counts up to " + std::to_string(most_transactions) + ".");
}

void Execution::complete_at_mbarrier(Thread& thread, Block& owner, uint32_t offset, uint32_t bytes, bool own_only) {
  if (MBarrier* const barrier = find_mbarrier(thread, owner, offset, own_only); barrier != nullptr)
    complete_transactions(*barrier, actor(thread), bytes, 0);
}

void Execution::complete_transactions(MBarrier& barrier, const Actor& by, uint32_t bytes, Knowledge written) {
  ++events_;
  barrier.transactions -= bytes;
  if (barrier.transactions < -most_transactions)
    misuse(by, *barrier.owner, barrier.offset,
           "to which then " + std::to_string(-barrier.transactions) + " bytes have come that its phase " +
               number(barrier.phase) + " does not expect: it counts down to -" + std::to_string(most_transactions) +
               ".");
  if (launch_.checker != nullptr && written != 0) launch_.checker->release_at_mbarrier(barrier, written);
  if (barrier.is_complete()) end_phase(barrier);
}

void Execution::end_phase(MBarrier& barrier) {
  if (launch_.checker != nullptr) launch_.checker->end_phase(barrier);
  ++barrier.phase;
  barrier.pending = barrier.expected;
  std::erase_if(barrier.waiting, [&](Thread* const thread) {
    const auto& wait = *reinterpret_cast<const MBarrierWait*>(thread->request.value);
    if (!has_ended(*thread, barrier, wait)) return false;
    thread->request.predicate = true;
    thread->warp->at_mbarrier &= ~bit(*thread);
    thread->warp->ready |= bit(*thread);
    return true;
  });
}

// ------------------------------------------------------------------------------------------------- waits

bool Execution::has_ended(Thread& thread, const MBarrier& barrier, const MBarrierWait& wait) {
  if (barrier.phase <= wait.phase) return false;
  if (launch_.checker != nullptr) launch_.checker->acquire_at_mbarrier(barrier, thread, wait.scope);
  return true;
}

bool Execution::has_ended(Thread& thread, MBarrierWait& wait, MBarrierState state) {
  const MBarrier* const barrier = find_mbarrier(thread, *wait.owner, wait.offset, true);
  if (barrier == nullptr) return true;
  wait.phase = state.phase;
  if (state.phase + 1 < barrier->phase || state.phase > barrier->phase)
    misuse(actor(thread), *wait.owner, wait.offset,
           "for the end of phase " + number(state.phase) + ", but it is in phase " + number(barrier->phase) +
               ": a state is good for the phase in which it was made and the one after it, and at its own barrier.");
  return has_ended(thread, *barrier, wait);
}

// A barrier without a completed phase behaves as after a phase of odd parity.
bool Execution::has_ended(Thread& thread, MBarrierWait& wait, uint32_t parity) {
  const MBarrier* const barrier = find_mbarrier(thread, *wait.owner, wait.offset, true);
  if (barrier == nullptr) return true;
  if (parity > 1)
    misuse(actor(thread), *wait.owner, wait.offset,
           "for a phase of parity " + number(parity) + ": that is 0 or 1, the number of the phase modulo 2.");
  const bool over = (barrier->phase & 1) != (parity & 1);
  wait.phase = barrier->phase - (over ? 1 : 0);
  if (over && barrier->phase == 0) return true;
  return has_ended(thread, *barrier, wait);
}

void Execution::saw_end(const MBarrierWait& wait) {
  const auto found = wait.owner->mbarriers.find(wait.offset);
  if (found == wait.owner->mbarriers.end()) return;
  found->second.seen = std::max(found->second.seen, wait.phase + 1);
}

bool Execution::fails_try_wait() {
  return launch_.seed != 0 && chances_.below(4) == 0;
}

// The phase may have ended since the thread tested it.
void Execution::wait_at_mbarrier(Thread& thread) {
  const auto& wait = *reinterpret_cast<const MBarrierWait*>(thread.request.value);
  MBarrier& barrier = wait.owner->mbarriers[wait.offset];
  thread.request.predicate = has_ended(thread, barrier, wait);
  (thread.request.predicate ? thread.warp->ready : thread.warp->at_mbarrier) |= bit(thread);
  if (!thread.request.predicate) barrier.waiting.push_back(&thread);
}

// No thread of the cluster can run: waits with a time limit expire.
bool Execution::end_try_waits(Cluster& cluster) {
  if (cluster.live == 0) return false;
  if (cluster.events_at_time_out != events_) cluster.time_outs = 0;
  if (cluster.time_outs == most_time_outs) return false;
  bool any = false;
  for (Block* const block : cluster.blocks) {
    for (Warp& warp : block->warps) {
      for (uint32_t lanes = warp.at_mbarrier; lanes != 0; lanes &= lanes - 1) {
        Thread& thread = warp.lanes[std::countr_zero(lanes)];
        const auto& wait = *reinterpret_cast<const MBarrierWait*>(thread.request.value);
        if (!wait.may_fail) continue;
        any = true;
        std::erase(wait.owner->mbarriers[wait.offset].waiting, &thread);
        thread.request.predicate = false;
        warp.at_mbarrier &= ~bit(thread);
        warp.ready |= bit(thread);
      }
    }
  }
  ++cluster.time_outs;
  cluster.events_at_time_out = events_;
  return any;
}

}  // namespace trifold::engine
