// CUDA graphs as recorded operations: what a stream is told to do, or a graph is given node by node, and how it runs
// (CUDA C++ Programming Guide, "CUDA Graphs"). libtrifold_cpu keeps them (engine/cpu/graphs.cpp); runtime_graphs.h has
// CUDA's own names for it.
#pragma once

#include <trifold/cpu/program.h>
#include <trifold/cpu/runtime_types.h>
#include <trifold/cpu/streams.h>

#include <cstddef>

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

struct CUgraphNode_st;
struct CUgraph_st;
using cudaGraphNode_t = CUgraphNode_st*;
using cudaGraph_t = CUgraph_st*;

namespace trifold::cpu {

inline cudaError_t to_cuda(Error error) {
  return static_cast<cudaError_t>(error);
}

// A function object of any type that is called later, any number of times. Copies share it. (std::function's header
// costs each program a tenth of a second.)
class Work {
 public:
  Work() = default;
  Work(decltype(nullptr)) {}
  template <class Run>
  Work(const Run& run) : shared_(new Holding<Run>(run)) {}
  Work(const Work& other) : shared_(other.shared_) {
    if (shared_ != nullptr) ++shared_->uses;
  }
  Work& operator=(Work other) {
    Shared* const own = shared_;
    shared_ = other.shared_;
    other.shared_ = own;
    return *this;
  }
  ~Work() {
    if (shared_ != nullptr && --shared_->uses == 0) shared_->destroy(shared_);
  }

  explicit operator bool() const { return shared_ != nullptr; }
  int operator()() const { return shared_->call(shared_); }  // a cudaError_t

 private:
  struct Shared {
    int (*call)(const Shared* self);
    void (*destroy)(Shared* self);
    long uses = 1;
  };
  template <class Run>
  struct Holding : Shared {
    explicit Holding(const Run& run) : Shared{call_it, destroy_it}, run(run) {}
    static int call_it(const Shared* self) { return static_cast<const Holding*>(self)->run(); }
    static void destroy_it(Shared* self) { delete static_cast<Holding*>(self); }

    Run run;
  };

  Shared* shared_ = nullptr;
};

// Nodes of a graph, or of a list that a program passes.
struct Nodes {
  cudaGraphNode_t const* first;
  size_t count;
};
enum class Captured : int { no, yes, invalid };
// How the end of a capture, or a wait for an event, can be wrong.
enum class CaptureEnd : int { done, not_captured, other_stream, invalid, unjoined };
enum class CaptureWait : int { done, outside, default_stream, other_capture };

}  // namespace trifold::cpu

#pragma GCC visibility push(default)
namespace trifold::cpu {

cudaGraph_t make_graph();
void delete_graph(cudaGraph_t graph);
cudaGraph_t copy_graph(const CUgraph_st* graph);
cudaGraphNode_t add_node(cudaGraph_t graph, int type, Nodes after, const Work& work);
void add_dependency(cudaGraphNode_t before, cudaGraphNode_t after);
int type_of_node(const CUgraphNode_st* node);
void set_work(cudaGraphNode_t node, const Work& work);
// The node of a copied graph that is a copy of this one; null: there is none.
cudaGraphNode_t copy_of_node(const CUgraph_st* graph, const CUgraphNode_st* node);
// Writes the first `room` nodes, or those that depend on none; returns how many there are.
size_t nodes_of_graph(const CUgraph_st* graph, bool roots, cudaGraphNode_t* nodes, size_t room);
// Whether its nodes depend on each other in a circle.
bool is_circular(const CUgraph_st* graph);
// Whether the nodes of both were made in the same order with the same dependencies; and the first of `other` whose type
// is another one than that of its counterpart, null where there is none.
bool have_same_shape(const CUgraph_st* graph, const CUgraph_st* other);
cudaGraphNode_t node_of_other_type(const CUgraph_st* graph, const CUgraph_st* other);
// Runs a graph's nodes, in the natural order of a launch in that in which they were made; with a seed, in any that
// their dependencies allow. Returns the first error of a node's work.
int run_graph(const CUgraph_st* graph);

// Captures of streams, which are known by their addresses, as events are. blocking: the stream waits for the default
// stream.
void begin_capture(const void* stream, bool blocking, int mode);
CaptureEnd end_capture(const void* stream, cudaGraph_t* graph);
Captured is_captured(const void* stream);
void record_work(const void* stream, int type, const Work& work);
// An event that is recorded in a stream which is not captured belongs to no capture from then on.
void record_event(const void* event, const void* stream);
bool was_captured(const void* event);
// own: the stream is the program's, and not one of the default streams.
CaptureWait wait_for_event(const void* stream, bool own, const void* event);
// The stream or event is destroyed.
void forget_captured(const void* stream_or_event);
// Whether every capture allows calls that wait for the device; whether one is of a stream that the default stream waits
// for. And all captures are lost.
bool captures_are_relaxed();
bool captures_block_default_stream();
void invalidate_captures();

}  // namespace trifold::cpu
#pragma GCC visibility pop

namespace trifold::cpu {

// Whether a handle is a stream of the program's own, and not one of the default streams.
inline bool is_own(cudaStream_t stream) {
  return stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
}
inline bool is_captured(cudaStream_t stream) {
  return is_own(stream) && is_captured(static_cast<const void*>(stream)) != Captured::no;
}

// The stream's address for libtrifold_cpu, which orders its work (streams.h).
inline const void* stream_address(cudaStream_t stream) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  if (stream == nullptr) return default_stream_of_thread();
#endif
  if (stream == cudaStreamPerThread) return default_stream_of_thread();
  return stream == cudaStreamLegacy ? nullptr : stream;
}

// For a call that must not be made while streams are captured: invalidates the captures.
inline cudaError_t spoil_captures(const char* why, cudaError_t error, Line line) {
  invalidate_captures();
  return to_cuda(refuse_call(why, static_cast<Error>(error), line));
}
// For a call that waits, or may wait, for the device: it fails while a stream is captured.
inline cudaError_t require_no_capture(Line line) {
  if (captures_are_relaxed()) return cudaSuccess;
  return spoil_captures("a call that waits for the device, or may, is made while a stream is captured",
                        cudaErrorStreamCaptureUnsupported, line);
}

// Executes a stream's operation: at once or, if the stream is captured, when the graph is launched.
template <class Run>
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, Line line, const Run& run) {
  if (is_captured(stream)) {
    record_work(stream, type, run);
    return cudaSuccess;
  }
  if (!is_own(stream) && captures_block_default_stream())
    return spoil_captures("work for the default stream, which waits for all other streams, while one is captured",
                          cudaErrorStreamCaptureImplicit, line);
  const StreamOperation operation(stream_address(stream), line);
  return static_cast<cudaError_t>(run());
}
// The same for a copy or a memset that is not asynchronous.
template <class Run>
cudaError_t execute(cudaGraphNodeType type, Line line, const Run& run) {
  const cudaError_t error = enqueue(nullptr, type, line, run);
  wait_for_copy();
  return error;
}

}  // namespace trifold::cpu
