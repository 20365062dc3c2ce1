// Thrust's exceptions: an algorithm, or a vector, throws when a call of the runtime fails.
#pragma once

#include <trifold/cpu/runtime_api.h>

#include <new>
#include <string>
#include <system_error>

namespace thrust {
namespace system {

using ::std::error_category, ::std::error_code, ::std::error_condition, ::std::system_error;
using ::std::generic_category, ::std::system_category;

class CudaCategory : public error_category {
 public:
  const char* name() const noexcept override { return "cuda"; }
  ::std::string message(int error) const override {
    const auto cuda = static_cast<cudaError_t>(error);
    return ::std::string(cudaGetErrorName(cuda)) + ": " + cudaGetErrorString(cuda);
  }
};
inline const error_category& cuda_category() {
  static const CudaCategory category;
  return category;
}

}  // namespace system

using system::cuda_category, system::error_category, system::error_code, system::error_condition;
using system::generic_category, system::system_category, system::system_error;

namespace details {

inline void require(cudaError_t error, const char* what) {
  if (error == cudaErrorMemoryAllocation) throw ::std::bad_alloc();
  if (error != cudaSuccess) throw system_error(error, cuda_category(), what);
}

}  // namespace details
}  // namespace thrust
