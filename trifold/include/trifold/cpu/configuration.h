// kernel<<<grid, block, shared, stream>>>(arguments), for g++: the classes with which trifold/build/cuda_text.py
// replaces it.
#pragma once

#include <trifold/cpu/captures.h>
#include <trifold/cpu/program.h>
#include <trifold/launch.cuh>

#include <type_traits>

namespace trifold::cpu {

// An argument for a reference parameter: the caller's object.
template <class T>
struct Reference {
  T& object;

  operator T&() const { return object; }
};
template <class T>
Reference<T> by_reference(T& argument) {
  return {argument};
}
template <class T>
std::enable_if_t<!std::is_lvalue_reference_v<T>, T> by_reference(T&& argument) {
  return static_cast<T&&>(argument);
}

class Configuration {
 public:
  // `parameters`: the kernel's names for its arguments, separated by commas.
  Configuration(const char* kernel, const char* parameters, dim3 grid, dim3 block, std::size_t shared = 0,
                cudaStream_t stream = nullptr, Line line = {})
      : stream_(stream), line_(line) {
    kernel_.name = kernel;
    kernel_.parameters = parameters;
    kernel_.grid = grid;
    kernel_.threads = block;
    kernel_.shared_bytes = shared;
    kernel_.stream = stream;
  }

  // From the kernel's __cluster_dims__.
  Configuration& clusters(ClusterDims dims) {
    kernel_.cluster = {dims.x, dims.y, dims.z};
    kernel_.clusters_given = true;
    kernel_.large_clusters = large_clusters_allowed(nullptr);  // a kernel that is a template has no address here
    return *this;
  }

  // The arguments are converted to the kernel's parameters once, by the caller, as CUDA does.
  template <class... Params>
  void launch_function(void (*function)(Params...), Same<Params>... args) const {
    launch(function, args...);
  }

  // `call` calls the kernel, which may be a template whose arguments are deduced, or a variable that points to it.
  template <class Call, class... Args>
  void launch(Call call, Args... args) const {
    enqueue(stream_, cudaGraphNodeTypeKernel, line_, [kernel = kernel_, line = line_, call, args...] {
      Error error = Error::success;
      describe_launch(
          kernel, call, [&](const Kernel& described) { error = launch_program(described, run_grid, line); }, args...);
      return to_cuda(error);
    });
  }

 private:
  Kernel kernel_{};
  cudaStream_t stream_;
  Line line_;
};

}  // namespace trifold::cpu
