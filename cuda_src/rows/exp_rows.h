// Launching kernels that compute exponentials of rows in registers (exp_sums.cuh).
#pragma once

#include "exp_sums.cuh"
#include "row_teams.h"

namespace trifold {

// The code of such a kernel for type T also depends on whether it keeps exponentials.
template <class T>
struct ExpModes {
  template <class Choice>
  using of = Mode<Choice::team, Choice::edges, keeps_exps<T, Choice::pieces>>;
};

}  // namespace trifold
