// CUDA's cooperative groups of a block and of a warp's lanes. A collective of a group is one operation of its members'
// warp, with their mask.
#pragma once

#include <trifold/cpu/wide_groups.h>
#include <trifold/cuda.cuh>

#include <type_traits>

namespace cooperative_groups {

namespace details {

inline unsigned lanes_below() {
  return (1u << trifold::cpu::lane()) - 1;
}

// A value of the lane that the operation selects.
template <class T>
T exchanged(trifold::cpu::Wait operation, unsigned mask, const T& value, unsigned lane, int width, Line line) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32,
                "the threads of a group exchange values of up to 32 bytes");
  return trifold::cpu::shuffle(operation, mask, value, lane, width, line);
}

// The common part of a tile and a coalesced group: they are the lanes of a mask, and a member's rank is its position
// among them.
class Lanes {
 public:
  Lanes(unsigned mask, unsigned meta_rank, unsigned meta_size)
      : mask_(mask), meta_rank_(meta_rank), meta_size_(meta_size) {}

  unsigned mask() const { return mask_; }
  unsigned thread_rank() const { return static_cast<unsigned>(__popc(mask_ & lanes_below())); }
  unsigned size() const { return static_cast<unsigned>(__popc(mask_)); }
  unsigned num_threads() const { return size(); }
  unsigned meta_group_rank() const { return meta_rank_; }
  unsigned meta_group_size() const { return meta_size_; }

  void sync(Line line = {}) const { __syncwarp(mask_, line); }
  // From the member with this rank; from the member this many ranks below or above, or one's own value if there is
  // none.
  template <class T>
  T shfl(T value, unsigned rank, Line line = {}) const {
    return exchanged(trifold::cpu::Wait::shuffle, mask_, value, lane_of(rank % size()), 32, line);
  }
  template <class T>
  T shfl_up(T value, unsigned delta, Line line = {}) const {
    const unsigned rank = thread_rank();
    return shfl(value, delta <= rank ? rank - delta : rank, line);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, Line line = {}) const {
    const unsigned rank = thread_rank();
    return shfl(value, delta < size() - rank ? rank + delta : rank, line);
  }
  int any(int predicate, Line line = {}) const { return __any_sync(mask_, predicate, line); }
  int all(int predicate, Line line = {}) const { return __all_sync(mask_, predicate, line); }
  // Bits by rank.
  unsigned ballot(int predicate, Line line = {}) const { return by_rank(__ballot_sync(mask_, predicate, line)); }
  template <class T>
  unsigned match_any(T value, Line line = {}) const {
    return by_rank(__match_any_sync(mask_, value, line));
  }
  template <class T>
  unsigned match_all(T value, int& all, Line line = {}) const {
    return by_rank(__match_all_sync(mask_, value, &all, line));
  }

 protected:
  unsigned lane_of(unsigned rank) const { return __fns(mask_, 0, static_cast<int>(rank) + 1); }
  unsigned by_rank(unsigned lanes) const {
    unsigned ranks = 0;
    for (unsigned rank = 0; rank < size(); ++rank) ranks |= (lanes >> lane_of(rank) & 1) << rank;
    return ranks;
  }

 private:
  unsigned mask_, meta_rank_, meta_size_;
};

// The lanes of the running thread's tile of this size.
inline unsigned tile_mask(unsigned size) {
  const unsigned lanes = size == 32 ? 0xffffffffu : (1u << size) - 1;
  return lanes << trifold::cpu::lane() / size * size;
}

}  // namespace details

class thread_block {
 public:
  static void sync(Line line = {}) { __syncthreads(line); }
  static unsigned thread_rank() { return details::thread_rank_in_block(); }
  static unsigned size() { return details::threads_of_block(); }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
  static bool is_valid() { return true; }
};

inline thread_block this_thread_block() {
  return {};
}
// For tiles of several warps, which have memory of their own here (tiles.h).
template <unsigned most_threads = 1024>
struct block_tile_memory {};
template <unsigned most_threads>
thread_block this_thread_block(block_tile_memory<most_threads>&) {
  return {};
}

template <unsigned Size, class Parent = void>
class thread_block_tile : public details::Lanes {
  static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "a tile has a power of two of threads");

 public:
  thread_block_tile(unsigned rank, unsigned count)
      : Lanes(details::tile_mask(Size), rank / Size, (count + Size - 1) / Size) {}

  template <class Other>
  thread_block_tile(const thread_block_tile<Size, Other>& tile) : Lanes(tile) {}

  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  static unsigned thread_rank() { return trifold::cpu::lane() % Size; }

  template <class T>
  T shfl(T value, int rank, Line line = {}) const {
    return details::exchanged(trifold::cpu::Wait::shuffle, mask(), value, static_cast<unsigned>(rank), Size, line);
  }
  template <class T>
  T shfl_up(T value, unsigned delta, Line line = {}) const {
    return details::exchanged(trifold::cpu::Wait::shuffle_up, mask(), value, delta, Size, line);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, Line line = {}) const {
    return details::exchanged(trifold::cpu::Wait::shuffle_down, mask(), value, delta, Size, line);
  }
  template <class T>
  T shfl_xor(T value, unsigned bits, Line line = {}) const {
    return details::exchanged(trifold::cpu::Wait::shuffle_xor, mask(), value, bits, Size, line);
  }
};

class coalesced_group : public details::Lanes {
 public:
  explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
      : Lanes(mask, meta_rank, meta_size) {}
};

// The active lanes of the warp.
inline coalesced_group coalesced_threads(Line line = {}) {
  return coalesced_group(__activemask(line));
}

template <unsigned Size, class Group>
thread_block_tile<Size, Group> tiled_partition(const Group& group) {
  return {group.thread_rank(), group.size()};
}
// Tiles whose size is known only at run time; for a coalesced group, of its members in the order of their ranks.
inline coalesced_group tiled_partition(const thread_block&, unsigned size) {
  return coalesced_group(details::tile_mask(size), thread_block::thread_rank() / size,
                         (thread_block::size() + size - 1) / size);
}
inline coalesced_group tiled_partition(const coalesced_group& group, unsigned size) {
  const unsigned tile = group.thread_rank() / size;
  unsigned mask = 0;
  for (unsigned rank = tile * size; rank < min(group.size(), (tile + 1) * size); ++rank)
    mask |= 1u << __fns(group.mask(), 0, static_cast<int>(rank) + 1);
  return coalesced_group(mask, tile, (group.size() + size - 1) / size);
}
// A block, or lanes of a warp, decided at run time.
class thread_group {
 public:
  thread_group(const thread_block&) {}
  template <class Lanes>
    requires trifold::cpu::derived_from<Lanes, details::Lanes>
  thread_group(const Lanes& lanes) : mask_(lanes.mask()) {}

  void sync(Line line = {}) const {
    if (mask_ == 0)
      __syncthreads(line);
    else
      __syncwarp(mask_, line);
  }
  unsigned thread_rank() const { return mask_ == 0 ? thread_block::thread_rank() : lanes().thread_rank(); }
  unsigned size() const { return mask_ == 0 ? thread_block::size() : lanes().size(); }
  unsigned num_threads() const { return size(); }

 private:
  friend thread_group tiled_partition(const thread_group& group, unsigned size);
  coalesced_group lanes() const { return coalesced_group(mask_); }

  unsigned mask_ = 0;  // lanes; 0: the whole block
};

inline thread_group tiled_partition(const thread_group& group, unsigned size) {
  if (group.mask_ == 0) return tiled_partition(thread_block(), size);
  return tiled_partition(group.lanes(), size);
}
// The members with the same label, or the same predicate.
template <class Group>
coalesced_group labeled_partition(const Group& group, int label, Line line = {}) {
  return coalesced_group(__match_any_sync(group.mask(), label, line));
}
template <class Group>
coalesced_group binary_partition(const Group& group, bool predicate, Line line = {}) {
  return labeled_partition(group, predicate ? 1 : 0, line);
}

// Calls f(arguments…) in one member, which CUDA leaves open: here the first. The second form broadcasts its result to
// all members.
template <class Group, class F, class... Arguments>
void invoke_one(const Group& group, F&& f, Arguments&&... arguments) {
  if (group.thread_rank() == 0) f(static_cast<Arguments&&>(arguments)...);
}
template <class Group, class F, class... Arguments>
auto invoke_one_broadcast(const Group& group, F&& f, Arguments&&... arguments) {
  trifold::cpu::remove_cvref_t<decltype(f(static_cast<Arguments&&>(arguments)...))> result{};
  if (group.thread_rank() == 0) result = f(static_cast<Arguments&&>(arguments)...);
  return group.shfl(result, 0);
}

template <class Group>
void sync(const Group& group, Line line = {}) {
  group.sync(line);
}
template <class Group>
auto thread_rank(const Group& group) {
  return group.thread_rank();
}
template <class Group>
auto group_size(const Group& group) {
  return group.size();
}

}  // namespace cooperative_groups
