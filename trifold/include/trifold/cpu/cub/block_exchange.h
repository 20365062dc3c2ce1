// CUB's BlockExchange: the items of a block in other arrangements. Blocked: each thread has successive items. Striped:
// successive threads do. Warp-striped: the same in each warp, for its part of the items.
#pragma once

#include <trifold/cpu/cub/block_use.h>

#include <algorithm>

namespace cub {
namespace details {

// Where a thread has its item i.
template <int threads, int items>
struct Arrangement {
  static int blocked(int rank, int i) { return rank * items + i; }
  static int striped(int rank, int i) { return i * threads + rank; }
  static int warp_striped(int rank, int i) {
    const int first = rank / 32 * 32, lanes = std::min(32, threads - first);
    return first * items + i * lanes + rank % 32;
  }
};

}  // namespace details

template <class T, int x, int items, bool time_slicing = false, int y = 1, int z = 1>
class BlockExchange : details::Block<x, y, z> {
  using Base = details::Block<x, y, z>;
  using At = details::Arrangement<Base::threads, items>;

  struct Data {
    Uninitialized<T> values[Base::threads * items];
  };
  using Storage = details::Shared<Data>;

 public:
  struct TempStorage : Uninitialized<Storage> {};

  __forceinline__ BlockExchange() : storage_(private_storage()) {}
  __forceinline__ explicit BlockExchange(TempStorage& storage) : storage_(storage.Alias()) {}

  template <class U>
  __forceinline__ void StripedToBlocked(const T (&input)[items], U (&output)[items], Line line = {}) {
    exchange(input, output, At::striped, At::blocked, line);
  }
  template <class U>
  __forceinline__ void BlockedToStriped(const T (&input)[items], U (&output)[items], Line line = {}) {
    exchange(input, output, At::blocked, At::striped, line);
  }
  template <class U>
  __forceinline__ void WarpStripedToBlocked(const T (&input)[items], U (&output)[items], Line line = {}) {
    exchange(input, output, At::warp_striped, At::blocked, line);
  }
  template <class U>
  __forceinline__ void BlockedToWarpStriped(const T (&input)[items], U (&output)[items], Line line = {}) {
    exchange(input, output, At::blocked, At::warp_striped, line);
  }
  // To the places that `ranks` states.
  template <class U, class Rank>
  __forceinline__ void ScatterToBlocked(const T (&input)[items], U (&output)[items], Rank (&ranks)[items],
                                        Line line = {}) {
    exchange(input, output, [&](int, int i) { return static_cast<int>(ranks[i]); }, At::blocked, line);
  }
  template <class U, class Rank>
  __forceinline__ void ScatterToStriped(const T (&input)[items], U (&output)[items], Rank (&ranks)[items],
                                        Line line = {}) {
    exchange(input, output, [&](int, int i) { return static_cast<int>(ranks[i]); }, At::striped, line);
  }
  // Of the items whose rank is not negative; or of those that are valid.
  template <class U, class Rank>
  __forceinline__ void ScatterToStripedGuarded(const T (&input)[items], U (&output)[items], Rank (&ranks)[items],
                                               Line line = {}) {
    scatter_some(input, output, ranks, [&](int i) { return ranks[i] >= 0; }, line);
  }
  template <class U, class Rank, class Flag>
  __forceinline__ void ScatterToStripedFlagged(const T (&input)[items], U (&output)[items], Rank (&ranks)[items],
                                               Flag (&valid)[items], Line line = {}) {
    scatter_some(input, output, ranks, [&](int i) { return static_cast<bool>(valid[i]); }, line);
  }

  __forceinline__ void StripedToBlocked(T (&inout)[items], Line line = {}) { StripedToBlocked(inout, inout, line); }
  __forceinline__ void BlockedToStriped(T (&inout)[items], Line line = {}) { BlockedToStriped(inout, inout, line); }
  __forceinline__ void WarpStripedToBlocked(T (&inout)[items], Line line = {}) {
    WarpStripedToBlocked(inout, inout, line);
  }
  __forceinline__ void BlockedToWarpStriped(T (&inout)[items], Line line = {}) {
    BlockedToWarpStriped(inout, inout, line);
  }
  template <class Rank>
  __forceinline__ void ScatterToBlocked(T (&inout)[items], Rank (&ranks)[items], Line line = {}) {
    ScatterToBlocked(inout, inout, ranks, line);
  }
  template <class Rank>
  __forceinline__ void ScatterToStriped(T (&inout)[items], Rank (&ranks)[items], Line line = {}) {
    ScatterToStriped(inout, inout, ranks, line);
  }
  template <class Rank>
  __forceinline__ void ScatterToStripedGuarded(T (&inout)[items], Rank (&ranks)[items], Line line = {}) {
    ScatterToStripedGuarded(inout, inout, ranks, line);
  }
  template <class Rank, class Flag>
  __forceinline__ void ScatterToStripedFlagged(T (&inout)[items], Rank (&ranks)[items], Flag (&valid)[items],
                                               Line line = {}) {
    ScatterToStripedFlagged(inout, inout, ranks, valid, line);
  }

 private:
  static Storage& private_storage() {
    __shared__ TempStorage storage;
    return storage.Alias();
  }

  template <class U, class From, class To>
  __forceinline__ void exchange(const T (&input)[items], U (&output)[items], const From& from, const To& to,
                                Line line) {
    details::require_threads("BlockExchange", Base::threads, Base::threads, line);
    const int rank = Base::rank();
    const details::Use use(storage_.use, rank);
    for (int i = 0; i < items; ++i) storage_.data.values[from(rank, i)].Alias() = input[i];
    __syncthreads(line);
    for (int i = 0; i < items; ++i) output[i] = storage_.data.values[to(rank, i)].Alias();
  }
  // Places that no item is scattered to keep what they have.
  template <class U, class Rank, class Valid>
  __forceinline__ void scatter_some(const T (&input)[items], U (&output)[items], Rank (&ranks)[items],
                                    const Valid& valid, Line line) {
    details::require_threads("BlockExchange", Base::threads, Base::threads, line);
    const int rank = Base::rank();
    const details::Use use(storage_.use, rank);
    for (int i = 0; i < items; ++i) storage_.data.values[At::striped(rank, i)].Alias() = output[i];
    __syncthreads(line);
    for (int i = 0; i < items; ++i)
      if (valid(i)) storage_.data.values[static_cast<int>(ranks[i])].Alias() = input[i];
    __syncthreads(line);
    for (int i = 0; i < items; ++i) output[i] = storage_.data.values[At::striped(rank, i)].Alias();
  }

  Storage& storage_;
};

}  // namespace cub
