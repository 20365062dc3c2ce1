// Lists of choices for a kernel's constants, from which a launch selects, and which of them a build contains.
//
// A choice is a struct of a kernel's compile-time constants. Some select the kernel's code: they are its Mode. The
// others are sizes that were tuned on a GPU, such as threads in a block. nvcc builds all choices of a list. A build by
// g++ with the kernels of a GPU (gpu_paths in launch.cuh) has only the first choice of each mode, the one for the
// shortest rows: all code runs and is checked there, with one choice of sizes, and compiles in less time.
#pragma once

#include <trifold/launch.cuh>

#include <string>
#include <type_traits>

namespace trifold {

// The constants that select a kernel's code.
template <auto... What>
struct Mode {};

// A choice that a build lacks because another one has the same code.
struct LeftOut {
  const std::string name, same_code;
  LeftOut* const next;

  static inline LeftOut* first = nullptr;

  LeftOut(std::string name, std::string same_code)
      : name(std::move(name)), same_code(std::move(same_code)), next(first) {
    first = this;
  }
};

// "TeamChoice<trifold::Team::block, 8, 256, 4>".
template <class Choice>
std::string choice_name() {
  return argument_in(__PRETTY_FUNCTION__, "Choice = ");
}

template <class Choice, class Built>
inline LeftOut left_out{choice_name<Choice>(), choice_name<Built>()};

#if defined(TRIFOLD_CPU) && defined(TRIFOLD_GPU_PATHS)
inline constexpr bool one_of_each_mode = true;
#else
inline constexpr bool one_of_each_mode = false;
#endif

// The constants of a choice that its kernel depends on, since a list may contain a kernel several times.
template <class Choice>
struct Constants {
  using type = Choice;
};
template <class Choice>
  requires requires { typename Choice::Shape; }
struct Constants<Choice> {
  using type = typename Choice::Shape;
};
template <class Choice>
using constants_t = typename Constants<Choice>::type;

// The first of several choices that has the mode of `Choice`.
template <class Modes, class Choice, class First, class... Others>
struct FirstOfMode {
  static constexpr bool found = std::is_same_v<typename Modes::template of<Choice>, typename Modes::template of<First>>;
  using type =
      typename std::conditional_t<found, std::type_identity<First>, FirstOfMode<Modes, Choice, Others...>>::type;
};
template <class Modes, class Choice, class First>
struct FirstOfMode<Modes, Choice, First> : std::type_identity<First> {};

template <template <class...> class List, class... Choices>
constexpr List<Choices...> joined(List<Choices...>) {
  return {};
}
template <template <class...> class List, class... First, class... Second, class... Lists>
constexpr auto joined(List<First...>, List<Second...>, Lists... lists) {
  return joined(List<First..., Second...>{}, lists...);
}

// List<Choice>; or List<> if the build has only the first choice of its mode, and that has other constants.
template <class Modes, class Choice, template <class...> class List, class... Choices>
constexpr auto if_built(List<Choices...>) {
  if constexpr (one_of_each_mode) {
    using First = constants_t<typename FirstOfMode<Modes, Choice, Choices...>::type>;
    if constexpr (!std::is_same_v<constants_t<Choice>, First>) {
      static_cast<void>(&left_out<constants_t<Choice>, First>);
      return List<>{};
    } else {
      return List<Choice>{};
    }
  } else {
    return List<Choice>{};
  }
}

// The choices of a list that the build contains; Modes::of<Choice> is the mode of a choice.
template <class Modes, template <class...> class List, class... Choices>
constexpr auto built_of(List<Choices...> all) {
  return joined(List<>{}, if_built<Modes, Choices>(all)...);
}

}  // namespace trifold
