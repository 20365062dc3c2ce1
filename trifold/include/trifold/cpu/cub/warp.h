// CUB's reductions and scans of the lanes of a warp: WarpReduce and WarpScan.
#pragma once

#include <trifold/cpu/cub/lanes.h>

namespace cub {

template <class T, int width = 32>
class WarpReduce {
  using Lanes = details::Lanes<T, width>;

 public:
  struct TempStorage : Uninitialized<typename Lanes::Storage> {};

  __forceinline__ explicit WarpReduce(TempStorage& storage) : lanes_(storage.Alias()) {}

  __forceinline__ T Sum(T input, Line line = {}) const { return reduce(input, width - 1, Plus(), line); }
  __forceinline__ T Sum(T input, int valid_items, Line line = {}) const {
    return reduce(input, last_of(valid_items, line), Plus(), line);
  }
  template <class Op>
  __forceinline__ T Reduce(T input, Op op, Line line = {}) const {
    return reduce(input, width - 1, op, line);
  }
  template <class Op>
  __forceinline__ T Reduce(T input, Op op, int valid_items, Line line = {}) const {
    return reduce(input, last_of(valid_items, line), op, line);
  }
  // Of segments, each of which begins with a lane that has a flag, or ends with one.
  template <class Op, class Flag>
  __forceinline__ T HeadSegmentedReduce(T input, Flag flag, Op op, Line line = {}) const {
    return reduce(input, last_of_segment(flag, true, line), op, line);
  }
  template <class Op, class Flag>
  __forceinline__ T TailSegmentedReduce(T input, Flag flag, Op op, Line line = {}) const {
    return reduce(input, last_of_segment(flag, false, line), op, line);
  }
  template <class Flag>
  __forceinline__ T HeadSegmentedSum(T input, Flag flag, Line line = {}) const {
    return HeadSegmentedReduce(input, flag, Plus(), line);
  }
  template <class Flag>
  __forceinline__ T TailSegmentedSum(T input, Flag flag, Line line = {}) const {
    return TailSegmentedReduce(input, flag, Plus(), line);
  }

 private:
  using Plus = ::std::plus<>;

  template <class Op>
  __forceinline__ T reduce(T input, int last, Op op, Line line) const {
    return details::reduce_lanes(lanes_, width, input, last, op, line);
  }
  static int last_of(int valid_items, Line line) {
    if (valid_items > width)
      trifold::cpu::stop_launch("a WarpReduce of more valid items than its logical warp has lanes", line);
    return valid_items - 1;
  }
  template <class Flag>
  static int last_of_segment(Flag flag, bool heads, Line line) {
    const unsigned mask = Lanes::mask(), lane = Lanes::lane();
    const unsigned flags = __ballot_sync(mask, static_cast<bool>(flag), line) >> (LaneId() - lane);
    const unsigned from_here = heads ? flags >> lane >> 1 : flags >> lane;
    return from_here == 0 ? width - 1 : static_cast<int>(lane) + __ffs(static_cast<int>(from_here)) - 1;
  }

  Lanes lanes_;
};

template <class T, int width = 32>
class WarpScan {
  using Lanes = details::Lanes<T, width>;

 public:
  struct TempStorage : Uninitialized<typename Lanes::Storage> {};

  __forceinline__ explicit WarpScan(TempStorage& storage) : lanes_(storage.Alias()) {}

  __forceinline__ void InclusiveSum(T input, T& output, Line line = {}) const { output = scan(input, Plus(), line); }
  __forceinline__ void InclusiveSum(T input, T& output, T& aggregate, Line line = {}) const {
    output = scan(input, Plus(), line);
    aggregate = last(output, line);
  }
  __forceinline__ void ExclusiveSum(T input, T& output, Line line = {}) const {
    output = before(scan(input, Plus(), line), T(), Plus(), line);
  }
  __forceinline__ void ExclusiveSum(T input, T& output, T& aggregate, Line line = {}) const {
    const T inclusive = scan(input, Plus(), line);
    aggregate = last(inclusive, line);
    output = before(inclusive, T(), Plus(), line);
  }
  template <class Op>
  __forceinline__ void InclusiveScan(T input, T& output, Op op, Line line = {}) const {
    output = scan(input, op, line);
  }
  template <class Op>
  __forceinline__ void InclusiveScan(T input, T& output, T initial, Op op, Line line = {}) const {
    output = op(initial, scan(input, op, line));
  }
  template <class Op>
  __forceinline__ void InclusiveScan(T input, T& output, Op op, T& aggregate, Line line = {}) const {
    output = scan(input, op, line);
    aggregate = last(output, line);
  }
  template <class Op>
  __forceinline__ void InclusiveScan(T input, T& output, T initial, Op op, T& aggregate, Line line = {}) const {
    const T inclusive = scan(input, op, line);
    aggregate = last(inclusive, line);
    output = op(initial, inclusive);
  }
  // Without an initial value the first lane's output is undefined.
  template <class Op>
  __forceinline__ void ExclusiveScan(T input, T& output, Op op, Line line = {}) const {
    output = details::lane_below(lanes_, scan(input, op, line), line);
  }
  template <class Op>
  __forceinline__ void ExclusiveScan(T input, T& output, T initial, Op op, Line line = {}) const {
    output = before(scan(input, op, line), initial, op, line);
  }
  template <class Op>
  __forceinline__ void ExclusiveScan(T input, T& output, Op op, T& aggregate, Line line = {}) const {
    const T inclusive = scan(input, op, line);
    aggregate = last(inclusive, line);
    output = details::lane_below(lanes_, inclusive, line);
  }
  template <class Op>
  __forceinline__ void ExclusiveScan(T input, T& output, T initial, Op op, T& aggregate, Line line = {}) const {
    const T inclusive = scan(input, op, line);
    aggregate = last(inclusive, line);
    output = before(inclusive, initial, op, line);
  }
  template <class Op>
  __forceinline__ void Scan(T input, T& inclusive, T& exclusive, Op op, Line line = {}) const {
    inclusive = scan(input, op, line);
    exclusive = details::lane_below(lanes_, inclusive, line);
  }
  template <class Op>
  __forceinline__ void Scan(T input, T& inclusive, T& exclusive, T initial, Op op, Line line = {}) const {
    const T own = scan(input, op, line);
    inclusive = op(initial, own);
    exclusive = before(own, initial, op, line);
  }
  __forceinline__ T Broadcast(T input, unsigned source, Line line = {}) const {
    return lanes_.of(input, source % width, line);
  }

 private:
  using Plus = ::std::plus<>;

  template <class Op>
  __forceinline__ T scan(T input, Op op, Line line) const {
    return details::scan_lanes(lanes_, width, input, op, line);
  }
  __forceinline__ T last(const T& inclusive, Line line) const { return lanes_.of(inclusive, width - 1, line); }
  // The exclusive scan that belongs to an inclusive one.
  template <class Op>
  __forceinline__ T before(const T& inclusive, T initial, Op op, Line line) const {
    const T below = details::lane_below(lanes_, inclusive, line);
    return lanes_.lane() == 0 ? initial : static_cast<T>(op(initial, below));
  }

  Lanes lanes_;
};

}  // namespace cub
