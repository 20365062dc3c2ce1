// CUDA's runtime API: streams and events. Part of runtime_api.h. An operation of a stream is complete when the call
// returns; a captured stream records it (captures.h).
#pragma once

#include <trifold/cpu/runtime_api.h>

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags, trifold::cpu::Line line = {}) {
  *stream = new CUstream_st;
  (*stream)->blocking = (flags & cudaStreamNonBlocking) == 0;
  trifold::cpu::note_stream(*stream, (*stream)->blocking, line);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream, trifold::cpu::Line line = {}) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault, line);
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int,
                                                trifold::cpu::Line line = {}) {
  return cudaStreamCreateWithFlags(stream, flags, line);
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;  // there is only one
  return cudaSuccess;
}
inline cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  *priority = 0;
  return cudaSuccess;
}
inline cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  *flags = trifold::cpu::is_own(stream) && !stream->blocking ? cudaStreamNonBlocking : cudaStreamDefault;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  using namespace trifold::cpu;
  if (!is_own(stream)) return check(false);
  forget_captured(stream);
  forget_stream(stream);
  delete stream;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if (is_captured(stream))
    return spoil_captures("a stream is waited for while it is captured", cudaErrorStreamCaptureUnsupported, line);
  return to_cuda(wait_for_stream(stream_address(stream)));
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream, trifold::cpu::Line line = {}) {
  return cudaStreamSynchronize(stream, line);
}
inline cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned,
                                         trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if (is_captured(stream))
    return spoil_captures("cudaStreamAddCallback in a stream that is captured (cudaLaunchHostFunc is allowed)",
                          cudaErrorStreamCaptureUnsupported, line);
  const StreamOperation operation(stream_address(stream), line);
  callback(stream, to_cuda(device_error()), data);
  return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data,
                                      trifold::cpu::Line line = {}) {
  return trifold::cpu::enqueue(stream, cudaGraphNodeTypeHost, line, [=] {
    function(data);
    return cudaSuccess;
  });
}

// Stream-ordered memory: allocated and freed at once, as an operation of the stream.
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t stream, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if (is_captured(stream))
    return spoil_captures("cudaMallocAsync in a stream that is captured is not there on the CPU: allocate before",
                          cudaErrorNotSupported, line);
  const StreamOperation operation(stream_address(stream), line);
  return to_cuda(allocate_in_stream(reinterpret_cast<void**>(pointer), bytes, line));
}
inline cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if (is_captured(stream))
    return spoil_captures("cudaFreeAsync in a stream that is captured is not there on the CPU: free after the launch",
                          cudaErrorNotSupported, line);
  const StreamOperation operation(stream_address(stream), line);
  return to_cuda(release_in_stream(pointer, line));
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned flags = cudaEventDefault) {
  return cudaEventCreateWithFlags(event, flags);
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  trifold::cpu::forget_captured(event);
  trifold::cpu::forget_event(event);
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if (event == nullptr) return check(false);
  record_event(event, stream);
  if (!is_captured(stream)) note_recorded(event, stream_address(stream), line);
  event->recorded = std::chrono::steady_clock::now();
  return cudaSuccess;
}
inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = nullptr, unsigned = 0,
                                            trifold::cpu::Line line = {}) {
  return cudaEventRecord(event, stream, line);
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0,
                                       trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if (event == nullptr) return check(false);
  switch (wait_for_event(stream, is_own(stream), event)) {
    case CaptureWait::done: break;
    case CaptureWait::outside:
      return spoil_captures("a stream that is captured waits for an event that was recorded outside the capture",
                            cudaErrorStreamCaptureIsolation, line);
    case CaptureWait::default_stream:
      return spoil_captures("the default stream waits for an event that was recorded in a capture",
                            cudaErrorStreamCaptureImplicit, line);
    case CaptureWait::other_capture:
      return spoil_captures("a stream that is captured waits for an event of another capture",
                            cudaErrorStreamCaptureMerge, line);
  }
  if (!is_captured(stream)) note_awaited(stream_address(stream), event, line);
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  if (event == nullptr) return check(false);
  if (was_captured(event))
    return spoil_captures("an event that was recorded in a capture is waited for on the host", cudaErrorCapturedEvent,
                          line);
  return to_cuda(wait_for_event(event));
}
inline cudaError_t cudaEventQuery(cudaEvent_t event, trifold::cpu::Line line = {}) {
  return cudaEventSynchronize(event, line);
}
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin == nullptr || end == nullptr) return trifold::cpu::check(false);
  *milliseconds = std::chrono::duration<float, std::milli>(end->recorded - begin->recorded).count();
  return cudaSuccess;
}
