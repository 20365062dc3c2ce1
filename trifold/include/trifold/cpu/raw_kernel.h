// The interface between a library of one kernel and trifold/cpu/raw_kernel.py, which calls it: the kernel's signature,
// and launches.
#pragma once

#include <trifold/launch.cuh>

#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace trifold::cpu {

// The name of an element type: "float32" for float; empty: not a type of array elements.
template <class T>
std::string element_name() {
  using U = std::remove_cv_t<T>;
  const std::string bits =
      std::is_void_v<U> ? "" : std::to_string(8 * sizeof(std::conditional_t<std::is_void_v<U>, char, U>));
  if constexpr (std::is_enum_v<U>) return element_name<std::underlying_type_t<U>>();
  if constexpr (same_as<U, bool>) return "bool";
  if constexpr (same_as<U, __half>) return "float16";
  if constexpr (same_as<U, __nv_bfloat16>) return "bfloat16";
  if constexpr (std::is_floating_point_v<U>) return "float" + bits;
  if constexpr (std::is_integral_v<U>) return (std::is_signed_v<U> ? "int" : "uint") + bits;
  return "";
}

// A line for each parameter: pointer or value, bytes (of a value), its type or that of what it points to, and whether
// that is const.
template <class P>
std::string parameter_line() {
  using Value = std::remove_pointer_t<P>;
  const std::string kind = std::is_pointer_v<P> ? "pointer" : std::is_reference_v<P> ? "reference" : "value";
  return kind + '\t' + std::to_string(sizeof(P)) + '\t' + element_name<Value>() + '\t' +
         (std::is_const_v<Value> ? "const" : "") + '\n';
}

template <class... P>
std::string signature(void (*)(P...)) {
  return (std::string() + ... + parameter_line<P>());
}

// torch's C function that calls body for parts of [begin, end) on several OS threads.
using TorchParallelFor = int (*)(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void*),
                                 void* context);
inline TorchParallelFor torch_parallel_for = nullptr;

// Runs blocks on torch's thread pool; a part is worth a thread from about 2^15 CUDA threads.
inline void use_torch_threads(TorchParallelFor torch) {
  torch_parallel_for = torch;
  parallel_for = [](int64_t count, void (*body)(int64_t, int64_t, void*), void* context) {
    constexpr int64_t grain = 128;  // blocks
    if (count <= grain) return body(0, count, context);
    if (torch_parallel_for(0, count, grain, body, context) != 0)
      throw std::runtime_error("torch's threads have failed");
  };
}

// Launches the kernel. Returns null, or why the launch failed; the text is valid until the OS thread's next launch.
// shape: three extents each of the grid, a block and a cluster (zeros: the kernel's own), and whether the launch is
// cooperative.
template <auto RawKernel, class... P>
const char* launch_raw(void (*)(P...), const char* name, const char* parameters, const unsigned* shape, size_t shared,
                       void** arguments) {
  static thread_local std::string message;
  Kernel kernel{};
  kernel.code = reinterpret_cast<const void*>(RawKernel);
  kernel.name = name;
  kernel.parameters = parameters;
  kernel.grid = {shape[0], shape[1], shape[2]};
  kernel.threads = {shape[3], shape[4], shape[5]};
  kernel.shared_bytes = shared;
  kernel.cluster = {shape[6], shape[7], shape[8]};
  kernel.large_clusters = true;
  kernel.cooperative = shape[9] != 0;
  try {
    [&]<size_t... i>(std::index_sequence<i...>) {
      describe_launch(
          kernel, [](const P&... values) { RawKernel(values...); }, run_grid,
          *static_cast<remove_cvref_t<P>*>(arguments[i])...);
    }(std::index_sequence_for<P...>{});
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
  }
  return message.c_str();
}

}  // namespace trifold::cpu
