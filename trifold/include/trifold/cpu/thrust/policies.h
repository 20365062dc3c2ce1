// Thrust's execution policies, and the system of an iterator: the host, or the device, on which algorithms are kernels.
#pragma once

#include <trifold/cpu/runtime_api.h>

#include <iterator>
#include <type_traits>

namespace thrust {

// In the order of preference: an algorithm runs on the device if one of its iterators is the device's.
enum class System { any, host, device };

namespace details {

using trifold::cpu::Line;

template <System where, bool returns_early = false>
struct Policy {
  static constexpr System system = where;
  static constexpr bool is_policy = true;
  static constexpr bool asynchronous = returns_early;

  cudaStream_t stream = nullptr;

  // Temporary memory is the host's here, whatever the allocator.
  template <class Allocator>
  constexpr Policy operator()(const Allocator&) const {
    return *this;
  }
  template <class Allocator>
  constexpr Policy operator()(Allocator&) const {
    return *this;
  }
  constexpr Policy on(cudaStream_t stream) const {
    Policy there = *this;
    there.stream = stream;
    return there;
  }
};

template <class T>
concept IsPolicy = requires { T::is_policy; };

// Iterators have a member `thrust_system`; others of the C++ library, and pointers, are the host's. A number, a functor
// or the like has none.
template <class T>
constexpr System system_of() {
  if constexpr (requires { T::thrust_system; }) {
    return T::thrust_system;
  } else if constexpr (std::is_pointer_v<T>) {
    return std::is_function_v<std::remove_pointer_t<T>> ? System::any : System::host;
  } else if constexpr (requires { typename T::iterator_category; }) {
    return System::host;
  } else {
    return System::any;
  }
}
template <class... T>
constexpr System system_of_all() {
  System found = System::any;
  ((found = system_of<T>() > found ? system_of<T>() : found), ...);
  return found;
}

}  // namespace details

struct host_system_tag : details::Policy<System::host> {};
struct device_system_tag : details::Policy<System::device> {};
struct any_system_tag {};

inline constexpr host_system_tag host;
inline constexpr device_system_tag device;
inline constexpr details::Policy<System::host> seq;

namespace cpp {
using tag = host_system_tag;
inline constexpr host_system_tag par;
}  // namespace cpp
namespace cuda {
using tag = device_system_tag;
inline constexpr details::Policy<System::device> par;
inline constexpr details::Policy<System::device, true> par_nosync;
}  // namespace cuda
namespace system {
namespace cpp = thrust::cpp;
namespace cuda = thrust::cuda;
}  // namespace system
namespace cuda_cub {
using thrust::cuda::par, thrust::cuda::par_nosync, thrust::cuda::tag;
}

template <class Iterator>
struct iterator_system {
  static constexpr System found = details::system_of<Iterator>();
  using type = std::conditional_t<found == System::device, device_system_tag,
                                  std::conditional_t<found == System::host, host_system_tag, any_system_tag>>;
};
template <class Iterator>
using iterator_system_t = typename iterator_system<Iterator>::type;

}  // namespace thrust
