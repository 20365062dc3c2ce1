// CUB's BlockScan.
#pragma once

#include <trifold/cpu/cub/block_use.h>

#include <algorithm>

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

namespace details {

// What precedes the block's first item: nothing, a value, or what a functor makes of the block's aggregate.
struct NoPrefix {
  static constexpr bool is_there = false, is_known = false;
};
template <class T>
struct Initial {
  static constexpr bool is_there = true, is_known = true;
  T value;

  T operator()(const T&) const { return value; }
};
template <class Callback>
struct Called {
  static constexpr bool is_there = true, is_known = false;
  Callback& callback;

  template <class T>
  __forceinline__ T operator()(const T& aggregate) const {
    return callback(aggregate);
  }
};

// A thread's results. The first thread's exclusive one is undefined where nothing precedes it.
template <class T>
struct Scanned {
  T inclusive, exclusive, aggregate;
};

// A scan of one item of each thread, in shared memory.
template <class T, int threads, BlockScanAlgorithm algorithm>
class ScanOfBlock {
  static constexpr bool by_warps = algorithm == BLOCK_SCAN_WARP_SCANS && threads % 32 == 0;
  static constexpr int width = std::min(threads, 32);
  static constexpr int segment = (threads + width - 1) / width;  // values of a lane that rakes
  static constexpr int rakers = (threads + segment - 1) / segment;

 public:
  struct Data {
    Uninitialized<T> values[by_warps ? threads / 32 : threads];
    Uninitialized<T> common;
  };

  template <class Op, class Prefix>
  static __forceinline__ Scanned<T> scan(Data& data, int rank, T input, Op op, const Prefix& prefix, Line line) {
    if constexpr (by_warps)
      return scan_warps(data, rank, input, op, prefix, line);
    else
      return rake(data, rank, input, op, prefix, line);
  }

 private:
  // Each warp scans its own values; each thread adds what the warps before it have.
  template <class Op, class Prefix>
  static __forceinline__ Scanned<T> scan_warps(Data& data, int rank, T input, Op op, const Prefix& prefix, Line line) {
    const SomeLanes<T> lanes;
    const int warp = rank / 32;
    const bool first_of_warp = rank % 32 == 0;
    T inclusive = scan_lanes(lanes, 32, input, op, line), exclusive = lane_below(lanes, inclusive, line);
    if (rank % 32 == 31) data.values[warp].Alias() = inclusive;
    __syncthreads(line);
    T all = data.values[0].Alias(), before = all;
    for (int other = 1; other < threads / 32; ++other) {
      if (other == warp) before = all;
      all = op(all, data.values[other].Alias());
    }
    if constexpr (Prefix::is_known) before = warp == 0 ? prefix(all) : static_cast<T>(op(prefix(all), before));
    if (warp != 0 || Prefix::is_known) {
      exclusive = first_of_warp ? before : static_cast<T>(op(before, exclusive));
      inclusive = op(before, inclusive);
    }
    if constexpr (Prefix::is_there && !Prefix::is_known) {
      if (warp == 0) {
        const T first = prefix(all);
        if (rank == 0) data.common.Alias() = exclusive = first;
      }
      __syncthreads(line);
      const T first = data.common.Alias();
      if (rank != 0) exclusive = op(first, exclusive);
      inclusive = op(first, inclusive);
    }
    return {inclusive, exclusive, all};
  }

  // The first warp scans, each lane its own segment of the values.
  template <class Op, class Prefix>
  static __forceinline__ Scanned<T> rake(Data& data, int rank, T input, Op op, const Prefix& prefix, Line line) {
    auto& values = data.values;
    values[rank].Alias() = input;
    __syncthreads(line);
    if (rank < rakers) rake_segment(data, rank, op, prefix, line);
    __syncthreads(line);
    const T exclusive = values[rank].Alias();
    const T inclusive = rank != 0 || Prefix::is_there ? static_cast<T>(op(exclusive, input)) : input;
    return {inclusive, exclusive, data.common.Alias()};
  }
  template <class Op, class Prefix>
  static __forceinline__ void rake_segment(Data& data, int lane, Op op, const Prefix& prefix, Line line) {
    const int begin = lane * segment, end = std::min(begin + segment, threads);
    const SomeLanes<T> lanes{0xffffffffu >> (32 - rakers)};
    T own = data.values[begin].Alias();
    for (int i = begin + 1; i < end; ++i) own = op(own, data.values[i].Alias());
    const T inclusive = scan_lanes(lanes, width, own, op, line);
    const T all = lanes.of(inclusive, rakers - 1, line);
    T before = lane_below(lanes, inclusive, line);
    if constexpr (Prefix::is_there) {
      const T first = lanes.of(prefix(all), 0, line);
      before = lane == 0 ? first : static_cast<T>(op(first, before));
    }
    if (lane == 0) data.common.Alias() = all;
    for (int i = begin; i < end; ++i) {
      const T value = data.values[i].Alias();
      data.values[i].Alias() = before;
      before = i > 0 || Prefix::is_there ? static_cast<T>(op(before, value)) : value;
    }
  }
};

}  // namespace details

// Sums of floats are added in CUB's order.
template <class T, int x, BlockScanAlgorithm algorithm = BLOCK_SCAN_RAKING, int y = 1, int z = 1>
class BlockScan : details::Block<x, y, z> {
  using Base = details::Block<x, y, z>;
  using Scan = details::ScanOfBlock<T, Base::threads, algorithm>;
  using Storage = details::Shared<typename Scan::Data>;
  using Plus = ::std::plus<>;
  using None = details::NoPrefix;
  using First = details::Initial<T>;
  template <class Callback>
  using Called = details::Called<Callback>;

 public:
  struct TempStorage : Uninitialized<Storage> {};

  __forceinline__ BlockScan() : storage_(private_storage()) {}
  __forceinline__ explicit BlockScan(TempStorage& storage) : storage_(storage.Alias()) {}

  // Each has forms for one item of a thread and for several; with the aggregate of the block's items; with a functor
  // that the first warp calls with that, and whose result in the first thread precedes all items.
  __forceinline__ void ExclusiveSum(T input, T& output, Line line = {}) {
    exclusive(input, output, Plus(), First{T()}, nullptr, line);
  }
  __forceinline__ void ExclusiveSum(T input, T& output, T& aggregate, Line line = {}) {
    exclusive(input, output, Plus(), First{T()}, &aggregate, line);
  }
  template <class Callback>
  __forceinline__ void ExclusiveSum(T input, T& output, Callback& callback, Line line = {}) {
    exclusive(input, output, Plus(), Called<Callback>{callback}, nullptr, line);
  }
  template <int items>
  __forceinline__ void ExclusiveSum(T (&input)[items], T (&output)[items], Line line = {}) {
    exclusive(input, output, Plus(), First{T()}, nullptr, line);
  }
  template <int items>
  __forceinline__ void ExclusiveSum(T (&input)[items], T (&output)[items], T& aggregate, Line line = {}) {
    exclusive(input, output, Plus(), First{T()}, &aggregate, line);
  }
  template <int items, class Callback>
  __forceinline__ void ExclusiveSum(T (&input)[items], T (&output)[items], Callback& callback, Line line = {}) {
    exclusive(input, output, Plus(), Called<Callback>{callback}, nullptr, line);
  }

  template <class Op>
  __forceinline__ void ExclusiveScan(T input, T& output, T initial, Op op, Line line = {}) {
    exclusive(input, output, op, First{initial}, nullptr, line);
  }
  template <class Op>
  __forceinline__ void ExclusiveScan(T input, T& output, T initial, Op op, T& aggregate, Line line = {}) {
    exclusive(input, output, op, First{initial}, &aggregate, line);
  }
  template <class Op, class Callback>
  __forceinline__ void ExclusiveScan(T input, T& output, Op op, Callback& callback, Line line = {}) {
    exclusive(input, output, op, Called<Callback>{callback}, nullptr, line);
  }
  template <int items, class Op>
  __forceinline__ void ExclusiveScan(T (&input)[items], T (&output)[items], T initial, Op op, Line line = {}) {
    exclusive(input, output, op, First{initial}, nullptr, line);
  }
  template <int items, class Op>
  __forceinline__ void ExclusiveScan(T (&input)[items], T (&output)[items], T initial, Op op, T& aggregate,
                                     Line line = {}) {
    exclusive(input, output, op, First{initial}, &aggregate, line);
  }
  template <int items, class Op, class Callback>
  __forceinline__ void ExclusiveScan(T (&input)[items], T (&output)[items], Op op, Callback& callback, Line line = {}) {
    exclusive(input, output, op, Called<Callback>{callback}, nullptr, line);
  }
  template <class Op>
  __forceinline__ void ExclusiveScan(T input, T& output, Op op, Line line = {}) {
    exclusive(input, output, op, None(), nullptr, line);
  }
  template <class Op>
  __forceinline__ void ExclusiveScan(T input, T& output, Op op, T& aggregate, Line line = {}) {
    exclusive(input, output, op, None(), &aggregate, line);
  }
  template <int items, class Op>
  __forceinline__ void ExclusiveScan(T (&input)[items], T (&output)[items], Op op, Line line = {}) {
    exclusive(input, output, op, None(), nullptr, line);
  }
  template <int items, class Op>
  __forceinline__ void ExclusiveScan(T (&input)[items], T (&output)[items], Op op, T& aggregate, Line line = {}) {
    exclusive(input, output, op, None(), &aggregate, line);
  }

  __forceinline__ void InclusiveSum(T input, T& output, Line line = {}) {
    inclusive(input, output, Plus(), None(), nullptr, line);
  }
  __forceinline__ void InclusiveSum(T input, T& output, T& aggregate, Line line = {}) {
    inclusive(input, output, Plus(), None(), &aggregate, line);
  }
  template <class Callback>
  __forceinline__ void InclusiveSum(T input, T& output, Callback& callback, Line line = {}) {
    inclusive(input, output, Plus(), Called<Callback>{callback}, nullptr, line);
  }
  template <int items>
  __forceinline__ void InclusiveSum(T (&input)[items], T (&output)[items], Line line = {}) {
    inclusive(input, output, Plus(), None(), nullptr, line);
  }
  template <int items>
  __forceinline__ void InclusiveSum(T (&input)[items], T (&output)[items], T& aggregate, Line line = {}) {
    inclusive(input, output, Plus(), None(), &aggregate, line);
  }
  template <int items, class Callback>
  __forceinline__ void InclusiveSum(T (&input)[items], T (&output)[items], Callback& callback, Line line = {}) {
    inclusive(input, output, Plus(), Called<Callback>{callback}, nullptr, line);
  }

  template <class Op>
  __forceinline__ void InclusiveScan(T input, T& output, Op op, Line line = {}) {
    inclusive(input, output, op, None(), nullptr, line);
  }
  template <class Op>
  __forceinline__ void InclusiveScan(T input, T& output, Op op, T& aggregate, Line line = {}) {
    inclusive(input, output, op, None(), &aggregate, line);
  }
  template <class Op, class Callback>
  __forceinline__ void InclusiveScan(T input, T& output, Op op, Callback& callback, Line line = {}) {
    inclusive(input, output, op, Called<Callback>{callback}, nullptr, line);
  }
  template <int items, class Op>
  __forceinline__ void InclusiveScan(T (&input)[items], T (&output)[items], Op op, Line line = {}) {
    inclusive(input, output, op, None(), nullptr, line);
  }
  template <int items, class Op>
  __forceinline__ void InclusiveScan(T (&input)[items], T (&output)[items], T initial, Op op, Line line = {}) {
    inclusive(input, output, op, First{initial}, nullptr, line);
  }
  template <int items, class Op>
  __forceinline__ void InclusiveScan(T (&input)[items], T (&output)[items], Op op, T& aggregate, Line line = {}) {
    inclusive(input, output, op, None(), &aggregate, line);
  }
  template <int items, class Op>
  __forceinline__ void InclusiveScan(T (&input)[items], T (&output)[items], T initial, Op op, T& aggregate,
                                     Line line = {}) {
    inclusive(input, output, op, First{initial}, &aggregate, line);
  }
  template <int items, class Op, class Callback>
  __forceinline__ void InclusiveScan(T (&input)[items], T (&output)[items], Op op, Callback& callback, Line line = {}) {
    inclusive(input, output, op, Called<Callback>{callback}, nullptr, line);
  }

 private:
  static Storage& private_storage() {
    __shared__ TempStorage storage;
    return storage.Alias();
  }

  template <class Op, class Prefix>
  __forceinline__ details::Scanned<T> scan(T input, Op op, const Prefix& prefix, Line line) {
    details::require_threads("BlockScan", Base::threads, Base::threads, line);
    const details::Use use(storage_.use, Base::rank());
    return Scan::scan(storage_.data, Base::rank(), input, op, prefix, line);
  }

  template <class Op, class Prefix>
  __forceinline__ void exclusive(T input, T& output, Op op, const Prefix& prefix, T* aggregate, Line line) {
    const auto scanned = scan(input, op, prefix, line);
    output = scanned.exclusive;
    if (aggregate != nullptr) *aggregate = scanned.aggregate;
  }
  template <class Op, class Prefix>
  __forceinline__ void inclusive(T input, T& output, Op op, const Prefix& prefix, T* aggregate, Line line) {
    const auto scanned = scan(input, op, prefix, line);
    output = scanned.inclusive;
    if (aggregate != nullptr) *aggregate = scanned.aggregate;
  }
  template <int items, class Op, class Prefix>
  __forceinline__ void exclusive(T (&input)[items], T (&output)[items], Op op, const Prefix& prefix, T* aggregate,
                                 Line line) {
    const auto scanned = scan(ThreadReduce(input, op), op, prefix, line);
    internal::ThreadScanExclusive(input, output, op, scanned.exclusive, Prefix::is_there || Base::rank() != 0);
    if (aggregate != nullptr) *aggregate = scanned.aggregate;
  }
  template <int items, class Op, class Prefix>
  __forceinline__ void inclusive(T (&input)[items], T (&output)[items], Op op, const Prefix& prefix, T* aggregate,
                                 Line line) {
    const auto scanned = scan(ThreadReduce(input, op), op, prefix, line);
    internal::ThreadScanInclusive(input, output, op, scanned.exclusive, Prefix::is_there || Base::rank() != 0);
    if (aggregate != nullptr) *aggregate = scanned.aggregate;
  }

  Storage& storage_;
};

}  // namespace cub
