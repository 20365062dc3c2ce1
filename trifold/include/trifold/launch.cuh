// Launching a kernel, on a GPU or on the CPU, and counting the launches of each kernel.
#pragma once

#include <trifold/cuda.cuh>

#include <atomic>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace trifold {

// One kernel instance that a launch in the code can reach, and how often it was launched. Every instance registers
// itself when its library is loaded, so that one that no input reaches is listed with 0 launches.
struct Branch {
  const std::string name;
  std::atomic<long long> launches{0};
  Branch* const next;

  static inline Branch* first = nullptr;

  explicit Branch(std::string name) : name(std::move(name)), next(first) { first = this; }
};

// The template argument that follows `argument`, such as "Kernel = ", in __PRETTY_FUNCTION__.
inline std::string argument_in(std::string_view text, std::string_view argument) {
  const auto begin = text.find(argument) + argument.size();
  auto end = text.find(';', begin);
  if (end == std::string_view::npos) end = text.rfind(']');
  return std::string(text.substr(begin, end - begin));
}

// "sigmoid_kernel<float>".
template <auto Kernel>
std::string kernel_name() {
  return argument_in(__PRETTY_FUNCTION__, "Kernel = ");
}

template <auto Kernel>
inline Branch branch{kernel_name<Kernel>()};

// The target of a launch: a CUDA stream, or (built by g++) this process.
struct Stream {
  void* handle = nullptr;
  bool starts_early = false;  // whether its device can start a kernel before the one before it has ended
};

// Whether launches choose among a port's kernels as for a GPU. Otherwise kernels for clusters are not even compiled: on
// the CPU they take longer than others, both to compile and to run.
#ifdef TRIFOLD_GPU_PATHS
inline constexpr bool gpu_paths = true;
#else
inline constexpr bool gpu_paths = false;
#endif

inline constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

#ifndef TRIFOLD_CPU

// Launches `Kernel` on `grid` × `block` threads with `shared` bytes of dynamic shared memory. The grid must not be
// empty. The caller checks cudaGetLastError().
template <auto Kernel, class... Args>
void launch(Stream stream, dim3 grid, dim3 block, std::size_t shared, Args... args) {
  branch<Kernel>.launches.fetch_add(1, std::memory_order_relaxed);
  Kernel<<<grid, block, shared, static_cast<cudaStream_t>(stream.handle)>>>(args...);
}

// Permits blocks of `Kernel` this much dynamic shared memory on the current device: up to 48 KiB needs no permission.
template <auto Kernel>
void permit_shared(std::size_t bytes) {
  cudaFuncSetAttribute(Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

// As `launch`, for a kernel that starts with wait_for_earlier_kernels(): its blocks are set up while the previous
// kernel in the stream completes. On an H200 this saves 0.2 µs for each of consecutive kernels, 5 to 25% of kernels of
// 1 to 4 µs, and costs nothing at any size.
template <auto Kernel, class... Args>
void launch_early(Stream stream, dim3 grid, dim3 block, std::size_t shared, Args... args) {
  branch<Kernel>.launches.fetch_add(1, std::memory_order_relaxed);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = static_cast<cudaStream_t>(stream.handle);
  config.attrs = &early;
  config.numAttrs = stream.starts_early ? 1 : 0;
  cudaLaunchKernelEx(&config, Kernel, args...);
}

// The configuration of a launch in clusters (sm_90 on): of `blocks_a_cluster` consecutive blocks in x, set up early, as
// by launch_early.
struct ClusterLaunch {
  cudaLaunchAttribute attributes[2]{};
  cudaLaunchConfig_t config{};

  ClusterLaunch(Stream stream, dim3 grid, dim3 block, std::size_t shared, unsigned blocks_a_cluster) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {blocks_a_cluster, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = static_cast<cudaStream_t>(stream.handle);
    config.attrs = attributes;
    config.numAttrs = stream.starts_early ? 2 : 1;
  }
};

// How many clusters of `Kernel` can be resident on the current device; queried once for each configuration. 0: none.
// Also permits the kernel to have clusters of 16 blocks there, and up to `most_shared` bytes of dynamic shared memory.
template <auto Kernel>
int resident_clusters(dim3 block, std::size_t shared, unsigned blocks_a_cluster, std::size_t most_shared) {
  static std::mutex mutex;
  static std::map<std::tuple<int, unsigned, unsigned>, int> known;
  int device = 0;
  cudaGetDevice(&device);
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = known.try_emplace({device, block.x, blocks_a_cluster}, 0);
  if (is_new) {
    cudaFuncSetAttribute(Kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    cudaFuncSetAttribute(Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(most_shared));
    const ClusterLaunch launch({}, dim3(blocks_a_cluster), block, shared, blocks_a_cluster);
    if (cudaOccupancyMaxActiveClusters(&found->second, Kernel, &launch.config) != cudaSuccess) cudaGetLastError();
  }
  return found->second;
}

// The number of registers, of a multiprocessor's 65,536, that a thread of `Kernel` uses.
template <auto Kernel>
int registers_a_thread() {
  static const int registers = [] {
    cudaFuncAttributes attributes{};
    cudaFuncGetAttributes(&attributes, Kernel);
    return static_cast<int>(ceil_div(attributes.numRegs, 8) * 8);
  }();
  return registers;
}

// As `launch`, in clusters. Clusters of one block are also launched as clusters: in a kernel launched without them,
// st.async is an illegal instruction.
template <auto Kernel, class... Args>
void launch_clusters(Stream stream, dim3 grid, dim3 block, std::size_t shared, unsigned blocks_a_cluster,
                     Args... args) {
  branch<Kernel>.launches.fetch_add(1, std::memory_order_relaxed);
  const ClusterLaunch launch(stream, grid, block, shared, blocks_a_cluster);
  cudaLaunchKernelEx(&launch.config, Kernel, args...);
}

// As `launch`, for a kernel whose threads wait for the whole grid (cooperative_groups::this_grid().sync()).
template <auto Kernel, class... Args>
void launch_cooperative(Stream stream, dim3 grid, dim3 block, std::size_t shared, Args... args) {
  branch<Kernel>.launches.fetch_add(1, std::memory_order_relaxed);
  void* arguments[] = {static_cast<void*>(&args)..., nullptr};
  cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(Kernel), grid, block, arguments, shared,
                              static_cast<cudaStream_t>(stream.handle));
}

#else

// Calls body(begin, end) for parts of [0, count) on several OS threads. Set by the binding (torch's thread pool).
using ParallelFor = void (*)(int64_t count, void (*body)(int64_t, int64_t, void*), void* context);
inline ParallelFor parallel_for = [](int64_t count, void (*body)(int64_t, int64_t, void*), void* context) {
  body(0, count, context);
};

// The start of all `extern __shared__` arrays outside functions: 227 KiB, the most that a block of sm_90 has. The build
// defines the macro for a port with such arrays, and gives them the symbol of this one.
#ifdef TRIFOLD_EXTERN_SHARED
alignas(1024) inline thread_local char extern_shared[227 << 10] __asm__("trifold_extern_shared");
#else
inline constexpr char* extern_shared = nullptr;
#endif

// Not null: the running thread waited for others, so whoever resumed it runs the threads after it.
inline thread_local const void* handed_over = nullptr;

// Runs threads sequentially, in a loop that the compiler can vectorise if no thread waits for another.
template <class Run>
void run_threads(dim3 block, const Run& run) {
  for (unsigned z = 0; z < block.z; ++z)
    for (unsigned y = 0; y < block.y; ++y)
      for (unsigned x = 0; x < block.x; ++x) {
        threadIdx = {x, y, z};
        run();
        if (handed_over != nullptr) [[unlikely]]
          cpu::end_thread();
      }
}

template <class Arg>
cpu::Argument argument_of(const Arg& arg) {
  if constexpr (std::is_pointer_v<Arg> && !std::is_function_v<std::remove_pointer_t<Arg>> &&
                !std::is_void_v<std::remove_pointer_t<Arg>>)
    return {const_cast<const void*>(static_cast<const volatile void*>(arg)), sizeof *arg};
  return {nullptr, 0};
}

// Calls `use` with the launch of run(args...) in every thread of every block.
template <class Run, class Use, class... Args>
void describe_launch(cpu::Kernel kernel, const Run& run, const Use& use, const Args&... args) {
  const auto thread = [=] { run(args...); };
  struct Closure {
    decltype(thread) run;
    dim3 block;
  };
  const Closure closure{thread, kernel.threads};
  const cpu::Argument arguments[] = {argument_of(args)..., {nullptr, 0}};
  kernel.block = [](const void* context) {
    const auto& [run, block] = *static_cast<const Closure*>(context);
    run_threads(block, run);
  };
  kernel.thread = [](const void* context) { static_cast<const Closure*>(context)->run(); };
  kernel.closure = &closure;
  kernel.closure_bytes = sizeof closure;
  if (kernel.code == nullptr) kernel.code = reinterpret_cast<const void*>(kernel.thread);
  kernel.arguments = arguments;
  kernel.argument_count = sizeof...(args);
  use(kernel);
}

// Sets the launch's variables on this OS thread, and returns their addresses.
inline cpu::Registers enter_launch(const cpu::Kernel& kernel) {
  blockDim = kernel.threads;
  gridDim = kernel.grid;
  return {&threadIdx, &blockIdx, extern_shared, &handed_over, &enter_launch};
}

// Runs every cluster. They are distributed over OS threads; with checks, or in a cooperative launch, they run
// sequentially.
inline void run_grid(const cpu::Kernel& launched) {
  if (launched.grid.x == 0 || launched.grid.y == 0 || launched.grid.z == 0) return;
  const cpu::Kernel kernel = cpu::with_clusters(launched);
  const auto& [grid, cluster] = std::tie(kernel.grid, kernel.cluster);
  const int64_t clusters = int64_t{grid.x / cluster.x} * (grid.y / cluster.y) * (grid.z / cluster.z);
  if constexpr (cpu::checked) {
    cpu::run_checked(kernel, enter_launch(kernel));
  } else {
    // Exceptions do not pass through parallel_for: torch's keeps nothing of one but the fact that it was thrown.
    std::exception_ptr error;
    std::atomic_flag failed;
    const auto run_clusters = [&](int64_t begin, int64_t end) {
      try {
        cpu::run_blocks(kernel, enter_launch(kernel), begin, end);
      } catch (...) {
        if (!failed.test_and_set()) error = std::current_exception();
      }
    };
    if (kernel.cooperative) {
      run_clusters(0, clusters);
    } else {
      parallel_for(
          clusters,
          [](int64_t begin, int64_t end, void* context) {
            (*static_cast<decltype(run_clusters)*>(context))(begin, end);
          },
          const_cast<void*>(static_cast<const void*>(&run_clusters)));
    }
    if (error) std::rethrow_exception(error);
  }
}

template <auto Kernel>
cpu::Kernel kernel_of(dim3 grid, dim3 block, std::size_t shared) {
  cpu::Kernel kernel{};
  kernel.code = reinterpret_cast<const void*>(Kernel);
  kernel.name = branch<Kernel>.name.c_str();
  kernel.grid = grid;
  kernel.threads = block;
  kernel.shared_bytes = shared;
  return kernel;
}
template <auto Kernel, class... Args>
void launch_kernel(const cpu::Kernel& kernel, const Args&... args) {
  branch<Kernel>.launches.fetch_add(1, std::memory_order_relaxed);
  describe_launch(kernel, [](const Args&... args) { Kernel(args...); }, run_grid, args...);
}

// Runs `Kernel` for every thread of every block.
template <auto Kernel, class... Args>
void launch(Stream, dim3 grid, dim3 block, std::size_t shared, Args... args) {
  launch_kernel<Kernel>(kernel_of<Kernel>(grid, block, shared), args...);
}

template <auto Kernel>
constexpr void permit_shared(std::size_t) {}

// Assumes eight multiprocessors that hold a block each, so that a few dozen rows give teams several rows each.
template <auto Kernel>
constexpr int resident_clusters(dim3, std::size_t, unsigned blocks_a_cluster, std::size_t) {
  return blocks_a_cluster < 8 ? 8 / static_cast<int>(blocks_a_cluster) : 1;
}

// The CPU's registers are not a GPU's.
template <auto Kernel>
constexpr int registers_a_thread() {
  return 0;
}

// Clusters have up to 16 blocks, as permitted on sm_90.
template <auto Kernel, class... Args>
void launch_clusters(Stream stream, dim3 grid, dim3 block, std::size_t shared, unsigned blocks_a_cluster,
                     Args... args) {
  cpu::Kernel kernel = kernel_of<Kernel>(grid, block, shared);
  kernel.cluster = dim3(blocks_a_cluster);
  kernel.large_clusters = true;
  kernel.dependent = stream.starts_early;
  launch_kernel<Kernel>(kernel, args...);
}

// Its threads may wait for the whole grid.
template <auto Kernel, class... Args>
void launch_cooperative(Stream, dim3 grid, dim3 block, std::size_t shared, Args... args) {
  cpu::Kernel kernel = kernel_of<Kernel>(grid, block, shared);
  kernel.cooperative = true;
  launch_kernel<Kernel>(kernel, args...);
}

// On the CPU a launch is complete when it returns; the checks still require that the kernel waits for earlier ones.
template <auto Kernel, class... Args>
void launch_early(Stream stream, dim3 grid, dim3 block, std::size_t shared, Args... args) {
  cpu::Kernel kernel = kernel_of<Kernel>(grid, block, shared);
  kernel.dependent = stream.starts_early;
  launch_kernel<Kernel>(kernel, args...);
}

#endif

}  // namespace trifold
