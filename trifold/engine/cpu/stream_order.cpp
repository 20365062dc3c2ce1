#include "stream_order.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "device_memory.h"
#include "earlier_grid.h"
#include "program_report.h"
#include "stream_accesses.h"

namespace trifold::cpu {
namespace {

// An event that a stream waited for.
struct LastWait {
  bool was_recorded = false;
  Moment recorded{};  // the last operation of its stream then
  uint64_t call = 0;  // its place in the order of calls; 0: the stream has not waited
  Line record{nullptr, 0}, wait{nullptr, 0};
};

struct Stream {
  std::string name;
  Line made{nullptr, 0};
  bool blocking = true, live = true;
  uint32_t number = 0;  // operations
  Clock clock{};
  LastWait last_wait{};
};

struct Event {
  Clock clock;
  Moment recorded{};
  Line line{nullptr, 0};
};

struct Order {
  std::recursive_mutex lock;
  std::deque<Stream> streams;               // the first is the legacy default stream
  std::map<const void*, uint32_t> numbers;  // streams by address
  std::map<const void*, Event> events;      // those that were recorded
  Clock host, all;                          // all: what every later operation comes after
  uint32_t made = 0;                        // streams of the program's own
  uint64_t calls = 0;                       // waits and operations
  bool several = false;

  Order() { streams.push_back({.name = "the default stream"}); }
};

Order& order() {
  static Order& all = *new Order;  // never destroyed: the program may use CUDA while it exits
  return all;
}

using Locked = std::lock_guard<std::recursive_mutex>;

thread_local std::unique_ptr<RunningOperation> running, ended;  // the thread's operation, and its last one

constexpr uint32_t legacy = 0;

// A stream that was destroyed gives its place to a new one, once nothing can depend on the difference.
uint32_t add_stream(Stream stream) {
  Order& all = order();
  for (uint32_t i = 1; i < all.streams.size(); ++i) {
    Stream& old = all.streams[i];
    if (old.live || (old.number != 0 && !all.host.knows({i, old.number}))) continue;
    stream.number = old.number;
    old = std::move(stream);
    return i;
  }
  all.streams.push_back(std::move(stream));
  return static_cast<uint32_t>(all.streams.size() - 1);
}

uint32_t number_of(const void* stream) {
  if (stream == nullptr) return legacy;
  Order& all = order();
  const auto known = all.numbers.find(stream);
  if (known != all.numbers.end()) return known->second;
  all.several = true;
  return all.numbers[stream] = add_stream({.name = "the default stream of a host thread"});
}

// Joins what the stream waits for implicitly before it does what it is told next.
Clock& present(uint32_t number) {
  Order& all = order();
  Stream& stream = all.streams[number];
  stream.clock.join(all.all);
  if (number == legacy) {
    for (const Stream& other : all.streams)
      if (other.blocking) stream.clock.join(other.clock);
  } else if (stream.blocking) {
    stream.clock.join(all.streams[legacy].clock);
  }
  return stream.clock;
}

Error host_waits(const Clock& clock) {
  {
    const Locked alone(order().lock);
    order().host.join(clock);
  }
  forget_accesses_that_ended();
  forget_earlier_grid();
  return device_error();
}

}  // namespace

void Clock::join(Moment moment) {
  if (known_.size() <= moment.stream) known_.resize(moment.stream + 1);
  known_[moment.stream] = std::max(known_[moment.stream], moment.number);
}

void Clock::join(const Clock& other) {
  if (known_.size() < other.known_.size()) known_.resize(other.known_.size());
  for (size_t i = 0; i < other.known_.size(); ++i) known_[i] = std::max(known_[i], other.known_[i]);
}

const void* default_stream_of_thread() {
  thread_local const char address = 0;
  return &address;
}

void note_stream(const void* stream, bool blocking, Line made) {
  const Locked alone(order().lock);
  Order& all = order();
  all.several = true;
  all.numbers[stream] =
      add_stream({.name = "stream " + std::to_string(++all.made), .made = made, .blocking = blocking});
}

void forget_stream(const void* stream) {
  const Locked alone(order().lock);
  const auto known = order().numbers.find(stream);
  if (known == order().numbers.end()) return;
  order().streams[known->second].live = false;
  order().numbers.erase(known);
}

void note_recorded(const void* event, const void* stream, Line line) {
  const Locked alone(order().lock);
  const uint32_t number = number_of(stream);
  order().events[event] = {present(number), {number, order().streams[number].number}, line};
}

void note_awaited(const void* stream, const void* event, Line line) {
  const Locked alone(order().lock);
  const uint32_t number = number_of(stream);
  Stream& waiting = order().streams[number];
  const auto found = order().events.find(event);
  const bool recorded = found != order().events.end();
  waiting.last_wait = {.was_recorded = recorded, .call = ++order().calls, .wait = line};
  if (!recorded) return;
  waiting.last_wait.recorded = found->second.recorded;
  waiting.last_wait.record = found->second.line;
  present(number).join(found->second.clock);
}

void forget_event(const void* event) {
  const Locked alone(order().lock);
  order().events.erase(event);
}

Error wait_for_stream(const void* stream) {
  Clock clock;
  {
    const Locked alone(order().lock);
    const uint32_t number = number_of(stream);
    clock = number == legacy ? present(number) : order().streams[number].clock;
  }
  return host_waits(clock);
}

Error wait_for_event(const void* event) {
  Clock clock;
  {
    const Locked alone(order().lock);
    const auto found = order().events.find(event);
    if (found != order().events.end()) clock = found->second.clock;
  }
  return host_waits(clock);
}

void host_waits_for_all() {
  Clock clock;
  {
    const Locked alone(order().lock);
    for (const Stream& stream : order().streams) clock.join(stream.clock);
  }
  host_waits(clock);
}

void order_all_streams() {
  const Locked alone(order().lock);
  for (const Stream& stream : order().streams) order().all.join(stream.clock);
}

void wait_for_copy() {
  if (ended != nullptr && ended->reaches_host) host_waits(ended->clock);
}

void begin_operation(const void* stream, Line line) {
  const Locked alone(order().lock);
  const uint32_t number = number_of(stream);
  Clock& clock = present(number);
  clock.join(order().host);
  const Moment moment{number, ++order().streams[number].number};
  clock.join(moment);
  running = std::make_unique<RunningOperation>(RunningOperation{
      .moment = moment, .call = ++order().calls, .clock = clock, .line = line, .outer = std::move(running)});
}

void end_operation() {
  ended = std::move(running);
  running = std::move(ended->outer);
  if (ended->to_pageable) {
    host_waits(ended->clock);
  } else if (ended->reaches_host) {
    renew_flights();
  }
}

RunningOperation* current_operation() {
  return running.get();
}

bool has_ended(Moment moment, uint32_t node) {
  if (running == nullptr) return host_knows(moment);
  if (running->moment != moment) return running->clock.knows(moment);
  return node == 0 || node == running->node || (node < running->before.size() && running->before[node]);
}

bool host_knows(Moment moment) {
  const Locked alone(order().lock);
  return order().host.knows(moment);
}

void assume_ended(Moment moment, uint32_t node) {
  const Locked alone(order().lock);
  if (running == nullptr) {
    order().host.join(moment);
  } else if (running->moment != moment) {
    running->clock.join(moment);
    order().streams[running->moment.stream].clock.join(moment);
  } else {
    running->before.resize(std::max<size_t>(running->before.size(), node + 1));
    running->before[node] = true;
  }
}

GraphRun::GraphRun() : outer_node_(running->node), outer_before_(running->before) {
  const Locked alone(order().lock);
  order().several = true;
}

GraphRun::~GraphRun() {
  running->node = outer_node_;
  running->before = std::move(outer_before_);
}

void GraphRun::begin() {
  running->node = ++running->nodes;
  running->before = outer_before_;
}

void GraphRun::begin_after(const void* node) {
  const NodeSet& earlier = ended_[node];
  NodeSet& before = running->before;
  before.resize(std::max(before.size(), earlier.size()));
  for (size_t i = 0; i < earlier.size(); ++i)
    if (earlier[i]) before[i] = true;
}

void GraphRun::end(const void* node) {
  // A child graph's nodes have numbers after its own.
  NodeSet before = running->before;
  before.resize(running->nodes + 1);
  for (uint32_t own = running->node; own <= running->nodes; ++own) before[own] = true;
  ended_[node] = std::move(before);
}

bool has_streams() {
  const Locked alone(order().lock);
  return order().several;
}

std::string describe_stream(uint32_t stream) {
  const Locked alone(order().lock);
  return order().streams[stream].name;
}

std::string describe_making(uint32_t stream) {
  const Locked alone(order().lock);
  const Stream& described = order().streams[stream];
  return described.made.file == nullptr
             ? ""
             : " S" + described.name.substr(1) + " is made at " + place(described.made) + ".";
}

bool ignore_each_other(uint32_t one, uint32_t other) {
  const Locked alone(order().lock);
  return (one == legacy && !order().streams[other].blocking) || (other == legacy && !order().streams[one].blocking);
}

std::string describe_last_wait(uint32_t stream, Moment missed, uint64_t call) {
  const Locked alone(order().lock);
  const Stream& waiting = order().streams[stream];
  const LastWait& last = waiting.last_wait;
  if (last.call < call) return "";  // it was not meant for that operation
  const std::string event = "The event that " + waiting.name + " waited for last, at " + place(last.wait);
  if (!last.was_recorded) return event + ", had not been recorded then: such a wait does nothing.";
  const bool early = last.recorded.stream == missed.stream && last.recorded.number < missed.number;
  return event + ", was recorded at " + place(last.record) + " in " + order().streams[last.recorded.stream].name +
         (early ? ", before that operation." : ".");
}

}  // namespace trifold::cpu
