// What libtrifold_host does for ordinary CUDA programs that g++ compiled: the device's memory, and launches whose
// errors are CUDA's. `trifold sanitize` runs such programs; runtime_api.h has CUDA's own names for these functions.
#pragma once

#include <trifold/cpu.h>

#include <cstddef>

#pragma GCC visibility push(default)
namespace trifold::host {

// Of cudaError_t (CUDA Runtime API, "Data types used by CUDA Runtime").
enum class Error : int {
  success = 0,
  invalid_value = 1,
  memory_allocation = 2,
  invalid_configuration = 9,
  invalid_memcpy_direction = 21,
  invalid_device = 101,
  assertion = 710,
  launch_failure = 719,
  cooperative_launch_too_large = 720,
  not_supported = 801,
  invalid_cluster_size = 912,
};

enum class MemoryKind : uint8_t { device, managed, pinned };

// Of cudaMemcpyKind.
enum class Direction : int { host_to_host, host_to_device, device_to_host, device_to_device, by_address };

// A rectangle of bytes: rows of `width` bytes, `pitch` bytes apart.
struct Rectangle {
  size_t pitch, width, rows;
};

Error allocate(void** pointer, size_t bytes, MemoryKind kind, Line line);
Error release(void* pointer, MemoryKind kind, Line line);
Error copy(void* to, size_t to_pitch, const void* from, Rectangle shape, Direction direction, Line line);
Error fill(void* pointer, int value, Rectangle shape, Line line);
// What has a name of CUDA's but lies in the program's own memory: a __device__ or __constant__ variable.
Error copy_symbol(void* variable, size_t variable_bytes, size_t offset, void* other, size_t bytes, bool to_variable,
                  Line line);
// From here on the variable's address is one of the device's memory.
void note_symbol(const void* variable, size_t bytes);
// The memory that an address belongs to; false: the host's own.
bool find_memory(const void* address, MemoryKind& kind);
void memory_info(size_t& free_bytes, size_t& total_bytes);

// What programs ask of the device, and launches have to fit.
struct DeviceShape {
  int major, minor;  // compute capability
  int multiprocessors;
  int threads, blocks;                      // resident on a multiprocessor
  size_t block_shared_bytes, shared_bytes;  // shared memory of a block at most, and of a multiprocessor
};
DeviceShape device_shape();

// Of the order of threads in launches; 0: the natural one.
uint64_t program_seed();

// The program that has this variable begins: where `trifold sanitize` runs it, its mistakes are reported.
void begin_program(const void* variable);

// What a kernel's function declares: bytes of its shared arrays, and threads in a block at most.
struct FunctionShape {
  size_t shared_bytes;
  int threads;
};
FunctionShape function_shape(const void* kernel);

// cudaFuncAttributeMaxDynamicSharedMemorySize of some kernel: launches of more than 48 KiB need it. (Of which kernel is
// not asked: that of a template has no address where it is launched.)
void allow_dynamic_shared(size_t bytes);
// cudaFuncAttributeNonPortableClusterSizeAllowed of a kernel; null: of any.
void allow_large_clusters(const void* kernel, bool allowed);
bool large_clusters_allowed(const void* kernel);
// The name of a kernel's function, without its parameters. It lives as long as the program.
const char* name_of_kernel(const void* kernel);
// How many clusters of such a launch run at a time, were its grid large enough. (Of a GPU's groups of multiprocessors,
// which no cluster spans, nothing is known here: a GPU may hold a few less.)
Error active_clusters(const Kernel& kernel, int& count, Line line);
// How many blocks a cluster of it may have at most.
int most_cluster_blocks(const Kernel& kernel);
// A call of the runtime's that is not right, or not there on the CPU: reports why to whoever runs the program.
Error refuse_call(const char* why, Error error, Line line);
Error refuse_call(const char* why, Error error, const void* return_address);

// Runs the launch, checked where the program is. A mistake is reported to whoever runs the program; a later call
// returns it.
Error launch_program(const Kernel& kernel, void (*run)(const Kernel& kernel), Line line);
// A call of the runtime's ends with this error, which cudaGetLastError returns.
Error set_error(Error error);
// The last error; forgotten where `forget` and CUDA would forget it.
Error last_error(bool forget);
// The device is as new.
void reset_device();
// All that was launched has ended; CUDA returns a launch's mistake here.
Error synchronise();

}  // namespace trifold::host
#pragma GCC visibility pop
