// Launching kernels that take exponentials of rows in registers (exp_sums.cuh).
#pragma once

#include <trifold/row_teams.h>
#include <trifold/exp_sums.cuh>

namespace trifold {

// Such a kernel for numbers of type T also has other code where it keeps exponentials.
template <class T>
struct ExpModes {
  template <class Choice>
  using of = Mode<Choice::team, Choice::edges, keeps_exps<T, Choice::pieces>>;
};

}  // namespace trifold
