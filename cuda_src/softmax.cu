#include "rows/exp_rows.h"
#include "rows/team_stream.h"
#include "softmax.cuh"

namespace {

using trifold::Cut, trifold::Rows, trifold::Team, trifold::TeamChoice, trifold::Teams, trifold::TeamWithEdges,
    trifold::Tensor;

// As measured on an H200 (benchmarks/notes/softmax.md).
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
  using Forward = Teams<TeamChoice<Team::warp, 2, 128, 8>, TeamWithEdges<Team::block, 2, 512, 4>,
                        TeamWithEdges<Team::block, 8, 512, 2>, TeamWithEdges<Team::cluster, 8, 512, 2>>;
  using Backward = Teams<TeamChoice<Team::warp, 2, 128, 6>, TeamWithEdges<Team::block, 2, 512, 3>,
                         TeamWithEdges<Team::block, 8, 512, 1>, TeamWithEdges<Team::cluster, 4, 512, 2>>;
};
// Of float32, the longest rows that a cluster holds, whole or not: those of which a cluster in registers would have 16
// blocks forward. A build with one choice of each mode has half as long ones stream: so the CPU is done with them soon.
inline constexpr int64_t longest_from = trifold::one_of_each_mode ? 65'537 : 131'073;
bool streams(Cut cut, int64_t columns) {
  return cut == Cut::whole && columns >= longest_from;
}
using LongestForward = trifold::StreamChoice<16, 3, 256, 1>;
using LongestBackward = trifold::RowStreamShape<16, 2, 256, 1, 13>;
using LongestRaggedBackward = Teams<TeamWithEdges<Team::cluster, 8, 512, 1>>;

template <class T>
void launch_softmax(trifold::Stream stream, const Rows& x, T* y) {
  const T* const first = x.data<T>();
  const auto columns = static_cast<int>(x.columns);
  if constexpr (sizeof(T) < sizeof(double)) {
    const Cut cut = trifold::row_cut<T>(x.columns, {{first, x.stride}, {y, x.columns}});
    if constexpr (sizeof(T) == sizeof(float)) {
      const auto streaming = [&]<Cut, class Choice>(auto start) {
        start.template operator()<softmax_stream_kernel<T, Choice>>(first, x.stride, y, columns);
      };
      if (streams(cut, x.columns) && trifold::launch_team_stream<Cut::whole, LongestForward, T>(stream, x, streaming))
        return;
    }
    const auto in_registers = [&]<Cut cut, class Choice>(auto start) {
      start.template operator()<softmax_rows_kernel<T, cut, Choice>>(first, x.stride, y, x.count, columns);
    };
    const auto choices = trifold::built_of<trifold::ExpModes<T>>(typename Choices<T>::Forward{});
    if (trifold::launch_row_teams<T>(choices, stream, x.count, x.columns, cut, in_registers)) return;
  }
  trifold::launch<softmax_kernel<T>>(stream, trifold::block_a_row(x.count), softmax_block, 0, first, x.stride, y,
                                     x.count, x.columns);
}

// False, and nothing is launched: no cluster holds a row.
template <class Shape, class T>
bool launch_softmax_backward_stream(trifold::Stream stream, const Rows& grad_y, const Rows& y, T* grad_x) {
  constexpr auto kernel = softmax_backward_stream_kernel<T, Shape>;
  constexpr int64_t size = trifold::Vector<T>::size;
  const int64_t blocks = trifold::blocks_for(y.columns, Shape::template columns<T>);
  if (!stream.starts_early || blocks > trifold::most_blocks_a_cluster) return false;
  const dim3 block(Shape::block);
  const int64_t most =
      trifold::resident_clusters<kernel>(block, Shape::bytes, static_cast<unsigned>(blocks), Shape::bytes);
  if (most == 0) return false;
  const int64_t share = trifold::ceil_div(y.columns / size, blocks) * size;
  trifold::launch_clusters<kernel>(stream, dim3(static_cast<unsigned>(std::min(y.count, most) * blocks)), block,
                                   Shape::bytes, static_cast<unsigned>(blocks), grad_y.data<T>(), grad_y.stride,
                                   y.data<T>(), y.stride, grad_x, y.count, static_cast<int>(y.columns),
                                   static_cast<int>(share));
  return true;
}

template <class T>
void launch_softmax_backward(trifold::Stream stream, const Rows& grad_y, const Rows& y, T* grad_x) {
  const T *const grad = grad_y.data<T>(), *const result = y.data<T>();
  if constexpr (sizeof(T) < sizeof(double)) {
    const auto in_registers = [&]<Cut cut, class Choice>(auto start) {
      start.template operator()<softmax_backward_rows_kernel<T, cut, Choice>>(
          grad, grad_y.stride, result, y.stride, grad_x, y.count, static_cast<int>(y.columns));
    };
    const Cut cut = trifold::row_cut<T>(y.columns, {{grad, grad_y.stride}, {result, y.stride}, {grad_x, y.columns}});
    const auto choices = trifold::built_of<trifold::TeamModes>(typename Choices<T>::Backward{});
    const bool in_memory = trifold::gpu_paths && sizeof(T) == sizeof(float) && streams(cut, y.columns);
    if (!in_memory && trifold::launch_row_teams<T>(choices, stream, y.count, y.columns, cut, in_registers)) return;
    if constexpr (trifold::gpu_paths && sizeof(T) == sizeof(float)) {
      if (cut == Cut::whole ? launch_softmax_backward_stream<LongestBackward>(stream, grad_y, y, grad_x)
                            : trifold::launch_cut_teams<T, Cut::ragged>(LongestRaggedBackward{}, stream, y.count,
                                                                        y.columns, in_registers))
        return;
    }
  }
  trifold::launch<softmax_backward_kernel<T>>(stream, trifold::block_a_row(y.count), softmax_block, 0, grad,
                                              grad_y.stride, result, y.stride, grad_x, y.count, y.columns);
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
