// What a program's streams are told and wait for, as far as it orders their work (engine/cpu/stream_order.h). Streams
// and events are known by their addresses; a null pointer is the legacy default stream.
#pragma once

#include <trifold/cpu/program.h>

#pragma GCC visibility push(default)
namespace trifold::cpu {

// The default stream of the calling OS thread, as a stream's address: cudaStreamPerThread.
const void* default_stream_of_thread();

// blocking: it waits for the legacy default stream, and that for it.
void note_stream(const void* stream, bool blocking, Line made);
void forget_stream(const void* stream);
void note_recorded(const void* event, const void* stream, Line line);
void note_awaited(const void* stream, const void* event, Line line);
void forget_event(const void* event);

// The host waits for what a stream was told, or was told when the event was recorded; they return the error of a failed
// launch.
Error wait_for_stream(const void* stream);
Error wait_for_event(const void* event);
// The same for the copy or the memset that the calling OS thread began last, unless it accessed only memory of the
// device: cudaMemcpy and cudaMemset do not wait for such a one.
void wait_for_copy();

// Allocates and frees in the order of the calling thread's StreamOperation.
Error allocate_in_stream(void** pointer, size_t bytes, Line line);
Error release_in_stream(void* pointer, Line line);

void begin_operation(const void* stream, Line line);
void end_operation();

}  // namespace trifold::cpu
#pragma GCC visibility pop

namespace trifold::cpu {

// While it exists, what the calling OS thread launches, copies and fills, and what its host code accesses, is an
// operation of a stream.
class StreamOperation {
 public:
  StreamOperation(const void* stream, Line line) { begin_operation(stream, line); }
  ~StreamOperation() { end_operation(); }
  StreamOperation(const StreamOperation&) = delete;
  StreamOperation& operator=(const StreamOperation&) = delete;
};

}  // namespace trifold::cpu
