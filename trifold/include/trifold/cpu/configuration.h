// kernel<<<grid, block, shared, stream>>>(arguments), for g++: what trifold/build/cuda_text.py writes in its place.
#pragma once

#include <trifold/cpu/program.h>
#include <trifold/launch.cuh>

namespace trifold::host {

class Configuration {
 public:
  // `parameters`: the kernel's own names for its arguments, with commas between them.
  Configuration(const char* kernel, const char* parameters, dim3 grid, dim3 block, std::size_t shared = 0,
                const void* stream = nullptr, Line line = {})
      : line_(line) {
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
    describe_launch(kernel_, call, [this](const Kernel& kernel) { launch_program(kernel, run_grid, line_); }, args...);
  }

 private:
  Kernel kernel_{};
  Line line_;
};

}  // namespace trifold::host
