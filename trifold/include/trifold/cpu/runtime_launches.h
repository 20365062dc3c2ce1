// CUDA's runtime API: attributes of kernels, occupancy, and launches by functions. Part of runtime_api.h. A kernel is
// passed as a function, whose type has its parameters; if a program casts it to void*, trifold/build/cuda_text.py
// removes the cast.
#pragma once

#include <trifold/cpu/runtime_api.h>

namespace trifold::cpu {

// A launch's configuration, and the line of the call to which it is passed.
struct ConfigurationAt {
  const cudaLaunchConfig_t* given;
  Line line;

  ConfigurationAt(const cudaLaunchConfig_t* given, Line line = {}) : given(given), line(line) {}
};

// Fills in the configuration of a launch of this kernel; false if an attribute is not supported on the CPU.
inline bool describe(const ConfigurationAt& configuration, const void* code, Kernel& kernel) {
  const cudaLaunchConfig_t& given = *configuration.given;
  kernel = {};
  kernel.code = code;
  kernel.name = name_of_kernel(code);
  kernel.grid = given.gridDim;
  kernel.threads = given.blockDim;
  kernel.shared_bytes = given.dynamicSmemBytes;
  kernel.stream = given.stream;
  kernel.large_clusters = large_clusters_allowed(code);
  for (unsigned i = 0; i < given.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = given.attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeClusterDimension: {
        const auto& dims = attribute.val.clusterDim;
        kernel.cluster = {dims.x, dims.y, dims.z};
        kernel.clusters_given = true;
        break;
      }
      case cudaLaunchAttributeCooperative: kernel.cooperative = attribute.val.cooperative != 0; break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        kernel.dependent = attribute.val.programmaticStreamSerializationAllowed != 0;
        break;
      // Attributes that do not change results: on the CPU, a kernel has ended before the next one begins.
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeSynchronizationPolicy:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeMemSyncDomainMap:
      case cudaLaunchAttributeMemSyncDomain:
      case cudaLaunchAttributePreferredSharedMemoryCarveout: break;
      default:
        refuse_call("cudaLaunchKernelEx: an attribute that is not there on the CPU", Error::not_supported,
                    configuration.line);
        return false;
    }
  }
  return true;
}

// Runs the launch; returns CUDA's error.
template <class... Params>
cudaError_t run_function(const Kernel& kernel, void (*function)(Params...), Line line, const Params&... arguments) {
  Error error = Error::success;
  describe_launch(
      kernel, function, [&](const Kernel& described) { error = launch_program(described, run_grid, line); },
      arguments...);
  return to_cuda(error);
}
// The same as an operation of its stream.
template <class... Params>
cudaError_t launch_function(const Kernel& kernel, void (*function)(Params...), Line line, const Params&... arguments) {
  const auto stream = static_cast<cudaStream_t>(const_cast<void*>(kernel.stream));
  return enqueue(stream, cudaGraphNodeTypeKernel, line,
                 [=] { return run_function<Params...>(kernel, function, line, arguments...); });
}
template <class... Params>
cudaError_t launch_by_addresses(const Kernel& kernel, void (*function)(Params...), Line line, void** arguments) {
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return launch_function<Params...>(kernel, function, line, *static_cast<remove_cvref_t<Params>*>(arguments[i])...);
  }(std::index_sequence_for<Params...>{});
}

}  // namespace trifold::cpu

// ---------------------------------------------------------------------------------------------------- attributes

template <class T>
cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute attribute, int value, trifold::cpu::Line line = {}) {
  using namespace trifold::cpu;
  switch (attribute) {
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      allow_large_clusters(reinterpret_cast<const void*>(kernel), value != 0);
      return cudaSuccess;
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      allow_dynamic_shared(static_cast<size_t>(value));
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
    case cudaFuncAttributeClusterSchedulingPolicyPreference: return cudaSuccess;
    default:
      return to_cuda(
          refuse_call("cudaFuncSetAttribute: an attribute that is not there on the CPU (give the shape of "
                      "clusters by __cluster_dims__, or by an attribute of the launch)",
                      Error::not_supported, line));
  }
}
// The CPU's registers differ from a GPU's.
template <class T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* kernel) {
  using namespace trifold::cpu;
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  const FunctionShape shape = function_shape(reinterpret_cast<const void*>(kernel));
  *attributes = {};
  attributes->sharedSizeBytes = shape.shared_bytes;
  attributes->maxThreadsPerBlock = shape.threads;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(device.sharedMemPerBlock - shape.shared_bytes);
  attributes->ptxVersion = attributes->binaryVersion = 10 * device.major + device.minor;
  return cudaSuccess;
}

// ---------------------------------------------------------------------------------------------------- occupancy

// The number of blocks that threads and shared memory allow; registers are not considered.
template <class T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T*, int block_size, size_t shared) {
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  if (block_size < 1 || block_size > device.maxThreadsPerBlock) return trifold::cpu::check(false);
  *blocks = std::min(device.maxBlocksPerMultiProcessor, device.maxThreadsPerMultiProcessor / block_size);
  const size_t taken = shared + device.reservedSharedMemPerBlock;
  *blocks = std::min(*blocks, static_cast<int>(device.sharedMemPerMultiprocessor / taken));
  return cudaSuccess;
}
template <class T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, T* kernel, int block_size,
                                                                   size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, block_size, shared);
}
// The largest blocks that the kernel's bounds and `limit` allow and whose shared memory, shared(threads), fits.
template <class T, class Shared>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid, int* block, T* kernel, Shared shared,
                                                           int limit = 0) {
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  *block = trifold::cpu::function_shape(reinterpret_cast<const void*>(kernel)).threads;
  if (limit > 0) *block = std::min(*block, limit);
  while (*block > device.warpSize && shared(*block) > device.sharedMemPerBlockOptin) *block -= device.warpSize;
  int blocks = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, *block, shared(*block));
  *grid = device.multiProcessorCount * blocks;
  return error;
}
template <class T>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, T* kernel, size_t shared = 0, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, kernel, [=](int) { return shared; }, limit);
}
template <class T>
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, T* kernel, int blocks, int) {
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  if (blocks < 1) return trifold::cpu::check(false);
  const size_t taken = device.reservedSharedMemPerBlock +
                       trifold::cpu::function_shape(reinterpret_cast<const void*>(kernel)).shared_bytes;
  const size_t each = device.sharedMemPerMultiprocessor / static_cast<size_t>(blocks);
  *bytes = std::min(each > taken ? each - taken : 0, device.sharedMemPerBlockOptin);
  return cudaSuccess;
}

template <class T>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, T* function, trifold::cpu::ConfigurationAt configuration) {
  using namespace trifold::cpu;
  Kernel kernel{};
  if (!describe(configuration, reinterpret_cast<const void*>(function), kernel)) return cudaErrorNotSupported;
  return to_cuda(active_clusters(kernel, *clusters, configuration.line));
}
template <class T>
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, T* function,
                                                 trifold::cpu::ConfigurationAt configuration) {
  using namespace trifold::cpu;
  Kernel kernel{};
  if (!describe(configuration, reinterpret_cast<const void*>(function), kernel)) return cudaErrorNotSupported;
  *blocks = most_cluster_blocks(kernel);
  return cudaSuccess;
}

// ---------------------------------------------------------------------------------------------------- launches

template <class... Params>
cudaError_t cudaLaunchKernelExC(trifold::cpu::ConfigurationAt configuration, void (*function)(Params...),
                                void** arguments) {
  using namespace trifold::cpu;
  Kernel kernel{};
  if (!describe(configuration, reinterpret_cast<const void*>(function), kernel)) return cudaErrorNotSupported;
  return launch_by_addresses(kernel, function, configuration.line, arguments);
}
template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(trifold::cpu::ConfigurationAt configuration, void (*function)(Params...),
                               Args&&... arguments) {
  using namespace trifold::cpu;
  Kernel kernel{};
  if (!describe(configuration, reinterpret_cast<const void*>(function), kernel)) return cudaErrorNotSupported;
  return launch_function<Params...>(kernel, function, configuration.line, arguments...);
}
template <class... Params>
cudaError_t cudaLaunchKernel(void (*function)(Params...), dim3 grid, dim3 block, void** arguments, size_t shared = 0,
                             cudaStream_t stream = nullptr, trifold::cpu::Line line = {}) {
  const cudaLaunchConfig_t configuration{grid, block, shared, stream, nullptr, 0};
  return cudaLaunchKernelExC({&configuration, line}, function, arguments);
}
template <class... Params>
cudaError_t cudaLaunchCooperativeKernel(void (*function)(Params...), dim3 grid, dim3 block, void** arguments,
                                        size_t shared = 0, cudaStream_t stream = nullptr,
                                        trifold::cpu::Line line = {}) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  const cudaLaunchConfig_t configuration{grid, block, shared, stream, &cooperative, 1};
  return cudaLaunchKernelExC({&configuration, line}, function, arguments);
}
