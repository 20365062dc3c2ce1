// How the rows of a matrix are processed: a table of kernels, of which the first that can hold such rows is chosen, and
// a plan, which says how it is launched.
//
//     struct Kernels {                                        // the instances of one kernel template
//       using Plan = trifold::Plan<const float*, int64_t, float*, int64_t, int>;  // with its parameters
//       template <Cut cut, class Choice>
//       static constexpr auto kernel = softmax_rows_kernel<float, cut, Choice>;
//     };
//     const auto plan = plan_teams<Kernels, float>(Forward{}, stream, rows, columns, cut);
//     if (plan) plan.launch(stream, x, x_stride, y, rows, columns);
#pragma once

#include <trifold/choices.h>
#include <trifold/rows.h>

#include "row_parts.cuh"

#include <array>
#include <bit>
#include <numeric>

namespace trifold {

// Lists of choices (choices.h), in order of increasing length of rows: of TeamChoices and such (row_teams.cuh).
template <class... Choices>
struct Teams {};

template <class... Args>
struct TeamKernel;

// A kernel with these parameters, and how to launch it.
template <class... Args>
struct Plan {
  using Kernel = TeamKernel<Args...>;

  void (*start)(const Plan&, Stream, Args...) = nullptr;  // null: there is no such kernel
  dim3 grid{}, block{};
  std::size_t shared = 0;     // bytes of dynamic shared memory
  unsigned cluster = 0;       // blocks in a cluster; 0: no cluster
  int resident_clusters = 0;  // clusters resident on the GPU at once

  explicit operator bool() const { return start != nullptr; }
  void launch(Stream stream, Args... args) const { start(*this, stream, args...); }

  // The values of `start`: launched in blocks, or in clusters.
  template <auto Kernel>
  static void blocks(const Plan& plan, Stream stream, Args... args) {
    launch_early<Kernel>(stream, plan.grid, plan.block, plan.shared, args...);
  }
  template <auto Kernel>
  static void clusters(const Plan& plan, Stream stream, Args... args) {
    launch_clusters<Kernel>(stream, plan.grid, plan.block, plan.shared, plan.cluster, args...);
  }
};

// The number of threads with `pieces` each that hold `all`, in whole warps.
inline int64_t threads_for(int64_t all, int64_t pieces) {
  return ceil_div(ceil_div(all, pieces), warp_threads) * warp_threads;
}
// The least number of blocks, a power of two, that hold `all` with at most `most` each.
inline int64_t blocks_for(int64_t all, int64_t most) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(all, most))));
}

// The least distance, in rows, between rows of `columns` contiguous elements with the same offset from a boundary of
// `boundary` elements; a power of two if that is one.
inline int64_t rows_apart(int64_t columns, int64_t boundary) {
  return boundary / std::gcd(boundary, columns);
}
template <class T>
int rows_apart(int64_t columns) {  // from 16-byte boundaries
  return static_cast<int>(rows_apart(columns, Vector<T>::size));
}
// The number of teams for `rows` rows, if each holds `held` at once, at a distance of `apart` rows.
inline int64_t teams_of(int64_t rows, int64_t held, int64_t apart) {
  return rows / (held * apart) * apart + std::min(rows % (held * apart), apart);
}

// The first row of a tensor, and the distance between its rows.
template <class T>
struct RowsAt {
  const T* first;
  int64_t stride;
};

// How rows can be cut, given all tensors of a kernel.
template <class T>
Cut row_cut(int64_t columns, std::initializer_list<RowsAt<T>> tensors) {
  for (const auto& [first, stride] : tensors)
    if (!in_pieces(first, stride, columns)) return Cut::ragged;
  return Cut::whole;
}

// The most pieces of `size` elements into which a row is cut.
inline int64_t pieces_of(int64_t columns, Cut cut, int64_t size) {
  if (cut == Cut::inner) return columns / size;
  return ceil_div(columns + (cut == Cut::whole ? 0 : size - 1), size);
}

// The values that decide the choice of a kernel whose teams hold rows in registers.
template <class... Args>
struct TeamKernel {
  Cut cut;
  Team team;
  int pieces, threads, rows, mates, most_blocks, filled;  // as in its TeamChoice
  int (*shared)(int threads);
  int (*resident)(dim3 block, std::size_t shared, unsigned blocks_a_cluster, std::size_t most_shared);
  void (*start)(const Plan<Args...>&, Stream, Args...);

  // How it is launched for `teams` teams, each of which holds rows of `pieces` pieces.
  Plan<Args...> plan(Stream stream, int64_t teams, int64_t of_row) const {
    if (team == Team::cluster) return plan_clusters(stream, teams, of_row);
    const bool alone = team == Team::block;
    const int64_t lanes = team_lanes(team), held = int64_t{pieces} * (alone ? threads : lanes);
    const int64_t blocks = alone ? teams : ceil_div(teams, block_of_warps / lanes);
    if (of_row > held || blocks > trifold::most_blocks) return {};
    const int64_t block = alone ? threads_for(of_row, pieces) : block_of_warps;
    return {start, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(block))};
  }

 private:
  // With the fewest blocks, a power of two, that hold a row; at least two in a cluster, since st.async, by which its
  // warps exchange values, is not for clusters of one block. GPUs that support early launches also support clusters.
  Plan<Args...> plan_clusters(Stream stream, int64_t teams, int64_t of_row) const {
    const int64_t least = mates > 1 ? 1 : 2, hold = blocks_for(of_row, int64_t{pieces} * threads);
    const int64_t of_team = std::max(least, hold), blocks = of_team * mates;
    const int64_t own = threads_for(of_row, pieces * of_team), clusters = ceil_div(teams, mates);
    if (!stream.starts_early || of_team > most_blocks_a_cluster || blocks > most_blocks) return {};
    if (clusters > trifold::most_blocks / blocks || 100 * of_row < filled * pieces * of_team * own) return {};
    const dim3 block(static_cast<unsigned>(own));
    const auto bytes = static_cast<std::size_t>(shared(static_cast<int>(own)));
    const int fit = resident(block, bytes, static_cast<unsigned>(blocks), static_cast<std::size_t>(shared(threads)));
    if (fit == 0) return {};
    return {start, dim3(static_cast<unsigned>(clusters * blocks)), block, bytes, static_cast<unsigned>(blocks), fit};
  }
};

template <auto Kernel, Cut cut, class Choice, class... Args>
constexpr TeamKernel<Args...> team_kernel(void (*)(Args...)) {
  using C = Choice;
  TeamKernel<Args...> made{cut,       C::team,   C::pieces, C::threads, C::rows, C::mates, C::most_in_cluster,
                           C::filled, &C::bytes, nullptr,   nullptr};
  if constexpr (C::team == Team::cluster) {
    made.resident = &resident_clusters<Kernel>;
    made.start = &Plan<Args...>::template clusters<Kernel>;
  } else {
    made.start = &Plan<Args...>::template blocks<Kernel>;
  }
  return made;
}

// How the kernel of a choice cuts rows that are whole or ragged.
template <Cut cut, class Choice>
inline constexpr Cut own_cut = cut == Cut::ragged && Choice::edges ? Cut::inner : cut;

template <class Kernels, Cut cut, class... Choices>
constexpr auto team_kernels(Teams<Choices...>) {
  return std::array<typename Kernels::Plan::Kernel, sizeof...(Choices)>{
      team_kernel<Kernels::template kernel<own_cut<cut, Choices>, Choices>, own_cut<cut, Choices>, Choices>(
          Kernels::template kernel<own_cut<cut, Choices>, Choices>)...};
}

// The choices that this build can launch: on the CPU, clusters only with the GPU paths.
template <class... Choices>
constexpr auto with_clusters_if_any(Teams<Choices...>) {
  return joined(Teams<>{}, std::conditional_t < Choices::team == Team::cluster && !gpu_paths, Teams<>,
                Teams < Choices >> {}...);
}

template <std::size_t N, class... Args>
Plan<Args...> first_plan(const std::array<TeamKernel<Args...>, N>& kernels, Stream stream, int64_t rows,
                         int64_t columns, int64_t size) {
  const int64_t apart = rows_apart(columns, size);
  for (const TeamKernel<Args...>& kernel : kernels) {
    // If there are too few rows for a cluster's teams, teams of one row each are faster.
    if (kernel.rows > 1 && rows < kernel.rows * kernel.mates * apart) continue;
    const int64_t teams = teams_of(rows, kernel.rows, apart);
    if (const auto plan = kernel.plan(stream, teams, pieces_of(columns, kernel.cut, size))) return plan;
  }
  return {};
}

// The plan with the first of these choices that holds rows of T with this cut; none if no choice does.
template <class Kernels, class T, Cut cut, class Choices>
auto plan_cut_teams(Choices choices, Stream stream, int64_t rows, int64_t columns) {
  static constexpr auto kernels = team_kernels<Kernels, cut>(with_clusters_if_any(choices));
  return first_plan(kernels, stream, rows, columns, Vector<T>::size);
}
template <class Kernels, class T, class Choices>
auto plan_teams(Choices choices, Stream stream, int64_t rows, int64_t columns, Cut cut) {
  return cut == Cut::whole ? plan_cut_teams<Kernels, T, Cut::whole>(choices, stream, rows, columns)
                           : plan_cut_teams<Kernels, T, Cut::ragged>(choices, stream, rows, columns);
}

// The code of a kernel of teams depends on the kind of team, and on whether rows have edges.
struct TeamModes {
  template <class Choice>
  using of = Mode<Choice::team, Choice::edges>;
};

}  // namespace trifold
