// CUDA's runtime API: graphs, captured from streams or built node by node (captures.h). Part of runtime_api.h. A kernel
// is passed as a function: if a program casts it to void*, trifold/build/cuda_text.py removes the cast.
#pragma once

#include <trifold/cpu/runtime_launches.h>
#include <trifold/cpu/runtime_volumes.h>

enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};
enum cudaGraphExecUpdateResult {
  cudaGraphExecUpdateSuccess = 0,
  cudaGraphExecUpdateError = 1,
  cudaGraphExecUpdateErrorTopologyChanged = 2,
  cudaGraphExecUpdateErrorNodeTypeChanged = 3,
};
struct cudaGraphExecUpdateResultInfo {
  cudaGraphExecUpdateResult result;
  cudaGraphNode_t errorNode, errorFromNode;
};
inline constexpr unsigned long long cudaGraphInstantiateFlagAutoFreeOnLaunch = 1;
inline constexpr unsigned long long cudaGraphInstantiateFlagUseNodePriority = 8;

struct CUgraphExec_st {
  cudaGraph_t graph;
};
using cudaGraphExec_t = CUgraphExec_st*;

namespace trifold::cpu {

// A kernel with the types of its parameters, which determine the number of arguments. Trivial like the void* that it
// replaces, since programs zero-initialise the struct that contains it.
class KernelFunction {
 public:
  KernelFunction() = default;
  KernelFunction(const void* code) : code_(code), bind_(nullptr) {}
  template <class... Params>
  KernelFunction(void (*function)(Params...))
      : code_(reinterpret_cast<const void*>(function)), bind_(bind_to<Params...>) {}

  // The launch with the present values of the arguments; empty: the kernel's type is not known.
  Work bind(const cudaLaunchConfig_t& launch, void** arguments, Line line) const {
    return bind_ == nullptr ? nullptr : bind_(code_, {&launch, line}, arguments);
  }

 private:
  using Bind = Work (*)(const void* code, const ConfigurationAt& launch, void** arguments);

  template <class... Params>
  static Work bind_to(const void* code, const ConfigurationAt& launch, void** arguments) {
    Kernel kernel{};
    if (!describe(launch, code, kernel)) return nullptr;
    const auto function = reinterpret_cast<void (*)(Params...)>(const_cast<void*>(code));
    return [&]<size_t... i>(std::index_sequence<i...>) -> Work {
      const std::tuple<remove_cvref_t<Params>...> values(*static_cast<remove_cvref_t<Params>*>(arguments[i])...);
      return
          [=, line = launch.line] { return run_function<Params...>(kernel, function, line, std::get<i>(values)...); };
    }(std::index_sequence_for<Params...>{});
  }

  const void* code_;
  Bind bind_;
};

}  // namespace trifold::cpu

struct cudaKernelNodeParams {
  trifold::cpu::KernelFunction func;
  dim3 gridDim, blockDim;
  unsigned sharedMemBytes;
  void** kernelParams;
  void** extra;
};
struct cudaMemsetParams {
  void* dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;  // elements, rows
};
struct cudaHostNodeParams {
  cudaHostFn_t fn;
  void* userData;
};

namespace trifold::cpu {

inline Work work_of(const cudaKernelNodeParams& kernel, Line line) {
  const cudaLaunchConfig_t launch{kernel.gridDim, kernel.blockDim, kernel.sharedMemBytes, nullptr, nullptr, 0};
  Work work = kernel.func.bind(launch, kernel.kernelParams, line);
  if (!work)
    refuse_call("a node of a graph whose kernel is a void*: assign the kernel itself to func", Error::not_supported,
                line);
  return work;
}
inline Work work_of(const cudaMemcpy3DParms& copied, Line line) {
  return [=] { return copy_volume(copied, line); };
}
inline Work work_of(const cudaMemsetParams& filled, Line line) {
  return [=] {
    auto* const to = static_cast<char*>(filled.dst);
    if (filled.elementSize == 1)
      return fill_rows(to, static_cast<int>(filled.value), {filled.pitch, filled.width, filled.height}, line);
    const size_t bytes = filled.width * filled.elementSize;
    auto* const row = static_cast<char*>(malloc(bytes));
    for (size_t i = 0; i < bytes; ++i) row[i] = static_cast<char>(filled.value >> 8 * (i % filled.elementSize));
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < filled.height && error == cudaSuccess; ++i)
      error = copy_rows(to + i * filled.pitch, bytes, row, {bytes, bytes, 1}, cudaMemcpyHostToDevice, line);
    free(row);
    return error;
  };
}
inline Work work_of(const cudaHostNodeParams& called, Line) {
  return [=] {
    called.fn(called.userData);
    return cudaSuccess;
  };
}
inline Work copying(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Line line) {
  return [=] { return copy_rows(to, bytes, from, {bytes, bytes, 1}, kind, line); };
}

inline cudaError_t add_node(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                            cudaGraphNodeType type, const Work& work) {
  if (graph == nullptr || node == nullptr || !work) return check(false);
  *node = add_node(graph, type, {after, count}, work);
  return cudaSuccess;
}
// Gives the node of an executable graph that a graph's node became other work.
inline cudaError_t replace_work(cudaGraphExec_t exec, cudaGraphNode_t node, const Work& work) {
  const cudaGraphNode_t found = exec == nullptr ? nullptr : copy_of_node(exec->graph, node);
  if (found == nullptr || !work) return check(false);
  set_work(found, work);
  return cudaSuccess;
}
// nodes null: only their count.
inline cudaError_t give_nodes(const CUgraph_st* graph, bool roots, cudaGraphNode_t* nodes, size_t* count) {
  *count = nodes_of_graph(graph, roots, nodes, nodes == nullptr ? 0 : *count);
  return cudaSuccess;
}
// A graph as the work of another one's node, which keeps a copy.
class GraphWork {
 public:
  explicit GraphWork(const CUgraph_st* graph) : graph_(copy_graph(graph)) {}
  GraphWork(const GraphWork& other) : GraphWork(other.graph_) {}
  GraphWork& operator=(const GraphWork&) = delete;
  ~GraphWork() { delete_graph(graph_); }

  int operator()() const { return run_graph(graph_); }

 private:
  cudaGraph_t graph_;
};

}  // namespace trifold::cpu

// ---------------------------------------------------------------------------------------------------- capture

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode,
                                          trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if (!is_own(stream))
    return to_cuda(refuse_call("cudaStreamBeginCapture of the default stream: create one",
                               static_cast<Error>(cudaErrorStreamCaptureUnsupported), line));
  if (is_captured(stream))
    return to_cuda(refuse_call("cudaStreamBeginCapture of a stream that is captured",
                               static_cast<Error>(cudaErrorIllegalState), line));
  begin_capture(stream, stream->blocking, mode);
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  *graph = nullptr;
  switch (end_capture(stream, graph)) {
    case CaptureEnd::done: return cudaSuccess;
    case CaptureEnd::not_captured:
    case CaptureEnd::other_stream: {
      const cudaError_t error = is_captured(stream) ? cudaErrorStreamCaptureUnmatched : cudaErrorIllegalState;
      return spoil_captures("cudaStreamEndCapture of a stream in which no capture began", error, line);
    }
    case CaptureEnd::invalid: return to_cuda(set_error(static_cast<Error>(cudaErrorStreamCaptureInvalidated)));
    case CaptureEnd::unjoined: break;
  }
  return to_cuda(
      refuse_call("cudaStreamEndCapture: another stream of the capture has work that this one has not "
                  "waited for: record an event there, and cudaStreamWaitEvent for it here",
                  static_cast<Error>(cudaErrorStreamCaptureUnjoined), line));
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const bool own = trifold::cpu::is_own(stream);
  *status = own ? static_cast<cudaStreamCaptureStatus>(trifold::cpu::is_captured(static_cast<const void*>(stream)))
                : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

// ---------------------------------------------------------------------------------------------------- graphs

inline cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = trifold::cpu::make_graph();
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  trifold::cpu::delete_graph(graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  *clone = trifold::cpu::copy_graph(graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
  *node = trifold::cpu::copy_of_node(clone, original);
  return trifold::cpu::check(*node != nullptr);
}
inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return trifold::cpu::give_nodes(graph, false, nodes, count);
}
inline cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return trifold::cpu::give_nodes(graph, true, nodes, count);
}
inline cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = static_cast<cudaGraphNodeType>(trifold::cpu::type_of_node(node));
  return cudaSuccess;
}
inline cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                            size_t count) {
  for (size_t i = 0; i < count; ++i) trifold::cpu::add_dependency(from[i], to[i]);
  return cudaSuccess;
}
// CUDA 13's form; edges have no data here.
inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                            const void*, size_t count) {
  return cudaGraphAddDependencies(graph, from, to, count);
}

inline cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                          size_t count, const cudaKernelNodeParams* kernel,
                                          trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  return add_node(node, graph, after, count, cudaGraphNodeTypeKernel, work_of(*kernel, line));
}
inline cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                          size_t count, const cudaMemcpy3DParms* copied, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  return add_node(node, graph, after, count, cudaGraphNodeTypeMemcpy, work_of(*copied, line));
}
inline cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                            size_t count, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                            trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  return add_node(node, graph, after, count, cudaGraphNodeTypeMemcpy, copying(to, from, bytes, kind, line));
}
inline cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                          size_t count, const cudaMemsetParams* filled, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  return add_node(node, graph, after, count, cudaGraphNodeTypeMemset, work_of(*filled, line));
}
inline cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                        size_t count, const cudaHostNodeParams* called, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  return add_node(node, graph, after, count, cudaGraphNodeTypeHost, work_of(*called, line));
}
inline cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                         size_t count) {
  return trifold::cpu::add_node(node, graph, after, count, cudaGraphNodeTypeEmpty, [] { return cudaSuccess; });
}
// The child is copied.
inline cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                              size_t count, cudaGraph_t child) {
  return trifold::cpu::add_node(node, graph, after, count, cudaGraphNodeTypeGraph, trifold::cpu::GraphWork(child));
}

// ---------------------------------------------------------------------------------------------------- execution

inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long = 0,
                                        trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  *exec = nullptr;
  if (graph == nullptr) return check(false);
  if (is_circular(graph))
    return to_cuda(refuse_call("cudaGraphInstantiate: nodes of the graph depend on each other in a circle",
                               Error::invalid_value, line));
  *exec = new CUgraphExec_st{copy_graph(graph)};
  return cudaSuccess;
}
// The form before CUDA 12.
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t*, char*, size_t,
                                        trifold::cpu::Line line = {}) {
  return cudaGraphInstantiate(exec, graph, 0, line);
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long = 0,
                                                 trifold::cpu::Line line = {}) {
  return cudaGraphInstantiate(exec, graph, 0, line);
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec != nullptr) trifold::cpu::delete_graph(exec->graph);
  delete exec;
  return cudaSuccess;
}
inline cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  return trifold::cpu::check(exec != nullptr);
}
// In a captured stream, the graph becomes a node of the captured one.
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream, trifold::cpu::Line line = {}) {
  if (exec == nullptr) return trifold::cpu::check(false);
  const auto run = [=] { return trifold::cpu::run_graph(exec->graph); };
  if (!trifold::cpu::is_captured(stream)) return trifold::cpu::enqueue(stream, cudaGraphNodeTypeGraph, line, run);
  trifold::cpu::record_work(stream, cudaGraphNodeTypeGraph, trifold::cpu::GraphWork(exec->graph));
  return cudaSuccess;
}

inline cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const cudaKernelNodeParams* kernel, trifold::cpu::Line line = {}) {
  return trifold::cpu::replace_work(exec, node, trifold::cpu::work_of(*kernel, line));
}
inline cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const cudaMemcpy3DParms* copied, trifold::cpu::Line line = {}) {
  return trifold::cpu::replace_work(exec, node, trifold::cpu::work_of(*copied, line));
}
inline cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                                      const void* from, size_t bytes, cudaMemcpyKind kind,
                                                      trifold::cpu::Line line = {}) {
  return trifold::cpu::replace_work(exec, node, trifold::cpu::copying(to, from, bytes, kind, line));
}
inline cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const cudaMemsetParams* filled, trifold::cpu::Line line = {}) {
  return trifold::cpu::replace_work(exec, node, trifold::cpu::work_of(*filled, line));
}
inline cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const cudaHostNodeParams* called, trifold::cpu::Line line = {}) {
  return trifold::cpu::replace_work(exec, node, trifold::cpu::work_of(*called, line));
}
inline cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* kernel,
                                                trifold::cpu::Line line = {}) {
  const trifold::cpu::Work work = trifold::cpu::work_of(*kernel, line);
  if (!work) return cudaErrorNotSupported;
  trifold::cpu::set_work(node, work);
  return cudaSuccess;
}
// Replaces the work by that of a graph of the same shape.
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result) {
  using namespace trifold::cpu;
  *result = {cudaGraphExecUpdateSuccess, nullptr, nullptr};
  if (const cudaGraphNode_t node = node_of_other_type(exec->graph, graph))
    *result = {cudaGraphExecUpdateErrorNodeTypeChanged, node, nullptr};
  if (!have_same_shape(exec->graph, graph)) result->result = cudaGraphExecUpdateErrorTopologyChanged;
  if (result->result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
  delete_graph(exec->graph);
  exec->graph = copy_graph(graph);
  return cudaSuccess;
}
