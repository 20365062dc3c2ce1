// y = cumsum(x, -1) by CUB: DeviceScan::InclusiveSum of one row; of several, DeviceScan::InclusiveSumByKey, where the
// key is the row's number. Half types are added up in float, as by the op: CUB would round each sum to them.
#include "storage.h"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/transform_output_iterator.h>
#include <cub/device/device_scan.cuh>

namespace {

using trifold::Tensor;

template <class To>
struct Converted {
  template <class From>
  __host__ __device__ To operator()(From number) const {
    return static_cast<To>(number);
  }
};

struct RowOf {
  unsigned columns;
  __host__ __device__ unsigned operator()(unsigned i) const { return i / columns; }
};

template <class In, class Out>
void scan_rows(const Tensor& x, In in, Out out, int count, cudaStream_t stream) {
  const int columns = trifold_bench::columns_of(x);
  if (columns == count) {
    trifold_bench::with_storage(x, [&](void* storage, std::size_t& bytes) {
      return cub::DeviceScan::InclusiveSum(storage, bytes, in, out, count, stream);
    });
    return;
  }
  const auto rows =
      thrust::make_transform_iterator(thrust::counting_iterator<unsigned>(0), RowOf{static_cast<unsigned>(columns)});
  trifold_bench::with_storage(x, [&](void* storage, std::size_t& bytes) {
    return cub::DeviceScan::InclusiveSumByKey(storage, bytes, rows, in, out, count, cuda::std::equal_to<>{}, stream);
  });
}

Tensor inclusive_sum(const Tensor& x) {
  const int count = trifold_bench::checked_count("inclusive_sum", x);
  const Tensor y = trifold::empty_contiguous(x, x.sizes());
  const trifold::OnDevice device(x);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    using Sum = trifold::compute_t<T>;
    const T* const in = trifold::data<T>(x);
    T* const out = trifold::mutable_data<T>(y);
    if constexpr (std::is_same_v<T, Sum>)
      scan_rows(x, in, out, count, trifold_bench::stream_on(device));
    else
      scan_rows(x, thrust::make_transform_iterator(in, Converted<Sum>{}),
                thrust::make_transform_output_iterator(out, Converted<T>{}), count, trifold_bench::stream_on(device));
  });
  return y;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  m.impl("inclusive_sum", TORCH_BOX(&inclusive_sum));
}
