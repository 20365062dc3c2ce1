// Registers C++ functions as the implementations of operators, and lists what was registered.
//
//   TRIFOLD_NAMESPACE, TRIFOLD_DISPATCH_KEY   the library to register into, and CPU or CUDA; set by the build.
#pragma once

#include <trifold/choices.h>
#include <trifold/launch.cuh>

#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace trifold {

using torch::headeronly::ScalarType;
using torch::stable::Device;
using torch::stable::Tensor;

// The name of a C++ type in torch's schema language; nullptr: it is not one of a single value.
template <class T>
inline constexpr const char* schema_name = nullptr;
template <>
inline constexpr const char* schema_name<Tensor> = "Tensor";
template <>
inline constexpr const char* schema_name<int64_t> = "int";
template <>
inline constexpr const char* schema_name<double> = "float";
template <>
inline constexpr const char* schema_name<bool> = "bool";
template <>
inline constexpr const char* schema_name<std::string> = "str";
template <>
inline constexpr const char* schema_name<std::string_view> = "str";
template <>
inline constexpr const char* schema_name<ScalarType> = "ScalarType";
template <>
inline constexpr const char* schema_name<Device> = "Device";

// A type of an argument or a result. `owned`: it can be returned by value.
template <class T>
struct SchemaType {
  static constexpr bool exists = schema_name<T> != nullptr;
  static constexpr bool owned = exists && !std::is_same_v<T, std::string_view>;
  static std::string text() { return schema_name<T>; }
};
template <class T>
struct SchemaType<std::optional<T>> {
  static constexpr bool exists = SchemaType<T>::exists;
  static constexpr bool owned = SchemaType<T>::owned;
  static std::string text() { return SchemaType<T>::text() + "?"; }
};
template <class T>
struct SchemaType<std::vector<T>> {
  static constexpr bool exists = SchemaType<T>::owned;
  static constexpr bool owned = exists;
  static std::string text() { return SchemaType<T>::text() + "[]"; }
};
template <class T>
struct SchemaType<torch::headeronly::HeaderOnlyArrayRef<T>> {
  static constexpr bool exists = SchemaType<T>::owned && !std::is_same_v<T, bool>;  // std::vector<bool> is no array
  static constexpr bool owned = false;
  static std::string text() { return SchemaType<T>::text() + "[]"; }
};

// Joined: "a, b".
template <class... T>
std::string schema_types() {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + SchemaType<std::remove_cvref_t<T>>::text()), ...);
  return text;
}

template <class R>
struct Returns {
  static constexpr bool exist = SchemaType<R>::owned;
  static std::string text() { return schema_types<R>(); }
};
template <>
struct Returns<void> {
  static constexpr bool exist = true;
  static std::string text() { return "()"; }
};
template <class... R>
struct Returns<std::tuple<R...>> {
  static constexpr bool exist = (SchemaType<R>::owned && ...);
  static std::string text() { return sizeof...(R) == 1 ? schema_types<R...>() : "(" + schema_types<R...>() + ")"; }
};

template <class R, class... A>
std::string schema_of(R (*)(A...)) {
  static_assert((SchemaType<std::remove_cvref_t<A>>::exists && ...),
                "an argument of this function has a type that no schema has: use Tensor, int64_t, double, bool, "
                "std::string, ScalarType or Device, or std::optional or std::vector of one");
  static_assert(Returns<R>::exist,
                "this function returns what no schema has: use void, Tensor, int64_t, double, bool, std::string, "
                "ScalarType or Device, std::optional or std::vector of one, or a std::tuple of several");
  return "(" + schema_types<A...>() + ") -> " + Returns<R>::text();
}

// A C++ function that this library registers, with the schema derived from its C++ type. The toolkit compares that with
// the schema in ports/<op>.py before the first call: torch itself would reinterpret the arguments.
struct Implementation {
  const std::string name, schema;
};
inline std::vector<Implementation> implementations;  // a member would be a vector of an incomplete type

// Registers `Function` as the implementation of the operator `name` for this library's dispatch key.
template <auto Function>
void implement(torch::stable::detail::StableLibrary& library, const char* name) {
  implementations.push_back({name, schema_of(Function)});
  library.impl(name, TORCH_BOX(Function));
}

}  // namespace trifold

// The contents of this library, as lines "implementation<TAB>name<TAB>schema", "branch<TAB>kernel<TAB>launches" and
// "left out<TAB>choice<TAB>the choice that has the same code". The text is valid until the next call on the same
// thread.
extern "C" [[gnu::visibility("default"), gnu::used]] inline const char* trifold_manifest() {
  static thread_local std::string text;
  text.clear();
  for (const auto& function : trifold::implementations)
    text += "implementation\t" + function.name + "\t" + function.schema + "\n";
  for (const auto* branch = trifold::Branch::first; branch != nullptr; branch = branch->next)
    text += "branch\t" + branch->name + "\t" + std::to_string(branch->launches.load()) + "\n";
  for (const auto* choice = trifold::LeftOut::first; choice != nullptr; choice = choice->next)
    text += "left out\t" + choice->name + "\t" + choice->same_code + "\n";
  return text.c_str();
}

#define TRIFOLD_LIBRARY(m) STABLE_TORCH_LIBRARY_IMPL(TRIFOLD_NAMESPACE, TRIFOLD_DISPATCH_KEY, m)
