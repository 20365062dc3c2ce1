// The lanes of a warp, or of a part of it, for CUB's collectives: values of any size from other lanes, reductions and
// scans, in CUB's order.
#pragma once

#include <trifold/cpu/cub/types.h>

namespace cub {
namespace details {

constexpr bool is_power_of_two(int n) {
  return (n & (n - 1)) == 0;
}

// The value of the lane with this number in the warp; all lanes of the mask call it.
template <class T>
T of_lane(unsigned mask, const T& value, unsigned source, Line line) {
  return trifold::cpu::shuffle(trifold::cpu::Wait::shuffle, mask, value, source, 32, line);
}

// The running thread in its logical warp of so many lanes, a power of two: shuffles exchange the values.
template <class T, int width, bool by_shuffles = is_power_of_two(width)>
class Lanes {
 public:
  struct Storage {};

  explicit Lanes(Storage&) {}

  static unsigned lane() { return trifold::cpu::lane() % width; }
  // This logical warp's lanes, of those of the warp.
  static unsigned mask() { return lanes << first(); }

  T of(const T& value, unsigned source, Line line) const { return of_lane(mask(), value, first() + source, line); }

 private:
  static constexpr unsigned lanes = 0xffffffffu >> (32 - width);

  static unsigned first() { return trifold::cpu::lane() / width * width; }
};

// Of another number of lanes: the first ones of a warp, which exchange their values in shared memory.
template <class T, int width>
class Lanes<T, width, false> {
 public:
  struct Storage {
    Uninitialized<T> values[width];
  };

  __forceinline__ explicit Lanes(Storage& storage) : storage_(storage) {}

  static unsigned lane() { return trifold::cpu::lane(); }
  static unsigned mask() { return 0xffffffffu >> (32 - width); }

  __forceinline__ T of(const T& value, unsigned source, Line line) const {
    storage_.values[lane()].Alias() = value;
    __syncwarp(mask(), line);
    const T other = storage_.values[source].Alias();
    __syncwarp(mask(), line);
    return other;
  }

 private:
  Storage& storage_;
};

// Some lanes of a warp, by their numbers in it.
template <class T>
struct SomeLanes {
  unsigned lanes = 0xffffffffu;

  static unsigned lane() { return trifold::cpu::lane(); }
  T of(const T& value, unsigned source, Line line) const { return of_lane(lanes, value, source, line); }
};

// The reduction of the values from one's own lane to the lane `last`; CUB defines it in the first lane of these.
template <class T, class Lanes, class Op>
__forceinline__ T reduce_lanes(const Lanes& lanes, int width, T value, int last, Op op, Line line) {
  const int lane = static_cast<int>(lanes.lane());
  for (int step = 1; step < width; step *= 2) {
    const bool has = lane + step <= last;
    const T other = lanes.of(value, static_cast<unsigned>(has ? lane + step : lane), line);
    if (has) value = op(value, other);
  }
  return value;
}

// The reduction of the values from the first lane to one's own.
template <class T, class Lanes, class Op>
__forceinline__ T scan_lanes(const Lanes& lanes, int width, T value, Op op, Line line) {
  const int lane = static_cast<int>(lanes.lane());
  for (int step = 1; step < width; step *= 2) {
    const bool has = lane >= step;
    const T other = lanes.of(value, static_cast<unsigned>(has ? lane - step : lane), line);
    if (has) value = op(other, value);
  }
  return value;
}
// Of the lane below, one's own for the first.
template <class T, class Lanes>
__forceinline__ T lane_below(const Lanes& lanes, const T& value, Line line) {
  return lanes.of(value, lanes.lane() == 0 ? 0 : lanes.lane() - 1, line);
}

}  // namespace details

template <int width, class T>
T ShuffleUp(T input, int distance, int first, unsigned mask, Line line = {}) {
  const int lane = static_cast<int>(LaneId()), source = lane - distance, begin = lane / width * width;
  return details::of_lane(mask, input, static_cast<unsigned>(source < begin + first ? lane : source), line);
}
template <int width, class T>
T ShuffleDown(T input, int distance, int last, unsigned mask, Line line = {}) {
  const int lane = static_cast<int>(LaneId()), source = lane + distance, begin = lane / width * width;
  return details::of_lane(mask, input, static_cast<unsigned>(source > begin + last ? lane : source), line);
}
template <int width, class T>
T ShuffleIndex(T input, int source, unsigned mask, Line line = {}) {
  return details::of_lane(mask, input, LaneId() / width * width + static_cast<unsigned>(source) % width, line);
}

}  // namespace cub
