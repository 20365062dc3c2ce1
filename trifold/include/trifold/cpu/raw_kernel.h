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

// The columns of a parameter's line.
inline std::string parameter_columns(const char* kind, size_t bytes, const std::string& element, bool constant,
                                     size_t dimensions = 0, size_t index_bytes = 0) {
  return kind + ('\t' + std::to_string(bytes)) + '\t' + element + '\t' + (constant ? "const" : "") + '\t' +
         std::to_string(dimensions) + '\t' + std::to_string(index_bytes) + '\n';
}

// A line for each parameter: pointer, reference, value or accessor, its bytes, its type or that of what it points to,
// whether that is const, and of an accessor of a tensor (cuda_for_cpu/torch_accessors.h) its dimensions and the bytes
// of an index.
template <class P, class = void>
struct ParameterLine {
  static std::string text() {
    using Value = std::remove_pointer_t<P>;
    const char* const kind = std::is_pointer_v<P> ? "pointer" : std::is_reference_v<P> ? "reference" : "value";
    return parameter_columns(kind, sizeof(P), element_name<Value>(), std::is_const_v<Value>);
  }
};
template <class P>
struct ParameterLine<P, std::void_t<typename P::accessor_element>> {
  static std::string text() {
    using T = typename P::accessor_element;
    return parameter_columns("accessor", sizeof(P), element_name<T>(), std::is_const_v<T>, P::accessor_dimensions,
                             sizeof(typename P::accessor_index));
  }
};

template <class... P>
std::string signature(void (*)(P...)) {
  return (std::string() + ... + ParameterLine<P>::text());
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
