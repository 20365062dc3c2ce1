// CUB's BlockLoad and BlockStore, and the functions that load and store a thread's items directly.
#pragma once

#include <trifold/cpu/cub/block_exchange.h>
#include <trifold/cpu/cub/iterators.h>

#include <algorithm>
#include <cstdint>

namespace cub {

enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};
enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

namespace details {

// Of the items whose place in the tile is below `end`; the others are left alone.
template <class T, int items, class Iterator, class Place>
__forceinline__ void load_items(Iterator from, T (&to)[items], int end, Place place) {
  for (int i = 0; i < items; ++i)
    if (const int at = place(i); at < end) to[i] = from[at];
}
template <class T, int items, class Iterator, class Place>
__forceinline__ void store_items(Iterator to, const T (&from)[items], int end, Place place) {
  for (int i = 0; i < items; ++i)
    if (const int at = place(i); at < end) to[at] = from[i];
}

inline constexpr int all_items = 0x7fffffff;

template <class T, int items, class Default>
__forceinline__ void set_items(T (&to)[items], const Default& value) {
  for (int i = 0; i < items; ++i) to[i] = value;
}

// How many items of a thread a vectorised store moves at a time.
template <class T, int items>
constexpr int vector_items = items % 4 == 0                ? 4
                             : items % 2 == 0 && items < 4 ? 2
                                                           : 1;

template <class T, int items>
__forceinline__ void require_vectors(const T* to, Line line) {
  constexpr size_t bytes = std::min<size_t>(16, sizeof(T) * vector_items<T, items>);
  if (reinterpret_cast<uintptr_t>(to) % bytes != 0)
    trifold::cpu::stop_launch("a vectorised store of a block's items to an address that is not a vector's", line);
}

}  // namespace details

// The functions for each arrangement differ in the place of an item alone: only a macro can make their names.
#define TRIFOLD_DIRECT(name, parameters, place)                                                                    \
  template <parameters class T, int items, class Iterator>                                                         \
  __forceinline__ void LoadDirect##name(int rank, Iterator from, T(&to)[items]) {                                  \
    details::load_items(from, to, details::all_items, [&](int i) { return place; });                               \
  }                                                                                                                \
  template <parameters class T, int items, class Iterator>                                                         \
  __forceinline__ void LoadDirect##name(int rank, Iterator from, T(&to)[items], int end) {                         \
    details::load_items(from, to, end, [&](int i) { return place; });                                              \
  }                                                                                                                \
  template <parameters class T, class Default, int items, class Iterator>                                          \
  __forceinline__ void LoadDirect##name(int rank, Iterator from, T(&to)[items], int end, Default value) {          \
    details::set_items(to, value);                                                                                 \
    details::load_items(from, to, end, [&](int i) { return place; });                                              \
  }                                                                                                                \
  template <parameters class T, int items, class Iterator>                                                         \
  __forceinline__ void StoreDirect##name(int rank, Iterator to, T(&from)[items], int valid = details::all_items) { \
    details::store_items(to, from, valid, [&](int i) { return place; });                                           \
  }
#define TRIFOLD_THREADS int threads,
TRIFOLD_DIRECT(Blocked, , rank* items + i)
TRIFOLD_DIRECT(Striped, TRIFOLD_THREADS, i* threads + rank)
TRIFOLD_DIRECT(WarpStriped, , rank / 32 * 32 * items + i * 32 + rank % 32)
#undef TRIFOLD_THREADS
#undef TRIFOLD_DIRECT

template <class T, int items>
__forceinline__ void LoadDirectBlockedVectorized(int rank, T* from, T (&to)[items]) {
  LoadDirectBlocked(rank, from, to);
}
template <class T, int items>
__forceinline__ void StoreDirectBlockedVectorized(int rank, T* to, T (&from)[items], Line line = {}) {
  details::require_vectors<T, items>(to, line);
  StoreDirectBlocked(rank, to, from);
}

namespace details {

// The items of a thread are loaded or stored as the algorithm says; a transposition exchanges them in shared memory.
template <class T, int x, int items, int algorithm, int y, int z>
class BlockIO : protected Block<x, y, z> {
 protected:
  using Base = Block<x, y, z>;
  using At = Arrangement<Base::threads, items>;
  using Exchange = BlockExchange<T, x, items, false, y, z>;
  static constexpr bool transposes = algorithm >= BLOCK_LOAD_TRANSPOSE, by_warps = algorithm > BLOCK_LOAD_TRANSPOSE;

 public:
  struct TempStorage : std::conditional_t<transposes, typename Exchange::TempStorage, NullType> {};

 protected:
  static TempStorage& private_storage() {
    __shared__ TempStorage storage;
    return storage;
  }

  explicit BlockIO(TempStorage& storage) : storage_(storage) {}

  // Where memory has the thread's item i.
  static int place(int i) {
    const int rank = Base::rank();
    if constexpr (by_warps) return At::warp_striped(rank, i);
    if constexpr (algorithm == BLOCK_LOAD_STRIPED || transposes) return At::striped(rank, i);
    return At::blocked(rank, i);
  }

  TempStorage& storage_;
};

}  // namespace details

template <class T, int x, int items, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int y = 1, int z = 1>
class BlockLoad : details::BlockIO<T, x, items, algorithm, y, z> {
  using IO = details::BlockIO<T, x, items, algorithm, y, z>;

 public:
  using typename IO::TempStorage;

  __forceinline__ BlockLoad() : IO(IO::private_storage()) {}
  __forceinline__ explicit BlockLoad(TempStorage& storage) : IO(storage) {}

  template <class Iterator>
  __forceinline__ void Load(Iterator from, T (&to)[items], Line line = {}) {
    load(from, to, details::all_items, line);
  }
  // Of the tile's first `valid` items; the others are left alone, or get a value.
  template <class Iterator>
  __forceinline__ void Load(Iterator from, T (&to)[items], int valid, Line line = {}) {
    load(from, to, valid, line);
  }
  template <class Iterator, class Default, class = std::enable_if_t<!std::is_same_v<Default, Line>>>
  __forceinline__ void Load(Iterator from, T (&to)[items], int valid, Default value, Line line = {}) {
    details::set_items(to, value);
    load(from, to, valid, line);
  }

 private:
  template <class Iterator>
  __forceinline__ void load(Iterator from, T (&to)[items], int valid, Line line) {
    details::load_items(from, to, valid, IO::place);
    if constexpr (IO::by_warps)
      typename IO::Exchange(this->storage_).WarpStripedToBlocked(to, to, line);
    else if constexpr (IO::transposes)
      typename IO::Exchange(this->storage_).StripedToBlocked(to, to, line);
  }
};

template <class T, int x, int items, BlockStoreAlgorithm algorithm = BLOCK_STORE_DIRECT, int y = 1, int z = 1>
class BlockStore : details::BlockIO<T, x, items, algorithm, y, z> {
  using IO = details::BlockIO<T, x, items, algorithm, y, z>;

 public:
  using typename IO::TempStorage;

  __forceinline__ BlockStore() : IO(IO::private_storage()) {}
  __forceinline__ explicit BlockStore(TempStorage& storage) : IO(storage) {}

  template <class Iterator>
  __forceinline__ void Store(Iterator to, T (&from)[items], Line line = {}) {
    if constexpr (algorithm == BLOCK_STORE_VECTORIZE && std::is_same_v<Iterator, T*>)
      details::require_vectors<T, items>(to, line);
    store(to, from, details::all_items, line);
  }
  template <class Iterator>
  __forceinline__ void Store(Iterator to, T (&from)[items], int valid, Line line = {}) {
    store(to, from, valid, line);
  }

 private:
  template <class Iterator>
  __forceinline__ void store(Iterator to, T (&from)[items], int valid, Line line) {
    if constexpr (IO::by_warps)
      typename IO::Exchange(this->storage_).BlockedToWarpStriped(from, from, line);
    else if constexpr (IO::transposes)
      typename IO::Exchange(this->storage_).BlockedToStriped(from, from, line);
    details::store_items(to, from, valid, IO::place);
  }
};

}  // namespace cub
