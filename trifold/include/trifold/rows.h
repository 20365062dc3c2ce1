// What the binding of an op on rows (cuda_src/<op>.cu) needs beside binding.h. A tensor's rows are its last dimension;
// all dimensions before it count them. Kernels take a pointer, and how far apart rows begin.
#pragma once

#include <trifold/binding.h>
#include <trifold/row_teams.cuh>
#include <trifold/vector.cuh>

#include <bit>

namespace trifold {

inline constexpr int64_t most_blocks = (int64_t{1} << 31) - 1;  // in a grid

// A tensor as rows, each contiguous. Row r begins r · stride elements behind the first; with a stride of 0 all are one.
struct Rows {
  Tensor tensor;  // whose memory it is: the argument's, or a copy's
  int64_t count, columns, stride;

  bool empty() const { return count == 0 || columns == 0; }

  template <class T>
  const T* data() const {
    return trifold::data<T>(tensor);
  }
};

// How far apart the rows of `x` begin, if a single number says that and each row is contiguous; else nothing.
inline std::optional<int64_t> row_stride(const Tensor& x) {
  const Dims sizes = x.sizes(), strides = x.strides();
  const std::size_t last = sizes.size() - 1;
  if (sizes[last] > 1 && strides[last] != 1) return std::nullopt;
  int64_t stride = sizes[last], rows = 1;  // of the dimensions from d on
  for (std::size_t d = last; d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (rows == 1) stride = strides[d];
    if (strides[d] != rows * stride) return std::nullopt;
    rows *= sizes[d];
  }
  return stride;
}

// `x` as rows: itself where its strides allow that, else a copy without gaps. A 0-d tensor is a row of one column.
inline Rows rows_of(const Tensor& x) {
  const Dims sizes = x.sizes();
  if (sizes.size() == 0) return {x, 1, 1, 1};
  int64_t count = 1;
  for (std::size_t d = 0; d + 1 < sizes.size(); ++d) count *= sizes[d];
  const int64_t columns = sizes[sizes.size() - 1];
  if (x.is_contiguous() || count == 0 || columns == 0) return {x, count, columns, columns};
  if (const auto stride = row_stride(x)) return {x, count, columns, *stride};
  return {torch::stable::contiguous(x), count, columns, columns};
}

// A new, unwritten tensor of the shape of `x`, without gaps: its rows follow one another.
inline Tensor row_output(const Tensor& x) {
  return empty_contiguous(x, x.sizes());
}

// `count` numbers of type C for as long as a launch needs them, on the device of `like`.
template <class T, class C>
Tensor scratch(const Tensor& like, int64_t count) {
  static_assert(sizeof(C) % sizeof(T) == 0, "a number of type C is made of whole elements of `like`");
  const int64_t elements = count * static_cast<int64_t>(sizeof(C) / sizeof(T));
  return empty_strided(like, {elements}, {1});
}

// Whether all rows of `columns` elements, which begin `stride` apart, can be taken in pieces of 16 bytes.
template <class T>
bool in_pieces(const T* first, int64_t stride, int64_t columns) {
  constexpr int64_t size = Vector<T>::size;
  return elements_to_boundary(first) == 0 && stride % size == 0 && columns % size == 0;
}

// Launches a kernel whose teams each hold a row in registers (row_teams.cuh): use.template operator()<E, V,
// team>(start), where start.template operator()<Kernel>(args...) launches. False: no team holds such rows, and nothing
// was launched.
//
// A thread holds `most` elements of a row; of short rows, a quarter of that.
template <class T, int most, class Use>
bool launch_row_teams(Stream stream, int64_t rows, int64_t columns, bool pieces, Use use) {
  const auto blocks_of = [&](Team team) {
    return team == Team::warp ? ceil_div(rows, block_of_warps / warp_threads) : rows;
  };
  const auto launch_blocks = [&]<int E, int V, Team team>(int64_t threads) {
    if (blocks_of(team) > most_blocks) return false;
    use.template operator()<E, V, team>([&]<auto Kernel>(auto... args) {
      launch_early<Kernel>(stream, dim3(static_cast<unsigned>(blocks_of(team))), dim3(static_cast<unsigned>(threads)),
                           0, args...);
    });
    return true;
  };
  const auto choose = [&]<int E>() {
    constexpr int few = std::max(most / 4 / E, 1), many = E == 1 ? 16 : most / E;  // 32 single ones do not fit
    if (columns <= E * few * warp_threads) return launch_blocks.template operator()<E, few, Team::warp>(block_of_warps);
    const int64_t threads = ceil_div(ceil_div(columns, E * many), warp_threads) * warp_threads;
    if (threads <= 1024) return launch_blocks.template operator()<E, many, Team::block>(threads);
#ifdef __CUDACC__
    if constexpr (E > 1) {
      // GPUs that start kernels early have clusters. Of blocks with the same work, those of 256 threads do best while
      // there are enough in a cluster.
      const int64_t blocks =
          std::min<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(threads, 256))), most_blocks_a_cluster);
      const int64_t share = ceil_div(ceil_div(threads, blocks), warp_threads) * warp_threads;
      if (stream.starts_early && share <= 1024 && rows <= most_blocks / blocks) {
        use.template operator()<E, many, Team::cluster>([&]<auto Kernel>(auto... args) {
          launch_clusters<Kernel>(stream, dim3(static_cast<unsigned>(rows * blocks)),
                                  dim3(static_cast<unsigned>(share)), static_cast<unsigned>(blocks), args...);
        });
        return true;
      }
    }
#endif
    return false;
  };
  if constexpr (sizeof(T) == sizeof(double)) {
    return false;  // a thread's registers hold too little of a row
  } else {
    return pieces ? choose.template operator()<Vector<T>::size>() : choose.template operator()<1>();
  }
}

// A grid of a block a row. A kernel in it goes on with row blockIdx.x + gridDim.x where there are more rows than that.
inline dim3 block_a_row(int64_t rows) {
  return dim3(static_cast<unsigned>(std::min(rows, most_blocks)));
}

}  // namespace trifold
