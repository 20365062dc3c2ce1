// CUB's BlockReduce.
#pragma once

#include <trifold/cpu/cub/block_use.h>

#include <algorithm>

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS,
};

// Sums of floats are added in CUB's order by warp reductions and by raking. The third algorithm does as raking here.
template <class T, int x, BlockReduceAlgorithm algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int y = 1, int z = 1>
class BlockReduce : details::Block<x, y, z> {
  using Base = details::Block<x, y, z>;
  using Base::threads;
  static constexpr bool rakes = algorithm != BLOCK_REDUCE_WARP_REDUCTIONS;
  static constexpr int width = std::min(threads, 32);            // lanes that reduce at a time
  static constexpr int segment = (threads + width - 1) / width;  // values of a lane that rakes
  static constexpr int rakers = (threads + segment - 1) / segment;

  struct Data {
    Uninitialized<T> values[rakes ? threads : Base::warps];
  };
  using Storage = details::Shared<Data>;

 public:
  struct TempStorage : Uninitialized<Storage> {};

  __forceinline__ BlockReduce() : storage_(private_storage()) {}
  __forceinline__ explicit BlockReduce(TempStorage& storage) : storage_(storage.Alias()) {}

  // The results are defined in the block's first thread.
  __forceinline__ T Sum(T input, Line line = {}) { return reduce(input, ::std::plus<>(), threads, line); }
  template <int items>
  __forceinline__ T Sum(T (&inputs)[items], Line line = {}) {
    return reduce(ThreadReduce(inputs, ::std::plus<>()), ::std::plus<>(), threads, line);
  }
  __forceinline__ T Sum(T input, int valid, Line line = {}) { return reduce(input, ::std::plus<>(), valid, line); }
  template <class Op>
  __forceinline__ T Reduce(T input, Op op, Line line = {}) {
    return reduce(input, op, threads, line);
  }
  template <int items, class Op>
  __forceinline__ T Reduce(T (&inputs)[items], Op op, Line line = {}) {
    return reduce(ThreadReduce(inputs, op), op, threads, line);
  }
  template <class Op>
  __forceinline__ T Reduce(T input, Op op, int valid, Line line = {}) {
    return reduce(input, op, valid, line);
  }

 private:
  static Storage& private_storage() {
    __shared__ TempStorage storage;
    return storage.Alias();
  }

  template <class Op>
  __forceinline__ T reduce(T input, Op op, int valid, Line line) {
    valid = std::min(valid, threads);
    details::require_threads("BlockReduce", threads, valid, line);
    const details::Use use(storage_.use, Base::rank());
    return rakes ? rake(input, op, valid, line) : reduce_warps(input, op, valid, line);
  }

  // Each warp reduces its own values, and the first thread the warps' results.
  template <class Op>
  __forceinline__ T reduce_warps(T input, Op op, int valid, Line line) {
    auto& of_warps = storage_.data.values;
    const int rank = Base::rank(), warp = rank / 32;
    const int last = std::min(valid - warp * 32, 32) - 1;
    T result = details::reduce_lanes(details::SomeLanes<T>(), width, input, last, op, line);
    if (rank % 32 == 0) of_warps[warp].Alias() = result;
    __syncthreads(line);
    if (rank == 0)
      for (int other = 1; other < Base::warps && other * 32 < valid; ++other)
        result = op(result, of_warps[other].Alias());
    return result;
  }

  // The first warp reduces, each lane first its own segment of the values.
  template <class Op>
  __forceinline__ T rake(T input, Op op, int valid, Line line) {
    auto& values = storage_.data.values;
    const int rank = Base::rank(), begin = rank * segment;
    values[rank].Alias() = input;
    __syncthreads(line);
    if (rank >= rakers) return input;
    T result = input;
    if (begin < valid) {
      result = values[begin].Alias();
      for (int i = begin + 1; i < std::min(begin + segment, valid); ++i) result = op(result, values[i].Alias());
    }
    const details::SomeLanes<T> lanes{0xffffffffu >> (32 - rakers)};
    return details::reduce_lanes(lanes, width, result, (valid + segment - 1) / segment - 1, op, line);
  }

  Storage& storage_;
};

}  // namespace cub
