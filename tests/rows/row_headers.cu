#include "row_headers.cuh"
#include "rows/team_stream.h"

namespace {

using trifold::Tensor;

Tensor tensor_sums(const Tensor& x) {
  const Tensor out = trifold::empty_strided(x, {2, 32}, {32, 1}, trifold::dtype_code(trifold::ScalarType::Float));
  float* y = trifold::mutable_data<float>(out);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    if constexpr (sizeof(T) == 2)
      trifold::launch<tensor_sums_kernel<T>>({}, 1, 32, 0, trifold::data<T>(x), y, y + 32, x.numel());
  });
  return out;
}

// How a stream shares out ragged rows: teams, their classes, and the boundary, in bytes.
std::tuple<int64_t, int64_t, int64_t> shares(const Tensor&, int64_t rows, int64_t columns, int64_t element,
                                             int64_t most) {
  const trifold::AlikeRows of = trifold::share_alike(rows, columns, element, most);
  return {of.teams, of.classes, of.boundary};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&tensor_sums>(m, "row_headers");
  trifold::implement<&shares>(m, "shares");
}
