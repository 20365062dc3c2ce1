// The graphs and captures of ordinary CUDA programs (trifold/cpu/captures.h).
#include <trifold/cpu/captures.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "stream_order.h"

// A node of a graph. `origin`: in a copy of a graph, the node that it is a copy of.
struct CUgraphNode_st {
  int type;
  trifold::cpu::Work work;
  std::vector<CUgraphNode_st*> after{};
  const CUgraphNode_st* origin = nullptr;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;

  CUgraphNode_st* add(int type, std::vector<CUgraphNode_st*> after, const trifold::cpu::Work& work) {
    nodes.push_back(std::make_unique<CUgraphNode_st>(CUgraphNode_st{type, work, std::move(after)}));
    return nodes.back().get();
  }
  // Whether some node depends on that one.
  bool is_needed(const CUgraphNode_st* node) const {
    return std::ranges::any_of(nodes, [&](const auto& each) { return std::ranges::count(each->after, node) != 0; });
  }
  std::ptrdiff_t number(const CUgraphNode_st* node) const {
    return std::ranges::find_if(nodes, [&](const auto& each) { return each.get() == node; }) - nodes.begin();
  }
  // The nodes, each after those that it depends on; choose(n) is one of n that may come next. Fewer than there are:
  // some depend on each other in a circle.
  template <class Choose>
  std::vector<CUgraphNode_st*> order(const Choose& choose) const {
    std::vector<CUgraphNode_st*> done, ready;
    const auto is_done = [&](const CUgraphNode_st* node) { return std::ranges::count(done, node) != 0; };
    do {
      ready.clear();
      for (const auto& node : nodes)
        if (!is_done(node.get()) && std::ranges::all_of(node->after, is_done)) ready.push_back(node.get());
      if (!ready.empty()) done.push_back(ready[choose(ready.size())]);
    } while (!ready.empty());
    return done;
  }
};

namespace trifold::cpu {
namespace {

// What streams have been told since cudaStreamBeginCapture.
struct Capture {
  CUgraph_st graph{};
  const void* origin = nullptr;
  bool blocking = false;
  int mode = cudaStreamCaptureModeGlobal;
  bool valid = true, ended = false;
};

// Where a stream that is captured, or an event that was recorded in a capture, is in it: what is told next comes after
// these nodes.
struct Point {
  std::shared_ptr<Capture> capture;
  std::vector<CUgraphNode_st*> last{};
};

std::vector<std::shared_ptr<Capture>> captures;  // that have not ended
std::map<const void*, Point> streams, events;

Point* find(std::map<const void*, Point>& points, const void* key) {
  const auto found = points.find(key);
  return found == points.end() ? nullptr : &found->second;
}

}  // namespace

cudaGraph_t make_graph() {
  return new CUgraph_st;
}

void delete_graph(cudaGraph_t graph) {
  delete graph;
}

cudaGraph_t copy_graph(const CUgraph_st* graph) {
  auto copy = std::make_unique<CUgraph_st>();
  for (const auto& node : graph->nodes) copy->add(node->type, {}, node->work)->origin = node.get();
  for (size_t i = 0; i < graph->nodes.size(); ++i)
    for (const CUgraphNode_st* const before : graph->nodes[i]->after)
      copy->nodes[i]->after.push_back(copy_of_node(copy.get(), before));
  return copy.release();
}

cudaGraphNode_t add_node(cudaGraph_t graph, int type, Nodes after, const Work& work) {
  return graph->add(type, {after.first, after.first + after.count}, work);
}

void add_dependency(cudaGraphNode_t before, cudaGraphNode_t after) {
  after->after.push_back(before);
}

int type_of_node(const CUgraphNode_st* node) {
  return node->type;
}

void set_work(cudaGraphNode_t node, const Work& work) {
  node->work = work;
}

cudaGraphNode_t copy_of_node(const CUgraph_st* graph, const CUgraphNode_st* node) {
  const auto found = std::ranges::find_if(graph->nodes, [&](const auto& each) { return each->origin == node; });
  return found == graph->nodes.end() ? nullptr : found->get();
}

size_t nodes_of_graph(const CUgraph_st* graph, bool roots, cudaGraphNode_t* nodes, size_t room) {
  size_t count = 0;
  for (const auto& node : graph->nodes) {
    if (roots && !node->after.empty()) continue;
    if (count < room) nodes[count] = node.get();
    ++count;
  }
  return count;
}

bool is_circular(const CUgraph_st* graph) {
  return graph->order([](size_t) { return size_t{0}; }).size() < graph->nodes.size();
}

bool have_same_shape(const CUgraph_st* graph, const CUgraph_st* other) {
  const auto same = [&](const auto& a, const auto& b) {
    return std::ranges::equal(a->after, b->after, [&](const auto* before, const auto* its) {
      return graph->number(before) == other->number(its);
    });
  };
  return std::ranges::equal(graph->nodes, other->nodes, same);
}

cudaGraphNode_t node_of_other_type(const CUgraph_st* graph, const CUgraph_st* other) {
  const auto [own, found] = std::ranges::mismatch(graph->nodes, other->nodes,
                                                  [](const auto& a, const auto& b) { return a->type == b->type; });
  return own == graph->nodes.end() || found == other->nodes.end() ? nullptr : found->get();
}

int run_graph(const CUgraph_st* graph) {
  static uint64_t state = program_seed();
  const auto choose = [](size_t n) {
    if (program_seed() == 0) return size_t{0};
    state = state * 6364136223846793005 + 1442695040888963407;  // Knuth's linear congruential generator
    return static_cast<size_t>((state >> 33) % n);
  };
  GraphRun run;
  for (const CUgraphNode_st* const node : graph->order(choose)) {
    run.begin();
    for (const CUgraphNode_st* const before : node->after) run.begin_after(before);
    if (const int error = node->work(); error != cudaSuccess) return error;
    run.end(node);
  }
  return cudaSuccess;
}

void begin_capture(const void* stream, bool blocking, int mode) {
  captures.push_back(std::make_shared<Capture>(Capture{.origin = stream, .blocking = blocking, .mode = mode}));
  streams[stream] = {captures.back()};
}

// Its streams do again what they are told.
CaptureEnd end_capture(const void* stream, cudaGraph_t* graph) {
  const Point* const point = find(streams, stream);
  if (point == nullptr) return CaptureEnd::not_captured;
  if (point->capture->origin != stream) return CaptureEnd::other_stream;
  const auto [capture, last] = *point;
  capture->ended = true;
  std::erase(captures, capture);
  std::erase_if(streams, [&](const auto& each) { return each.second.capture == capture; });
  if (!capture->valid) return CaptureEnd::invalid;
  for (const auto& node : capture->graph.nodes)
    if (!capture->graph.is_needed(node.get()) && std::ranges::count(last, node.get()) == 0) return CaptureEnd::unjoined;
  *graph = new CUgraph_st(std::move(capture->graph));
  return CaptureEnd::done;
}

Captured is_captured(const void* stream) {
  const Point* const point = find(streams, stream);
  return point == nullptr ? Captured::no : point->capture->valid ? Captured::yes : Captured::invalid;
}

void record_work(const void* stream, int type, const Work& work) {
  Point& point = streams.at(stream);
  point.last = {point.capture->graph.add(type, point.last, work)};
}

void record_event(const void* event, const void* stream) {
  if (const Point* const point = find(streams, stream))
    events[event] = *point;
  else
    events.erase(event);
}

bool was_captured(const void* event) {
  return find(events, event) != nullptr;
}

CaptureWait wait_for_event(const void* stream, bool own, const void* event) {
  const Point* const recorded = find(events, event);
  Point* const present = own ? find(streams, stream) : nullptr;
  const bool in_capture = recorded != nullptr && !recorded->capture->ended;
  if (present == nullptr && !in_capture) return CaptureWait::done;
  if (!in_capture) return CaptureWait::outside;
  if (!own) return CaptureWait::default_stream;
  if (present != nullptr && present->capture != recorded->capture) return CaptureWait::other_capture;
  Point& point = streams[stream];
  point.capture = recorded->capture;
  for (CUgraphNode_st* const node : recorded->last)
    if (std::ranges::count(point.last, node) == 0) point.last.push_back(node);
  return CaptureWait::done;
}

void forget_captured(const void* stream_or_event) {
  streams.erase(stream_or_event);
  events.erase(stream_or_event);
}

bool captures_are_relaxed() {
  return std::ranges::all_of(captures, [](const auto& each) { return each->mode == cudaStreamCaptureModeRelaxed; });
}

bool captures_block_default_stream() {
  return std::ranges::any_of(
      captures, [](const auto& each) { return each->blocking && each->mode != cudaStreamCaptureModeRelaxed; });
}

void invalidate_captures() {
  for (const auto& capture : captures) capture->valid = false;
}

}  // namespace trifold::cpu
