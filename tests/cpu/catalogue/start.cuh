// Starts kernels by their names, with arguments as they come from Python; entries.cuh has the kernels, and lists them.
#pragma once

#include <trifold/launch.cuh>

#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace catalogue {

struct Argument {
  int64_t word;  // an integer, or an address
  double real;   // the same number, for a parameter that is one
};

template <class T>
T as(const Argument& argument) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(argument.word);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(argument.real);
  } else {
    return static_cast<T>(argument.word);
  }
}

struct Shape {
  dim3 grid, block;
  size_t shared;
};

using Start = void (*)(const Shape&, const Argument*);

template <auto Kernel>
struct Starter;
template <class... Args, void (*Kernel)(Args...)>
struct Starter<Kernel> {
  static constexpr size_t count = sizeof...(Args);
  static void start(const Shape& shape, const Argument* arguments) {
    [&]<size_t... i>(std::index_sequence<i...>) {
      trifold::launch<Kernel>({}, shape.grid, shape.block, shape.shared, as<Args>(arguments[i])...);
    }(std::index_sequence_for<Args...>{});
  }
};

struct Entry {
  size_t count;
  Start start;
};

using Entries = std::map<std::string, Entry>;

template <auto... Kernels>
void add(Entries& entries) {
  (entries.insert({trifold::kernel_name<Kernels>(), {Starter<Kernels>::count, &Starter<Kernels>::start}}), ...);
}

}  // namespace catalogue

#include "entries.cuh"

namespace catalogue {

inline const Entries& entries() {
  static const Entries all = [] {
    Entries made;
    add_all(made);
    return made;
  }();
  return all;
}

inline dim3 dimensions(const int64_t* numbers) {
  const auto at = [&](int axis) { return static_cast<unsigned>(numbers[axis]); };
  return dim3(at(0), at(1), at(2));
}

// names: of kernels that are launched one after the other, with a space between them. launch: the grid, the block, the
// bytes of dynamic shared memory.
inline void start(const std::string& names, const int64_t* launch, const std::vector<Argument>& arguments) {
  const Shape launched{dimensions(launch), dimensions(launch + 3), static_cast<size_t>(launch[6])};
  std::istringstream list(names);
  for (std::string name; list >> name;) {
    const auto found = entries().find(name);
    if (found == entries().end()) throw std::runtime_error("the catalogue has no kernel " + name);
    const auto& [count, start] = found->second;
    if (arguments.size() != count)
      throw std::runtime_error(name + " takes " + std::to_string(count) + " arguments, not " +
                               std::to_string(arguments.size()));
    start(launched, arguments.data());
  }
}

}  // namespace catalogue
