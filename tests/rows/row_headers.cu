#include "row_headers.cuh"

#include "rows/stream_plan.h"

namespace {

using trifold::Team, trifold::Tensor;

// One warp: the sums of x and of its squares, by tensor cores.
Tensor tensor_sums(const Tensor& x) {
  const Tensor out = trifold::empty_strided(x, {2, 32}, {32, 1}, trifold::dtype_code(trifold::ScalarType::Float));
  float* y = trifold::mutable_data<float>(out);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    if constexpr (sizeof(T) == 2)
      trifold::launch<tensor_sums_kernel<T>>({}, 1, 32, 0, trifold::data<T>(x), y, y + 32, x.numel());
  });
  return out;
}

// The sum of each row, in each of its elements, by teams of 8 lanes, a warp, or a block or two of 64 threads.
Tensor team_sums(const Tensor& x, int64_t team) {
  const Tensor out = trifold::row_output(x);
  const float* in = trifold::data<float>(x);
  float* y = trifold::mutable_data<float>(out);
  const trifold::Stream stream{nullptr, true};
  const auto blocks = static_cast<unsigned>(x.numel() / trifold::block_of_warps);
  const auto rows = static_cast<unsigned>(x.size(0));
  switch (static_cast<Team>(team)) {
    case Team::part: trifold::launch_early<team_sum_kernel<Team::part>>(stream, blocks, 128, 0, in, y); break;
    case Team::warp: trifold::launch_early<team_sum_kernel<Team::warp>>(stream, blocks, 128, 0, in, y); break;
    case Team::block: trifold::launch_early<team_sum_kernel<Team::block>>(stream, rows, 64, 0, in, y); break;
    case Team::cluster: trifold::launch_clusters<team_sum_kernel<Team::cluster>>(stream, 2 * rows, 64, 0, 2, in, y);
  }
  return out;
}

// Each element plus its row's sum, by so many clusters of a block, whose rows come through a ring.
Tensor ring(const Tensor& x, int64_t clusters) {
  using Shape = trifold::RowStreamShape<1, 2, 2, 64, 1, 3>;
  const Tensor out = trifold::row_output(x);
  const float* in = trifold::data<float>(x);
  float* y = trifold::mutable_data<float>(out);
  const trifold::Stream stream{nullptr, true};
  const dim3 grid(static_cast<unsigned>(clusters)), block(Shape::block);
  const auto columns = static_cast<int>(x.size(1));
  if (columns % 4 == 0)
    trifold::launch_clusters<ring_kernel<Shape, false>>(stream, grid, block, Shape::bytes, 1, in, y, x.size(0),
                                                        columns);
  else
    trifold::launch_clusters<ring_kernel<Shape, true>>(stream, grid, block, Shape::bytes, 1, in, y, x.size(0), columns);
  return out;
}

// The mean of x, and the sum of squared differences from it, by a warp.
Tensor moments(const Tensor& x) {
  const Tensor out = trifold::empty_strided(x, {2}, {1});
  trifold::launch<moments_kernel>({}, 1, 32, 0, trifold::data<float>(x), trifold::mutable_data<float>(out),
                                  static_cast<int>(x.numel()));
  return out;
}

// How clusters of one block share rows: their number, the columns of a block, and the boundary, in elements.
std::tuple<int64_t, int64_t, int64_t> shares(const Tensor&, int64_t rows, int64_t columns, int64_t element,
                                             int64_t most, bool waves) {
  const int64_t size = trifold::vector_bytes / element;
  const auto of = trifold::share_rows_of_stream(most, 1, 1, int64_t{1} << 30, rows, columns, size, true, waves);
  return of ? std::tuple<int64_t, int64_t, int64_t>{of->clusters, of->share, of->boundary}
            : std::tuple<int64_t, int64_t, int64_t>{0, 0, 0};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&tensor_sums>(m, "row_headers");
  trifold::implement<&team_sums>(m, "team_sums");
  trifold::implement<&ring>(m, "ring");
  trifold::implement<&moments>(m, "moments");
  trifold::implement<&shares>(m, "shares");
}
