#include "rows/plan.h"
#include "rows/stream_plan.h"
#include "softmax.cuh"

namespace {

using trifold::Cut, trifold::Rows, trifold::Team, trifold::TeamChoice, trifold::Teams, trifold::TeamWithEdges,
    trifold::Tensor;

// Measured on an H200 (benchmarks/notes/softmax.md).
template <class T>
struct Choices {
  using Forward = Teams<TeamChoice<Team::part, 4, 128, 6>, TeamChoice<Team::warp, 4, 128, 8>,
                        TeamWithEdges<Team::block, 4, 128, 8>, TeamWithEdges<Team::block, 8, 256, 4>,
                        TeamWithEdges<Team::cluster, 8, 256, 4>, TeamWithEdges<Team::cluster, 8, 512, 2>>;
  using Backward = Teams<TeamChoice<Team::part, 4, 128, 6>, TeamChoice<Team::warp, 4, 128, 6>,
                         TeamWithEdges<Team::block, 2, 256, 3>, TeamWithEdges<Team::cluster, 4, 256, 3>,
                         TeamWithEdges<Team::cluster, 4, 512, 2>, TeamWithEdges<Team::cluster, 8, 512, 1>>;
};
template <>
struct Choices<float> {
  using Forward =
      Teams<TeamChoice<Team::part, 4, 128, 6>, TeamChoice<Team::part, 8, 128, 5>, TeamWithEdges<Team::block, 2, 512, 4>,
            TeamWithEdges<Team::block, 8, 512, 2>, TeamWithEdges<Team::cluster, 8, 512, 2>>;
  using Backward =
      Teams<TeamChoice<Team::part, 4, 128, 6>, TeamChoice<Team::part, 8, 128, 5>, TeamWithEdges<Team::block, 2, 512, 3>,
            TeamWithEdges<Team::block, 8, 512, 1>, TeamWithEdges<Team::cluster, 4, 512, 2>>;
};
// In the backward pass, whole float32 rows of at least this length stream: in registers they fit one block per
// multiprocessor, and memory idles while that waits (92% of the copy rate, not 97%). A build with one choice of each
// mode streams rows half as long, so that the CPU processes them in little time.
inline constexpr int64_t streams_from = trifold::one_of_each_mode ? 65'537 : 131'073;
using LongestShape = trifold::RowStreamShape<2, 16, 2, 256, 1, 13>;
using Longest = trifold::Shapes<trifold::ShapeChoice<LongestShape, 8>, trifold::ShapeChoice<LongestShape, 16>>;
using LongestRagged = Teams<TeamWithEdges<Team::cluster, 8, 512, 1>>;

template <class T>
struct ForwardKernels {
  using Plan = trifold::Plan<const T*, int64_t, T*, int64_t, int>;
  template <Cut cut, class Choice>
  static constexpr auto kernel = softmax_rows_kernel<T, cut, Choice>;
};
template <class T>
struct BackwardKernels {
  using Plan = trifold::Plan<const T*, int64_t, const T*, int64_t, T*, int64_t, int>;
  template <Cut cut, class Choice>
  static constexpr auto kernel = softmax_backward_rows_kernel<T, cut, Choice>;
};
template <class T>
struct BackwardStreamKernels {
  template <bool edges, class Shape>
  static constexpr auto kernel = softmax_backward_stream_kernel<T, Shape>;
};

template <class T>
void launch_softmax(trifold::Stream stream, const Rows& x, T* y) {
  const T* const first = x.data<T>();
  if constexpr (sizeof(T) < sizeof(double)) {
    const Cut cut = trifold::row_cut<T>(x.columns, {{first, x.stride}, {y, x.columns}});
    constexpr auto choices = trifold::built_of<trifold::ExpModes<T>>(typename Choices<T>::Forward{});
    const auto plan = trifold::plan_teams<ForwardKernels<T>, T>(choices, stream, x.count, x.columns, cut);
    if (plan) return plan.launch(stream, first, x.stride, y, x.count, static_cast<int>(x.columns));
  }
  trifold::launch<softmax_kernel<T>>(stream, trifold::block_a_row(x.count), softmax_block, 0, first, x.stride, y,
                                     x.count, x.columns);
}

template <class T>
void launch_softmax_backward(trifold::Stream stream, const Rows& grad_y, const Rows& y, T* grad_x) {
  const T *const grad = grad_y.data<T>(), *const result = y.data<T>();
  const int64_t rows = y.count, columns = y.columns;
  if constexpr (sizeof(T) < sizeof(double)) {
    const Cut cut = trifold::row_cut<T>(columns, {{grad, grad_y.stride}, {result, y.stride}, {grad_x, columns}});
    if constexpr (trifold::gpu_paths && sizeof(T) == sizeof(float)) {
      static constexpr auto kernels = trifold::stream_kernels<BackwardStreamKernels<T>, T, false>(Longest{});
      if (cut == Cut::whole && columns >= streams_from)
        if (const auto found = trifold::plan_stream(kernels, stream, rows, columns, trifold::Vector<T>::size, false))
          return found->plan.launch(stream, grad, grad_y.stride, result, y.stride, grad_x, rows,
                                    static_cast<int>(columns), found->shares.share);
    }
    constexpr auto choices = trifold::built_of<trifold::TeamModes>(typename Choices<T>::Backward{});
    auto plan = trifold::plan_teams<BackwardKernels<T>, T>(choices, stream, rows, columns, cut);
    if constexpr (sizeof(T) == sizeof(float))
      if (!plan && cut == Cut::ragged)
        plan = trifold::plan_cut_teams<BackwardKernels<T>, T, Cut::ragged>(LongestRagged{}, stream, rows, columns);
    if (plan)
      return plan.launch(stream, grad, grad_y.stride, result, y.stride, grad_x, rows, static_cast<int>(columns));
  }
  trifold::launch<softmax_backward_kernel<T>>(stream, trifold::block_a_row(rows), softmax_block, 0, grad, grad_y.stride,
                                              result, y.stride, grad_x, rows, columns);
}

Tensor softmax(const Tensor& x) {
  trifold::check_floating("softmax", x, "x");
  const Tensor y = trifold::row_output(x);
  if (const Rows rows = trifold::rows_of(x); !rows.empty())
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(x);
      launch_softmax<T>(device.stream(), rows, trifold::mutable_data<T>(y));
      trifold::check_launch();
    });
  return y;
}

Tensor softmax_backward(const Tensor& grad_y, const Tensor& y) {
  trifold::check_alike("softmax_backward", grad_y, "grad_y", y, "y");
  const Tensor grad_x = trifold::row_output(y);
  if (const Rows rows = trifold::rows_of(y); !rows.empty())
    trifold::dispatch_floating(y.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(y);
      launch_softmax_backward<T>(device.stream(), trifold::rows_of(grad_y), rows, trifold::mutable_data<T>(grad_x));
      trifold::check_launch();
    });
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&softmax>(m, "softmax");
  trifold::implement<&softmax_backward>(m, "softmax_backward");
}
