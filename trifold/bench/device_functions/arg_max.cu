// values, indices = max(x, -1) by CUB's DeviceSegmentedReduce::ArgMax, a segment for each row.
//
// Of equal numbers it chooses the one with the lowest index, as the op does; nan is not larger than other numbers.
#include "storage.h"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/tabulate_output_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_segmented_reduce.cuh>

#include <tuple>
#include <vector>

namespace {

using trifold::Tensor;

struct FirstOfRow {
  int columns;
  __host__ __device__ int operator()(int row) const { return row * columns; }
};

template <class T>
struct Separate {
  T* values;
  int64_t* indices;
  __host__ __device__ void operator()(int row, const cub::KeyValuePair<int, T>& largest) const {
    values[row] = largest.value;
    indices[row] = largest.key;
  }
};

std::tuple<Tensor, Tensor> arg_max(const Tensor& x) {
  const int count = trifold_bench::checked_count("arg_max", x), columns = trifold_bench::columns_of(x);
  const auto sizes = x.sizes();
  const std::vector<int64_t> outer(sizes.begin(), sizes.empty() ? sizes.end() : sizes.end() - 1);
  const Tensor values = trifold::empty_contiguous(x, outer);
  const Tensor indices = trifold::empty_contiguous(x, outer, aoti_torch_dtype_int64());
  const trifold::OnDevice device(x);
  const auto first = thrust::make_transform_iterator(thrust::counting_iterator<int>(0), FirstOfRow{columns});
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    const cudaStream_t stream = trifold_bench::stream_on(device);
    const auto results = thrust::make_tabulate_output_iterator(
        Separate<T>{trifold::mutable_data<T>(values), trifold::mutable_data<int64_t>(indices)});
    trifold_bench::with_storage(x, [&](void* storage, std::size_t& bytes) {
      return cub::DeviceSegmentedReduce::ArgMax(storage, bytes, trifold::data<T>(x), results, count / columns, first,
                                                first + 1, stream);
    });
  });
  return {values, indices};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  m.impl("arg_max", TORCH_BOX(&arg_max));
}
