// CUB's collectives in which a thread uses the items of its neighbours: BlockDiscontinuity, BlockAdjacentDifference,
// BlockShuffle. A thread's items are successive ones of the tile.
#pragma once

#include <trifold/cpu/cub/block_use.h>

namespace cub {
namespace details {

// An item of each thread, for the others to read.
template <class T, int x, int y, int z>
class Neighbours : protected Block<x, y, z> {
 protected:
  using Base = Block<x, y, z>;
  struct Data {
    Uninitialized<T> first[Base::threads], last[Base::threads];
  };
  using Storage = Shared<Data>;

 public:
  struct TempStorage : Uninitialized<Storage> {};

 protected:
  static TempStorage& private_storage() {
    __shared__ TempStorage storage;
    return storage;
  }

  __forceinline__ explicit Neighbours(TempStorage& storage) : storage_(storage.Alias()) {}

  // Publishes a thread's first and last item, and calls work(begin, end): the item before and the item after its own.
  // At the tile's ends these are null, or those that are given.
  template <int items, class Work>
  __forceinline__ void meet(const char* collective, const T (&input)[items], T* predecessor, T* successor, Line line,
                            const Work& work) {
    require_threads(collective, Base::threads, Base::threads, line);
    const int rank = Base::rank();
    const Use use(storage_.use, rank);
    storage_.data.first[rank].Alias() = input[0];
    storage_.data.last[rank].Alias() = input[items - 1];
    __syncthreads(line);
    T* const before = rank == 0 ? nullptr : &storage_.data.last[rank - 1].Alias();
    T* const after = rank == Base::threads - 1 ? nullptr : &storage_.data.first[rank + 1].Alias();
    work(rank == 0 ? predecessor : before, rank == Base::threads - 1 ? successor : after);
  }

  Storage& storage_;
};

// An operation of two items may also have the place of the second one.
template <class Op, class T>
__forceinline__ auto apply(Op& op, const T& a, const T& b, int place) {
  if constexpr (std::is_invocable_v<Op&, const T&, const T&, int>)
    return op(a, b, place);
  else
    return op(a, b);
}

}  // namespace details

template <class T, int x, int y = 1, int z = 1>
class BlockDiscontinuity : details::Neighbours<T, x, y, z> {
  using Base = details::Neighbours<T, x, y, z>;

 public:
  using typename Base::TempStorage;

  __forceinline__ BlockDiscontinuity() : Base(Base::private_storage()) {}
  __forceinline__ explicit BlockDiscontinuity(TempStorage& storage) : Base(storage) {}

  // Flags where op(item, next item) is true: at the next item, or at the item. At the tile's ends, flags are 1, unless
  // the item beyond is given.
  template <int items, class Flag, class Op>
  __forceinline__ void FlagHeads(Flag (&heads)[items], T (&input)[items], Op op, Line line = {}) {
    flag<items, Flag>(heads, nullptr, input, op, nullptr, nullptr, line);
  }
  template <int items, class Flag, class Op>
  __forceinline__ void FlagHeads(Flag (&heads)[items], T (&input)[items], Op op, T predecessor, Line line = {}) {
    flag<items, Flag>(heads, nullptr, input, op, &predecessor, nullptr, line);
  }
  template <int items, class Flag, class Op>
  __forceinline__ void FlagTails(Flag (&tails)[items], T (&input)[items], Op op, Line line = {}) {
    flag<items, Flag>(nullptr, tails, input, op, nullptr, nullptr, line);
  }
  template <int items, class Flag, class Op>
  __forceinline__ void FlagTails(Flag (&tails)[items], T (&input)[items], Op op, T successor, Line line = {}) {
    flag<items, Flag>(nullptr, tails, input, op, nullptr, &successor, line);
  }
  template <int items, class Flag, class Op>
  __forceinline__ void FlagHeadsAndTails(Flag (&heads)[items], Flag (&tails)[items], T (&input)[items], Op op,
                                         Line line = {}) {
    flag<items, Flag>(heads, tails, input, op, nullptr, nullptr, line);
  }
  template <int items, class Flag, class Op>
  __forceinline__ void FlagHeadsAndTails(Flag (&heads)[items], Flag (&tails)[items], T successor, T (&input)[items],
                                         Op op, Line line = {}) {
    flag<items, Flag>(heads, tails, input, op, nullptr, &successor, line);
  }
  template <int items, class Flag, class Op>
  __forceinline__ void FlagHeadsAndTails(Flag (&heads)[items], T predecessor, Flag (&tails)[items], T (&input)[items],
                                         Op op, Line line = {}) {
    flag<items, Flag>(heads, tails, input, op, &predecessor, nullptr, line);
  }
  template <int items, class Flag, class Op>
  __forceinline__ void FlagHeadsAndTails(Flag (&heads)[items], T predecessor, Flag (&tails)[items], T successor,
                                         T (&input)[items], Op op, Line line = {}) {
    flag<items, Flag>(heads, tails, input, op, &predecessor, &successor, line);
  }

 private:
  template <int items, class Flag, class Op>
  __forceinline__ void flag(Flag* heads, Flag* tails, const T (&input)[items], Op op, T* predecessor, T* successor,
                            Line line) {
    Base::meet("BlockDiscontinuity", input, predecessor, successor, line,
               [&](const T* before, const T* after) __attribute__((always_inline)) {
                 const int first = Base::rank() * items;
                 const auto flag_of = [&](const T* a, const T* b, int place) {
                   return static_cast<Flag>(a == nullptr || b == nullptr || details::apply(op, *a, *b, place));
                 };
                 for (int i = 0; i <= items; ++i) {
                   const T* const a = i == 0 ? before : &input[i - 1];
                   const T* const b = i == items ? after : &input[i];
                   if (heads != nullptr && i < items) heads[i] = flag_of(a, b, first + i);
                   if (tails != nullptr && i > 0) tails[i - 1] = flag_of(a, b, first + i);
                 }
               });
  }
};

template <class T, int x, int y = 1, int z = 1>
class BlockAdjacentDifference : details::Neighbours<T, x, y, z> {
  using Base = details::Neighbours<T, x, y, z>;

 public:
  using typename Base::TempStorage;

  __forceinline__ BlockAdjacentDifference() : Base(Base::private_storage()) {}
  __forceinline__ explicit BlockAdjacentDifference(TempStorage& storage) : Base(storage) {}

  // op(item, the one before it); where none is before it, or the item is not valid, the item itself. As CUB's, `op` may
  // take references to items that are not const.
  template <int items, class Out, class Op>
  __forceinline__ void SubtractLeft(T (&input)[items], Out (&output)[items], Op op, Line line = {}) {
    left(input, output, op, Base::Base::threads * items, nullptr, line);
  }
  template <int items, class Out, class Op>
  __forceinline__ void SubtractLeft(T (&input)[items], Out (&output)[items], Op op, T predecessor, Line line = {}) {
    left(input, output, op, Base::Base::threads * items, &predecessor, line);
  }
  template <int items, class Out, class Op>
  __forceinline__ void SubtractLeftPartialTile(T (&input)[items], Out (&output)[items], Op op, int valid,
                                               Line line = {}) {
    left(input, output, op, valid, nullptr, line);
  }
  template <int items, class Out, class Op>
  __forceinline__ void SubtractLeftPartialTile(T (&input)[items], Out (&output)[items], Op op, int valid, T predecessor,
                                               Line line = {}) {
    left(input, output, op, valid, &predecessor, line);
  }
  // op(item, the one after it); the last valid item is itself.
  template <int items, class Out, class Op>
  __forceinline__ void SubtractRight(T (&input)[items], Out (&output)[items], Op op, Line line = {}) {
    right(input, output, op, Base::Base::threads * items, nullptr, line);
  }
  template <int items, class Out, class Op>
  __forceinline__ void SubtractRight(T (&input)[items], Out (&output)[items], Op op, T successor, Line line = {}) {
    right(input, output, op, Base::Base::threads * items + 1, &successor, line);
  }
  template <int items, class Out, class Op>
  __forceinline__ void SubtractRightPartialTile(T (&input)[items], Out (&output)[items], Op op, int valid,
                                                Line line = {}) {
    right(input, output, op, valid, nullptr, line);
  }

 private:
  template <int items, class Out, class Op>
  __forceinline__ void left(T (&input)[items], Out (&output)[items], Op op, int valid, T* predecessor, Line line) {
    Base::meet("BlockAdjacentDifference", input, predecessor, nullptr, line,
               [&](T* before, T*) __attribute__((always_inline)) {
                 for (int i = items - 1; i >= 0; --i) {  // downwards: input and output may be the same
                   T* const other = i == 0 ? before : &input[i - 1];
                   const bool has = other != nullptr && Base::Base::rank() * items + i < valid;
                   output[i] = has ? static_cast<Out>(op(input[i], *other)) : static_cast<Out>(input[i]);
                 }
               });
  }
  template <int items, class Out, class Op>
  __forceinline__ void right(T (&input)[items], Out (&output)[items], Op op, int valid, T* successor, Line line) {
    Base::meet("BlockAdjacentDifference", input, nullptr, successor, line,
               [&](T*, T* after) __attribute__((always_inline)) {
                 for (int i = 0; i < items; ++i) {
                   T* const other = i == items - 1 ? after : &input[i + 1];
                   const bool has = other != nullptr && Base::Base::rank() * items + i < valid - 1;
                   output[i] = has ? static_cast<Out>(op(input[i], *other)) : static_cast<Out>(input[i]);
                 }
               });
  }
};

template <class T, int x, int y = 1, int z = 1>
class BlockShuffle : details::Neighbours<T, x, y, z> {
  using Base = details::Neighbours<T, x, y, z>;
  static constexpr int threads = Base::Base::threads;

 public:
  using typename Base::TempStorage;

  __forceinline__ BlockShuffle() : Base(Base::private_storage()) {}
  __forceinline__ explicit BlockShuffle(TempStorage& storage) : Base(storage) {}

  // From the thread at this distance, where there is one; or around the block.
  __forceinline__ void Offset(T input, T& output, int distance = 1, Line line = {}) {
    const int from = Base::Base::rank() + distance;
    shuffle(input, line, [&]() __attribute__((always_inline)) {
      if (from >= 0 && from < threads) output = of(from);
    });
  }
  __forceinline__ void Rotate(T input, T& output, unsigned distance = 1, Line line = {}) {
    const int from = static_cast<int>((static_cast<unsigned>(Base::Base::rank()) + distance) % threads);
    shuffle(input, line, [&]() __attribute__((always_inline)) { output = of(from); });
  }
  // All items by one place: the tile's first, or last, is left alone.
  template <int items>
  __forceinline__ void Up(T (&input)[items], T (&previous)[items], Line line = {}) {
    move_up(input, previous, nullptr, line);
  }
  template <int items>
  __forceinline__ void Up(T (&input)[items], T (&previous)[items], T& suffix, Line line = {}) {
    move_up(input, previous, &suffix, line);
  }
  template <int items>
  __forceinline__ void Down(T (&input)[items], T (&next)[items], Line line = {}) {
    move_down(input, next, nullptr, line);
  }
  template <int items>
  __forceinline__ void Down(T (&input)[items], T (&next)[items], T& prefix, Line line = {}) {
    move_down(input, next, &prefix, line);
  }

 private:
  __forceinline__ T of(int rank) { return this->storage_.data.first[rank].Alias(); }

  template <class Work>
  __forceinline__ void shuffle(const T& input, Line line, const Work& work) {
    const T one[1] = {input};
    Base::meet("BlockShuffle", one, nullptr, nullptr, line,
               [&](const T*, const T*) __attribute__((always_inline)) { work(); });
  }
  template <int items>
  __forceinline__ void move_up(T (&input)[items], T (&previous)[items], T* suffix, Line line) {
    Base::meet("BlockShuffle", input, nullptr, nullptr, line,
               [&](const T* before, const T*) __attribute__((always_inline)) {
                 for (int i = items - 1; i > 0; --i) previous[i] = input[i - 1];
                 if (before != nullptr) previous[0] = *before;
                 if (suffix != nullptr) *suffix = this->storage_.data.last[threads - 1].Alias();
               });
  }
  template <int items>
  __forceinline__ void move_down(T (&input)[items], T (&next)[items], T* prefix, Line line) {
    Base::meet("BlockShuffle", input, nullptr, nullptr, line,
               [&](const T*, const T* after) __attribute__((always_inline)) {
                 for (int i = 0; i < items - 1; ++i) next[i] = input[i + 1];
                 if (after != nullptr) next[items - 1] = *after;
                 if (prefix != nullptr) *prefix = of(0);
               });
  }
};

}  // namespace cub
