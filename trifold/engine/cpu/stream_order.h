// The order of a program's work: which operations of its streams have certainly ended before another one, or before the
// host goes on. (CUDA Runtime API, "Stream synchronization behavior" and "API synchronization behavior".)
//
// On the CPU an operation is complete when its call returns; a GPU overlaps those that nothing orders. Each operation
// is the number-th of its stream and has a vector clock: up to which operation of each stream it comes after. The
// clocks follow CUDA's rules:
//
//   a stream           orders its own operations;
//   the legacy default stream's operations come after all earlier ones of blocking streams, and before all later ones;
//   an event           has its stream's clock when it is recorded; a stream that waits for it joins that clock;
//   the host           has a clock, too, which each of its waits joins, and which each later operation joins;
//   a copy             that is not asynchronous, or to pageable memory, has ended for the host when its call returns;
//                      cudaMemcpy within the device and cudaMemset have not;
//   cudaFree           waits for the device, except for memory of cudaMallocAsync; cudaMalloc and its like order what
//                      streams were told before and after, without waiting;
//   a graph            is one operation; its nodes are ordered with each other by their dependencies alone.
//
// All threads of the host are one: what orders them is unknown. cudaMemcpy from pageable memory counts as complete.
//
// stream_accesses.h keeps what unordered operations have accessed, and compares.
#pragma once

#include <trifold/cpu/streams.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trifold::cpu {

// An operation: the number-th of a stream, from 1.
struct Moment {
  uint32_t stream = 0, number = 0;

  bool operator==(const Moment&) const = default;
};

class Clock {
 public:
  bool knows(Moment moment) const { return moment.stream < known_.size() && known_[moment.stream] >= moment.number; }
  void join(Moment moment);
  void join(const Clock& other);

 private:
  std::vector<uint32_t> known_;  // by stream
};

// A set of nodes of the graph that runs, by their numbers from 1 on.
using NodeSet = std::vector<bool>;

// The operation that the calling OS thread executes; null: none, its host code runs.
struct RunningOperation {
  Moment moment;
  uint64_t call = 0;  // its place in the order of calls
  Clock clock{};      // what it comes after, and itself
  Line line{nullptr, 0};
  uint32_t node = 0, nodes = 0;  // of a graph: the one that runs (0: none), and how many have begun
  NodeSet before{};              // the nodes that this one comes after
  bool reaches_host = false;     // it accesses memory other than the device's
  bool to_pageable = false;
  std::unique_ptr<RunningOperation> outer = nullptr;  // that of a host function, which calls CUDA although it must not
};
RunningOperation* current_operation();

// Whether an operation, or a node of it, has certainly ended for the calling thread's operation or host code.
bool has_ended(Moment moment, uint32_t node);
// A missing order has been reported: from now on it is assumed, so that it is reported once.
void assume_ended(Moment moment, uint32_t node);
bool host_knows(Moment moment);

// The execution of a graph's nodes as parts of the thread's operation. It may be a node of another graph.
class GraphRun {
 public:
  GraphRun();
  ~GraphRun();
  GraphRun(const GraphRun&) = delete;
  GraphRun& operator=(const GraphRun&) = delete;

  void begin_after(const void* node);  // the next node comes after this one, which has ended
  void begin();
  void end(const void* node);

 private:
  uint32_t outer_node_;
  NodeSet outer_before_;
  std::map<const void*, NodeSet> ended_;  // the nodes that come before what depends on a node
};

// The host waits for all streams; and all streams' later operations come after all earlier ones.
void host_waits_for_all();
void order_all_streams();

// Whether operations can be unordered at all: the program has made a stream or launched a graph.
bool has_streams();

// "stream 2", by the order in which the program makes them; and " Stream 2 is made at main.cu:12.", of its own ones.
std::string describe_stream(uint32_t stream);
std::string describe_making(uint32_t stream);
// Whether one of them is the legacy default stream and the other one does not wait for it.
bool ignore_each_other(uint32_t one, uint32_t other);
// A sentence on the event for which a stream waited last, which did not make it wait for this operation, called before;
// empty: it has not waited since.
std::string describe_last_wait(uint32_t stream, Moment missed, uint64_t call);

}  // namespace trifold::cpu
