// libtrifold_cpu's functions for ordinary CUDA programs compiled by g++: the device's memory, and launches with CUDA's
// errors. `trifold sanitize` runs such programs; runtime_api.h has CUDA's names for these functions.
#pragma once

#include <trifold/cpu.h>

#include <cstddef>

#pragma GCC visibility push(default)
namespace trifold::cpu {

// Values of cudaError_t (CUDA Runtime API, "Data types used by CUDA Runtime").
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

enum class MemoryKind : uint8_t { device, managed, pinned, heap };

// Values of cudaMemcpyKind.
enum class Direction : int { host_to_host, host_to_device, device_to_host, device_to_device, by_address };

// A rectangle of bytes: rows of `width` bytes, `pitch` bytes apart.
struct Rectangle {
  size_t pitch, width, rows;
};

Error allocate(void** pointer, size_t bytes, MemoryKind kind, Line line);
Error release(void* pointer, MemoryKind kind, Line line);
Error copy(void* to, size_t to_pitch, const void* from, Rectangle shape, Direction direction, Line line);
Error fill(void* pointer, int value, Rectangle shape, Line line);
// Copies to or from a __device__ or __constant__ variable, which is in the program's own memory.
Error copy_symbol(void* variable, size_t variable_bytes, size_t offset, void* other, size_t bytes, bool to_variable,
                  Line line);
// From here on the variable's address counts as device memory.
void note_symbol(const void* variable, size_t bytes);
// The kind of memory at an address; false: the host's own.
bool find_memory(const void* address, MemoryKind& kind);
void memory_info(size_t& free_bytes, size_t& total_bytes);
// The heap from which kernels allocate: its size. cudaLimitMallocHeapSize.
size_t heap_bytes();
void set_heap_bytes(size_t bytes);

// The properties of the device, which programs query and launches must satisfy.
struct DeviceShape {
  int major, minor;  // compute capability
  int multiprocessors;
  int threads, blocks;                      // resident on a multiprocessor
  size_t block_shared_bytes, shared_bytes;  // largest shared memory of a block, and that of a multiprocessor
};
DeviceShape device_shape();

// The seed of the order of threads in launches; 0: the natural order.
uint64_t program_seed();

// Called when the program that has this variable starts: under `trifold sanitize`, its mistakes are reported.
void begin_program(const void* variable);

// The declarations of a kernel's function: bytes of its shared arrays, and the largest number of threads in a block.
struct FunctionShape {
  size_t shared_bytes;
  int threads;
};
FunctionShape function_shape(const void* kernel);

// cudaFuncAttributeMaxDynamicSharedMemorySize: launches with more than 48 KiB need it. (The kernel is not a parameter,
// since an instance of a template has no address where it is launched.)
void allow_dynamic_shared(size_t bytes);
// cudaFuncAttributeNonPortableClusterSizeAllowed of a kernel; null: of any kernel.
void allow_large_clusters(const void* kernel, bool allowed);
bool large_clusters_allowed(const void* kernel);
// The name of a kernel's function, without its parameters. Valid as long as the program.
const char* name_of_kernel(const void* kernel);
// The number of clusters of such a launch that can run at the same time, for a large enough grid. (A GPU may hold a few
// less, since no cluster spans two of its groups of multiprocessors, which are unknown here.)
Error active_clusters(const Kernel& kernel, int& count, Line line);
// The largest number of blocks in a cluster of this kernel.
int most_cluster_blocks(const Kernel& kernel);
// A call of the runtime that is wrong, or not supported on the CPU: reports the reason to the user.
Error refuse_call(const char* why, Error error, Line line);
Error refuse_call(const char* why, Error error, const void* return_address);

// Runs the launch, with checks if the program is checked. A mistake is reported to the user; a later call returns it.
Error launch_program(const Kernel& kernel, void (*run)(const Kernel& kernel), Line line);
// A call of the runtime returns this error, and so will cudaGetLastError.
Error set_error(Error error);
// The last error. It is cleared if `forget` is true and CUDA would clear it.
Error last_error(bool forget);
// Resets the device to its initial state.
void reset_device();
// The error of a launch that failed, which every later call returns.
Error device_error();
// The host waits for all streams; returns device_error().
Error synchronise();

}  // namespace trifold::cpu
#pragma GCC visibility pop
