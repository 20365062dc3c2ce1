// Features of newer C++ libraries, for programs in C++17, with which the dialect's headers are compiled.
#pragma once

#include <type_traits>

namespace trifold::cpu {

template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

template <class A, class B>
concept same_as = std::is_same_v<A, B>;

template <class From, class To>
concept convertible_to = std::is_convertible_v<From, To>;

template <class Derived, class Base>
concept derived_from = std::is_base_of_v<Base, Derived>;

// A parameter of this type does not take part in the deduction of template arguments.
template <class T>
struct Identity {
  using type = T;
};
template <class T>
using Same = typename Identity<T>::type;

template <class T>
using remove_cvref_t = std::remove_cv_t<std::remove_reference_t<T>>;

}  // namespace trifold::cpu
