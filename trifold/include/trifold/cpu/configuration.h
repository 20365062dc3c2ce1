// kernel<<<grid, block, shared, stream>>>(arguments), for g++: what trifold/build/cuda_text.py writes in its place.
#pragma once

#include <trifold/cpu/captures.h>
#include <trifold/cpu/program.h>
#include <trifold/launch.cuh>

#include <functional>
#include <type_traits>

namespace trifold::host {

// An argument for a parameter that is a reference: the caller's own object.
template <class T>
std::reference_wrapper<T> by_reference(T& argument) {
  return argument;
}
template <class T>
std::enable_if_t<!std::is_lvalue_reference_v<T>, T> by_reference(T&& argument) {
  return static_cast<T&&>(argument);
}

class Configuration {
 public:
  // `parameters`: the kernel's own names for its arguments, with commas between them.
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

  // As the kernel's __cluster_dims__ say.
  Configuration& clusters(ClusterDims dims) {
    kernel_.cluster = {dims.x, dims.y, dims.z};
    kernel_.clusters_given = true;
    kernel_.large_clusters = large_clusters_allowed(nullptr);  // a kernel that is a template's has no address here
    return *this;
  }

  // `call` calls the kernel: a template whose arguments are deduced, or what a variable points to, too.
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

}  // namespace trifold::host
