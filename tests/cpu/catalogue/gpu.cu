// Starts kernels of the catalogue on a GPU: a library for ctypes.
#include "start.cuh"

// names, launch: as catalogue::start takes them. words: each argument's integer or device address; reals: the arguments
// as numbers. Waits for the kernels. Returns what went wrong, empty if nothing did.
extern "C" const char* catalogue_start(const char* names, const int64_t* launch, const int64_t* words,
                                       const double* reals, int count) {
  static std::string problem;
  problem.clear();
  try {
    std::vector<catalogue::Argument> arguments;
    for (int i = 0; i < count; ++i) arguments.push_back({words[i], reals[i]});
    catalogue::start(names, launch, arguments);
    if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) problem = cudaGetErrorString(error);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return problem.c_str();
}
