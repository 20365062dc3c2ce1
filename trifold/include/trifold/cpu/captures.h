// CUDA graphs: the operations that are captured from streams or added node by node, and their execution (CUDA C++
// Programming Guide, "CUDA Graphs"). runtime_graphs.h has CUDA's names.
#pragma once

#include <trifold/cpu/program.h>
#include <trifold/cpu/runtime_types.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

enum cudaGraphNodeType {
  cudaGraphNodeTypeKernel = 0,
  cudaGraphNodeTypeMemcpy = 1,
  cudaGraphNodeTypeMemset = 2,
  cudaGraphNodeTypeHost = 3,
  cudaGraphNodeTypeGraph = 4,
  cudaGraphNodeTypeEmpty = 5,
  cudaGraphNodeTypeWaitEvent = 6,
  cudaGraphNodeTypeEventRecord = 7,
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};

// A node of a graph. `origin`: in a copy of a graph, the original of the node.
struct CUgraphNode_st {
  cudaGraphNodeType type;
  std::function<cudaError_t()> run;
  std::vector<CUgraphNode_st*> after{};
  const CUgraphNode_st* origin = nullptr;
};
using cudaGraphNode_t = CUgraphNode_st*;

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;

  cudaGraphNode_t add(cudaGraphNodeType type, std::vector<cudaGraphNode_t> after, std::function<cudaError_t()> run) {
    nodes.push_back(std::make_unique<CUgraphNode_st>(CUgraphNode_st{type, std::move(run), std::move(after)}));
    return nodes.back().get();
  }
  // The node in this graph that is a copy of `node`; null: there is none.
  cudaGraphNode_t copy_of(const CUgraphNode_st* node) const {
    for (const auto& each : nodes)
      if (each->origin == node) return each.get();
    return nullptr;
  }
  std::unique_ptr<CUgraph_st> copy() const {
    auto made = std::make_unique<CUgraph_st>();
    for (const auto& node : nodes) made->add(node->type, {}, node->run)->origin = node.get();
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const cudaGraphNode_t before : nodes[i]->after) made->nodes[i]->after.push_back(made->copy_of(before));
    return made;
  }
  // Whether some node depends on this one.
  bool is_needed(const CUgraphNode_st* node) const {
    return std::any_of(nodes.begin(), nodes.end(), [&](const auto& each) {
      return std::find(each->after.begin(), each->after.end(), node) != each->after.end();
    });
  }
  // Whether the nodes of both graphs were added in the same order with the same dependencies.
  bool has_shape_of(const CUgraph_st& other) const {
    const auto number = [](const CUgraph_st& graph, const CUgraphNode_st* node) {
      return std::find_if(graph.nodes.begin(), graph.nodes.end(),
                          [&](const auto& each) { return each.get() == node; }) -
             graph.nodes.begin();
    };
    return std::equal(
        nodes.begin(), nodes.end(), other.nodes.begin(), other.nodes.end(), [&](const auto& a, const auto& b) {
          return std::equal(a->after.begin(), a->after.end(), b->after.begin(), b->after.end(),
                            [&](auto* before, auto* its) { return number(*this, before) == number(other, its); });
        });
  }
  // The nodes, each after those on which it depends; choose(n) selects one of n that may be next. The list is
  // incomplete if dependencies are circular.
  template <class Choose>
  std::vector<cudaGraphNode_t> order(const Choose& choose) const {
    std::vector<cudaGraphNode_t> done, ready;
    const auto is_done = [&](cudaGraphNode_t node) { return std::find(done.begin(), done.end(), node) != done.end(); };
    do {
      ready.clear();
      for (const auto& node : nodes)
        if (!is_done(node.get()) && std::all_of(node->after.begin(), node->after.end(), is_done))
          ready.push_back(node.get());
      if (!ready.empty()) done.push_back(ready[choose(ready.size())]);
    } while (!ready.empty());
    return done;
  }
};
using cudaGraph_t = CUgraph_st*;

namespace trifold::host {

// The operations of streams since cudaStreamBeginCapture.
struct Capture {
  CUgraph_st graph{};
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  bool valid = true;
};
inline std::vector<std::shared_ptr<Capture>> captures;
inline std::vector<cudaStream_t> captured_streams;

inline cudaError_t to_cuda(Error error) {
  return static_cast<cudaError_t>(error);
}

// Whether a handle is a stream that the program created, and not one of the default streams.
inline bool is_own(cudaStream_t stream) {
  return stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
}
inline Capture* capture_of(cudaStream_t stream) {
  return is_own(stream) ? stream->capture.get() : nullptr;
}

inline void join_capture(cudaStream_t stream, const std::shared_ptr<Capture>& capture) {
  stream->capture = capture;
  stream->last.clear();
  captured_streams.push_back(stream);
}
// Its streams execute operations again. Returns the last nodes of the stream in which the capture began.
inline std::vector<cudaGraphNode_t> end_capture(const std::shared_ptr<Capture>& capture) {
  captures.erase(std::find(captures.begin(), captures.end(), capture));
  std::vector<cudaGraphNode_t> last = std::move(capture->origin->last);
  for (const cudaStream_t stream : captured_streams)
    if (stream->capture == capture) stream->capture.reset();
  const auto is_free = [](cudaStream_t stream) { return stream->capture == nullptr; };
  captured_streams.erase(std::remove_if(captured_streams.begin(), captured_streams.end(), is_free),
                         captured_streams.end());
  return last;
}

// For a call that must not be made while streams are captured: invalidates the captures.
inline cudaError_t spoil_captures(const char* why, cudaError_t error, Line line) {
  for (const auto& capture : captures) capture->valid = false;
  return to_cuda(refuse_call(why, static_cast<Error>(error), line));
}
// For a call that waits, or may wait, for the device: it fails while a stream is captured.
inline cudaError_t require_no_capture(Line line) {
  const bool relaxed = std::all_of(captures.begin(), captures.end(),
                                   [](const auto& each) { return each->mode == cudaStreamCaptureModeRelaxed; });
  if (relaxed) return cudaSuccess;
  return spoil_captures("a call that waits for the device, or may, is made while a stream is captured",
                        cudaErrorStreamCaptureUnsupported, line);
}

// Executes a stream's operation: at once or, if the stream is captured, when the graph is launched.
template <class Run>
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, Line line, const Run& run) {
  if (Capture* const capture = capture_of(stream)) {
    stream->last = {capture->graph.add(type, stream->last, run)};
    return cudaSuccess;
  }
  const bool waits = std::any_of(captures.begin(), captures.end(), [](const auto& each) {
    return each->origin->blocking && each->mode != cudaStreamCaptureModeRelaxed;
  });
  if (waits && !is_own(stream))
    return spoil_captures("work for the default stream, which waits for all other streams, while one is captured",
                          cudaErrorStreamCaptureImplicit, line);
  return run();
}

// Executes a graph's nodes: in the natural order, in the order in which they were added; with a seed, in any order that
// their dependencies allow.
inline cudaError_t run_graph(const CUgraph_st& graph) {
  static uint64_t state = program_seed();
  const auto choose = [](size_t n) {
    if (program_seed() == 0) return size_t{0};
    state = state * 6364136223846793005 + 1442695040888963407;  // Knuth's linear congruential generator
    return static_cast<size_t>((state >> 33) % n);
  };
  for (const cudaGraphNode_t node : graph.order(choose))
    if (const cudaError_t error = node->run(); error != cudaSuccess) return error;
  return cudaSuccess;
}

}  // namespace trifold::host
