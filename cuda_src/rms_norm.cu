#include "rms_norm.cuh"
#include "rows/norms_backward.h"
#include "rows/norms_forward.h"

namespace {

using trifold::Cut, trifold::GroupChoice, trifold::NormPair, trifold::NormPairWithEdges, trifold::NormRows,
    trifold::NormTeam, trifold::NormTeamWithEdges, trifold::Rows, trifold::Stream, trifold::Team, trifold::Teams,
    trifold::Tensor;
using Numbers = std::optional<Tensor>;  // one for each column, or 1

constexpr const char* name = "rms_norm";
constexpr const char* backward_name = "rms_norm_backward";

using enum trifold::Parameters;

// Measured on an H200 (benchmarks/notes/norms_forward.md): short and long rows, whole and ragged.
template <class T>
struct Choices {
  using Groups = trifold::Groups<GroupChoice<1, 8, 1, 20>, GroupChoice<1, 8, 2, 10>, GroupChoice<1, 2, 4, 12>>;
  using Part = NormTeam<Team::part, 4, 128, 7, early>;
  using Block = NormTeamWithEdges<Team::block, 4, 128, 8, late>;
  using Short = Teams<NormRows<Team::part, 8, 1, 128, 8>, NormRows<Team::part, 4, 2, 128, 8>, Part, Block>;
  using ShortRagged = Teams<Part, NormTeam<Team::warp, 4, 128, 7, early>, Block>;
  using Long =
      Teams<NormPair<4, 256, 4, 16>, NormTeam<Team::block, 8, 256, 3, late>, NormTeam<Team::cluster, 8, 512, 2, late>>;
  using Ragged =
      Teams<NormPairWithEdges<6, 160, 4, 8>, NormPairWithEdges<8, 256, 2, 16>,
            NormTeamWithEdges<Team::block, 8, 256, 3, late>, NormTeamWithEdges<Team::cluster, 8, 512, 2, late>>;
};
template <>
struct Choices<float> {
  using Groups = trifold::Groups<GroupChoice<1, 8, 1, 24>, GroupChoice<2, 4, 1, 28>, GroupChoice<2, 4, 2, 14>>;
  using Warp = NormTeam<Team::warp, 2, 128, 12, early>;
  using Block = NormTeamWithEdges<Team::block, 2, 128, 12, early>;
  using LargerBlock = NormTeamWithEdges<Team::block, 2, 512, 4, early>;
  using Short = Teams<NormRows<Team::part, 8, 1, 128, 8>, NormRows<Team::part, 4, 2, 128, 8>, Warp, Block, LargerBlock>;
  using ShortRagged = Teams<Warp, Block, LargerBlock>;
  using Long = Teams<NormTeam<Team::cluster, 4, 512, 3, early>>;
  using Ragged =
      Teams<NormPairWithEdges<6, 160, 4, 8>, NormPairWithEdges<8, 256, 2, 16>,
            NormTeamWithEdges<Team::block, 8, 512, 2, late>, NormTeamWithEdges<Team::cluster, 8, 512, 2, late>>;
};

// The instances of the kernels that hold rows in registers.
template <class T>
struct Kernels {
  using Plan = trifold::Plan<const T*, int64_t, const T*, T*, float*, int64_t, int, float, int>;

  template <class Choice>
  static constexpr auto group = rms_norm_groups_kernel<T, Choice>;
  template <Cut cut, class Choice>
  static constexpr auto kernel = rms_norm_rows_kernel<T, cut, Choice>;
};

template <class T, class C>
void launch_forward(Stream stream, const Rows& x, const T* weight, T* y, C* rstd, double eps) {
  const T* const first = x.data<T>();
  if constexpr (sizeof(T) < sizeof(double)) {
    const auto columns = static_cast<int>(x.columns);
    const auto epsilon = static_cast<float>(eps);
    const trifold::NormForward<T> norm{first, x.stride, weight, nullptr, y, nullptr, rstd, x.count, x.columns, epsilon};
    if (const auto plan = trifold::plan_norm<Kernels<T>, Choices<T>>(stream, norm))
      return plan.launch(stream, first, x.stride, weight, y, rstd, x.count, columns, epsilon,
                         trifold::rows_apart<T>(columns));
    if (trifold::launch_norm_stream<false, trifold::LongNormStreams, trifold::LongNormStreams>(stream, norm)) return;
  }
  trifold::launch<rms_norm_kernel<T>>(stream, trifold::block_a_row(x.count), rms_norm_block, 0, first, x.stride, weight,
                                      y, rstd, x.count, x.columns, C(eps));
}

template <class T, class C>
void launch_backward(Stream stream, const Rows& grad, const Rows& x, const T* weight, const C* rstd, T* grad_x) {
  trifold::launch<rms_norm_backward_kernel<T>>(stream, trifold::block_a_row(x.count), rms_norm_block, 0, grad.data<T>(),
                                               grad.stride, x.data<T>(), x.stride, weight, rstd, grad_x, x.count,
                                               x.columns);
}

template <class T, class C>
void launch_weight_gradient(Stream stream, const Rows& grad, const Rows& x, const C* rstd, const Tensor& grad_weight) {
  auto first_step = [&](dim3 grid, dim3 block, C* parts, int64_t rows_a_part) {
    trifold::launch<rms_norm_weight_gradient_kernel<T>>(stream, grid, block, 0, grad.data<T>(), grad.stride,
                                                        x.data<T>(), x.stride, rstd, parts, x.count, rows_a_part,
                                                        x.columns);
  };
  trifold::sum_over_rows<T>(stream, x, std::array{grad_weight}, first_step);
}

// Returns y and the rstd of each row.
std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, Numbers weight, double eps) {
  trifold::check_rows(name, x, "x");
  trifold::check_of_columns(name, x, weight, "weight");
  const Rows rows = trifold::rows_of(x);
  const Tensor y = trifold::row_output(x), rstd = trifold::row_statistics(rows, 1);
  weight = trifold::dense(weight);
  if (!rows.empty())
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      using C = trifold::compute_t<T>;
      const trifold::OnDevice device(x);
      launch_forward<T, C>(device.stream(), rows, trifold::data_or_null<T>(weight), trifold::mutable_data<T>(y),
                           trifold::mutable_data<C>(rstd), eps);
      trifold::check_launch();
    });
  return {y, rstd};
}

// With `parameters` also the gradient of weight; otherwise an empty tensor.
std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x, Numbers weight, const Tensor& rstd,
                                             bool parameters) {
  trifold::check_rows(backward_name, x, "x");
  trifold::check_alike(backward_name, x, "x", grad, "grad");
  trifold::check_of_columns(backward_name, x, weight, "weight");
  const Tensor grad_x = trifold::row_output(x), grad_weight = trifold::of_columns(x, parameters);
  const Rows rows = trifold::rows_of(x), of_y = trifold::rows_of(grad);
  trifold::check_row_statistics(backward_name, rows, rstd, "rstd", 1);
  weight = trifold::dense(weight);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(x);
    using C = trifold::compute_t<T>;
    const T* const w = trifold::data_or_null<T>(weight);
    const C *const mean = nullptr, *const r = trifold::data<C>(rstd);
    T* const result = trifold::mutable_data<T>(grad_x);
    if (trifold::norm_backward_in_one_pass<T>(device.stream(), of_y, rows, w, mean, r, result, std::array{grad_weight},
                                              parameters))
      return trifold::check_launch();
    if (!rows.empty()) launch_backward<T>(device.stream(), of_y, rows, w, r, result);
    if (parameters) launch_weight_gradient<T>(device.stream(), of_y, rows, r, grad_weight);
    trifold::check_launch();
  });
  return {grad_x, grad_weight};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&rms_norm>(m, "rms_norm");
  trifold::implement<&rms_norm_backward>(m, "rms_norm_backward");
}
