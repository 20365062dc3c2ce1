// Warp operations: the lanes named by a mask meet, and each gets its result.
#include <bit>
#include <utility>

#include "checker.h"
#include "execution.h"

namespace trifold::engine {

namespace {

template <typename Visit>
void for_lanes(uint32_t lanes, Visit&& visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<uint32_t>(std::countr_zero(lanes)));
}

// The source lane, and whether it is in range, as PTX defines shfl.sync (PTX ISA, "Data Movement and Conversion
// Instructions: shfl.sync"). Out of range, a lane gets its own value.
void choose_source(Thread& thread, uint32_t lanes) {
  Request& request = thread.request;
  const auto lane = static_cast<int32_t>(thread.lane), operand = static_cast<int32_t>(request.lane & 0x1f);
  const auto segment = static_cast<int32_t>(request.clamp >> 8 & 0x1f), clamp = static_cast<int32_t>(request.clamp);
  const int32_t first = lane & segment, last = first | (clamp & 0x1f & ~segment);
  int32_t source = lane;
  bool in_range = true;
  switch (operation_of(thread)) {
    case Operation::shuffle_up:
      source = lane - operand;
      in_range = source >= last;
      break;
    case Operation::shuffle_down:
      source = lane + operand;
      in_range = source <= last;
      break;
    case Operation::shuffle_xor:
      source = lane ^ operand;
      in_range = source <= last;
      break;
    default: source = first | (operand & ~segment); in_range = source <= last;
  }
  request.source = static_cast<uint8_t>(in_range ? source : lane);
  request.predicate = in_range;
  request.undefined = (lanes >> request.source & 1) == 0;
}

// Those of these lanes whose operand is the same.
uint32_t same_value(const Warp& warp, uint32_t lanes, uint64_t value) {
  uint32_t same = 0;
  for_lanes(lanes, [&](uint32_t lane) { same |= warp.lanes[lane].request.value == value ? 1u << lane : 0u; });
  return same;
}

void match_any(Warp& warp, uint32_t lanes) {
  for (uint32_t left = lanes; left != 0;) {
    const uint32_t same = same_value(warp, left, warp.lanes[std::countr_zero(left)].request.value);
    left &= ~same;
    for_lanes(same, [&](uint32_t lane) { warp.lanes[lane].request.value = same; });
  }
}

void match_all(Warp& warp, uint32_t lanes) {
  const bool all = same_value(warp, lanes, warp.lanes[std::countr_zero(lanes)].request.value) == lanes;
  for_lanes(lanes, [&](uint32_t lane) {
    warp.lanes[lane].request.predicate = all;
    warp.lanes[lane].request.value = all ? lanes : 0;
  });
}

void vote(Warp& warp, uint32_t lanes, Operation operation) {
  uint32_t ballot = 0;
  for_lanes(lanes, [&](uint32_t lane) { ballot |= warp.lanes[lane].request.predicate ? 1u << lane : 0u; });
  const bool all = ballot == lanes, any = ballot != 0;
  const bool answer = operation == Operation::vote_all ? all : operation == Operation::vote_any ? any : all || !any;
  for_lanes(lanes, [&](uint32_t lane) {
    warp.lanes[lane].request.predicate = answer;
    warp.lanes[lane].request.value = ballot;
  });
}

// Whether these lanes, and all lanes that they wait for, wait.
bool nobody_else_can_come(const Warp& warp, uint32_t lanes) {
  for (uint32_t seen = 0; seen != lanes;) {
    seen = lanes;
    for_lanes(seen & warp.at_rendezvous, [&](uint32_t lane) { lanes |= warp.lanes[lane].request.mask & warp.live; });
  }
  return (lanes & ~warp.at_rendezvous) == 0;
}

}  // namespace

void Execution::arrive_at_rendezvous(Thread& thread) {
  Warp& warp = *thread.warp;
  if ((thread.request.mask >> thread.lane & 1) == 0) not_in_own_mask(thread);
  const uint32_t mask = thread.request.mask |= 1u << thread.lane;
  warp.at_rendezvous |= 1u << thread.lane;
  // Lanes that have exited, or were never launched, are not waited for, even if the mask names them.
  if ((mask & warp.live & ~warp.at_rendezvous) == 0) meet(warp, thread.request);
}

// A lane has exited: those that waited for it alone continue.
void Execution::meet_without(Warp& warp, uint32_t lane) {
  for (uint32_t waiting = warp.at_rendezvous; waiting != 0; waiting &= warp.at_rendezvous) {
    const Thread& thread = warp.lanes[std::countr_zero(waiting)];
    waiting &= waiting - 1;
    const uint32_t mask = thread.request.mask;
    if ((mask >> lane & 1) != 0 && (mask & warp.live & ~warp.at_rendezvous) == 0) meet(warp, thread.request);
  }
}

// All lanes named by this request wait; in a correct kernel, for the same operation.
void Execution::meet(Warp& warp, const Request& asked) {
  const uint32_t lanes = asked.mask & warp.live;
  const auto operation = static_cast<Operation>(asked.operation);
  const Site site = warp.lanes[std::countr_zero(lanes)].waiting_at;
  bool same = true;
  for_lanes(lanes, [&](uint32_t lane) {
    const Thread& thread = warp.lanes[lane];
    same &= thread.request.mask == asked.mask && thread.request.operation == asked.operation;
    // Lanes may call a syncwarp at different lines: CUDA requires only the same mask.
    same &= thread.waiting_at == site || operation == Operation::sync_warp;
  });
  if (!same) {
    // A lane may first have to meet others that have yet to arrive.
    if (nobody_else_can_come(warp, lanes)) different_calls(warp, lanes);
    return;
  }
  switch (operation) {
    case Operation::sync_warp: break;
    case Operation::match_any: match_any(warp, lanes); break;
    case Operation::match_all: match_all(warp, lanes); break;
    case Operation::vote_all:
    case Operation::vote_any:
    case Operation::vote_equal:
    case Operation::ballot: vote(warp, lanes, operation); break;
    case Operation::shuffle:
    case Operation::shuffle_up:
    case Operation::shuffle_down:
    case Operation::shuffle_xor:
      for_lanes(lanes, [&](uint32_t lane) { choose_source(warp.lanes[lane], lanes); });
      front_.shuffle(warp, lanes);
      break;
    default:
      if (~lanes != 0) not_whole_warp(warp, lanes);
      front_.work_together(warp);
  }
  // The only warp operation that orders memory accesses: a compiler may move them past a shuffle or a vote.
  if (launch_.checker != nullptr && operation == Operation::sync_warp) launch_.checker->rendezvous(warp, lanes);
  warp.at_rendezvous &= ~lanes;
  warp.ready |= lanes;
}

// When no lane of the warp can run, those that wait at one line are its active lanes. False: no lane waits so.
bool Execution::answer_active_mask(Warp& warp) {
  if (warp.at_active_mask == 0) return false;
  for (uint32_t left = warp.at_active_mask; left != 0;) {
    const Site site = warp.lanes[std::countr_zero(left)].waiting_at;
    uint32_t together = 0;
    for_lanes(left, [&](uint32_t lane) { together |= warp.lanes[lane].waiting_at == site ? 1u << lane : 0u; });
    for_lanes(together, [&](uint32_t lane) { warp.lanes[lane].request.value = together; });
    left &= ~together;
  }
  warp.ready |= std::exchange(warp.at_active_mask, 0);
  return true;
}

}  // namespace trifold::engine
