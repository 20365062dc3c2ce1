// Plans (plan.h) of the forward kernels of a norm: short rows in groups (row_groups.cuh), rows in registers
// (norm_rows.cuh), and rows that stream (norm_stream.cuh).
#pragma once

#include "norm_rows.cuh"
#include "norm_stream.cuh"
#include "plan.h"
#include "row_groups.cuh"
#include "stream_plan.h"

namespace trifold {

// Ways to hold groups of short rows.
template <class... Choices>
struct Groups {};

// The code of a kernel of groups differs if a block has several warps, whose sums meet in shared memory.
struct GroupModes {
  template <class Choice>
  using of = Mode<(Choice::warps > 1)>;
};

// The code of a norm's kernel of teams depends on the kind of team, on edges, on several rows a team, on teams that
// share a cluster, on sums by tensor cores, and on when the parameters are read: at once, or in chunks.
struct NormTeamModes {
  template <class Choice>
  using of = Mode<Choice::team, Choice::edges, (Choice::rows > 1), Choice::mates, Choice::by_tensor, Choice::early,
                  Choice::chunk == Choice::pieces>;
};

// All shapes of a forward stream have the same code.
struct StreamModes {
  template <class>
  using of = Mode<>;
};

// Clusters for rows that stream, those longer than teams hold: of blocks of 512 threads; and, if teams hold only
// shorter rows, of blocks of 256, with ragged rows in two smaller blocks per multiprocessor as far as these hold them.
// In layer_norm, 16 blocks of 256 threads take 0.80 of the time of 8 of 512 for 262,144 bfloat16: both parameters of
// eight pieces do not fit into 128 registers.
using LongNormStreams =
    Shapes<ShapeChoice<RowStreamShape<1, 8, 8, 512, 1, 3>, 8>, ShapeChoice<RowStreamShape<1, 8, 8, 512, 1, 3>, 16>>;
template <class Small, int... blocks>
using NormStreams = decltype(joined(Shapes<ShapeChoice<Small, blocks>...>{}, LongNormStreams{}));
using WholeNormStreams = NormStreams<RowStreamShape<1, 8, 8, 256, 1, 3>, 1, 2, 4, 8, 16>;
using RaggedNormStreams = NormStreams<RowStreamShape<1, 7, 7, 224, 1, 3, 2>, 1, 2, 4, 8>;

// A norm's arguments.
template <class T>
struct NormForward {
  const T* x;
  int64_t x_stride;
  const T *weight, *bias;  // null: 1 and 0; rms_norm has no bias
  T* y;
  float *mean, *rstd;  // per row; rms_norm has no mean
  int64_t rows, columns;
  float eps;

  Cut cut() const { return row_cut<T>(columns, {{x, x_stride}, {weight, columns}, {bias, columns}, {y, columns}}); }
};

template <bool edges>
inline constexpr Cut stream_cut = edges ? Cut::streamed : Cut::whole;

template <class T, bool centred>
struct NormStreamKernels {
  template <bool edges, class Shape>
  static constexpr auto kernel = norm_stream_kernel<T, Shape, centred, stream_cut<edges>>;
};

// The longest row, in bytes, that is held in registers, as measured on an H200: the parameters of a longer one, which
// are read anew for each row, would take as long as the row. Smaller in a build with one choice of each mode, which
// streams rows that the CPU processes in little time.
inline constexpr int64_t most_bytes_held = (one_of_each_mode ? 66 : 256) << 10;

// The first of these groups that holds whole rows, if they fill more than half of the threads' pieces.
template <class Kernels, class T, class... Choices>
typename Kernels::Plan plan_groups(Groups<Choices...>, int64_t rows, int64_t columns) {
  const int64_t pieces = columns / Vector<T>::size;
  typename Kernels::Plan plan;
  const auto try_group = [&](int64_t held, int64_t of_group, int threads, auto start) {
    const int64_t blocks = ceil_div(rows, of_group);
    if (plan || pieces > held || pieces * 2 <= held || blocks > most_blocks) return;
    plan = {start, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
  };
  (try_group(int64_t{Choices::pieces} * Choices::threads, Choices::rows, Choices::threads,
             Kernels::Plan::template blocks<Kernels::template group<Choices>>),
   ...);
  return plan;
}

// The plan for rows that are held in registers. `Choices` has Groups, and teams for Short and Long whole rows, and for
// ShortRagged and Ragged ones; `Kernels` has the norm's kernel of groups and that of teams.
template <class Kernels, class Choices, class T>
typename Kernels::Plan plan_norm(Stream stream, const NormForward<T>& norm) {
  const int64_t rows = norm.rows, columns = norm.columns;
  const bool held = columns * static_cast<int64_t>(sizeof(T)) <= most_bytes_held, whole = norm.cut() == Cut::whole;
  const auto hold = [&](auto of_whole, auto of_ragged) {
    return whole ? plan_cut_teams<Kernels, T, Cut::whole>(built_of<NormTeamModes>(of_whole), stream, rows, columns)
                 : plan_cut_teams<Kernels, T, Cut::ragged>(built_of<NormTeamModes>(of_ragged), stream, rows, columns);
  };
  typename Kernels::Plan plan;
  if (whole) plan = plan_groups<Kernels, T>(built_of<GroupModes>(typename Choices::Groups{}), rows, columns);
  if (!plan) plan = hold(typename Choices::Short{}, typename Choices::ShortRagged{});
  if (!plan && held) plan = hold(typename Choices::Long{}, typename Choices::Ragged{});
  return plan;
}

// Launches the first of these kernels that streams such rows; false if there is none.
template <bool centred, class Whole, class Ragged, class T>
bool launch_norm_stream(Stream stream, const NormForward<T>& norm) {
  if constexpr (gpu_paths) {
    using Kernels = NormStreamKernels<T, centred>;
    static constexpr auto whole = stream_kernels<Kernels, T, false>(built_of<StreamModes>(Whole{}));
    static constexpr auto ragged = stream_kernels<Kernels, T, true>(built_of<StreamModes>(Ragged{}));
    constexpr int64_t size = Vector<T>::size;
    if (elements_to_boundary(norm.y) != 0 || !streams_aligned(norm.x, norm.x_stride, norm.columns)) return false;
    const auto found = norm.cut() == Cut::whole
                           ? plan_stream(whole, stream, norm.rows, norm.columns, size, false)
                           : plan_stream(ragged, stream, norm.rows, norm.columns, size, true, true);
    if (found)
      found->plan.launch(stream, norm.x, norm.x_stride, norm.weight, norm.bias, norm.y, norm.mean, norm.rstd, norm.rows,
                         static_cast<int>(norm.columns), norm.eps, found->shares.share, found->shares.boundary);
    return found.has_value();
  }
  return false;
}

}  // namespace trifold
