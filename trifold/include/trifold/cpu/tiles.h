// Cooperative groups' tiles of several warps: of 64 to 1024 threads of a block.
#pragma once

#include <trifold/cpu/groups.h>

#include <cstring>

namespace cooperative_groups {
namespace details {

// What the warps of a block give each other: as many bytes as CUDA allows for a value.
struct alignas(32) WarpValue {
  unsigned char bytes[32];
};

inline WarpValue* values_of_warps() {
  __shared__ WarpValue values[32];
  return values;
}

}  // namespace details

template <unsigned Size, class Parent>
  requires(Size > 32)
class thread_block_tile<Size, Parent> {
  static_assert(Size <= 1024 && (Size & (Size - 1)) == 0, "a tile has a power of two of threads, 1024 at most");
  static constexpr unsigned warps = Size / 32;

 public:
  thread_block_tile(unsigned rank, unsigned count) : rank_(rank / Size), count_((count + Size - 1) / Size) {}
  template <class Other>
  thread_block_tile(const thread_block_tile<Size, Other>& tile)
      : rank_(tile.meta_group_rank()), count_(tile.meta_group_size()) {}

  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  static unsigned thread_rank() { return details::thread_rank_in_block() % Size; }
  unsigned meta_group_rank() const { return rank_; }
  unsigned meta_group_size() const { return count_; }

  void sync(Line line = {}) const { wait(false, line); }
  int any(int predicate, Line line = {}) const { return wait(predicate != 0, line) != 0; }
  int all(int predicate, Line line = {}) const { return wait(predicate != 0, line) == Size; }
  template <class T>
  T shfl(const T& value, unsigned source, Line line = {}) const {
    if (thread_rank() == source % Size) give(first_warp(), value);
    wait(false, line);
    const T result = taken<T>(first_warp());
    wait(false, line);
    return result;
  }

  // Each warp combines its own values, and each thread those of the warps, in their order.
  template <class T, class F>
  T reduced(T value, F operation, Line line) const {
    value = trifold::cpu::reduce(0xffffffffu, value, operation, line);
    if (trifold::cpu::lane() == 0) give(own_warp(), value);
    wait(false, line);
    T result = taken<T>(first_warp());
    for (unsigned warp = 1; warp < warps; ++warp) result = operation(result, taken<T>(first_warp() + warp));
    wait(false, line);
    return result;
  }
  // `inclusive`: the scan of the thread's own warp. Returns what the warps before it add up to, if there are any.
  template <class T, class F>
  T of_warps_before(const T& inclusive, F operation, Line line) const {
    if (trifold::cpu::lane() == 31) give(own_warp(), inclusive);
    wait(false, line);
    T before = taken<T>(first_warp());
    for (unsigned warp = first_warp() + 1; warp < own_warp(); ++warp) before = operation(before, taken<T>(warp));
    wait(false, line);
    return before;
  }
  static bool is_first_warp() { return own_warp() == first_warp(); }

 private:
  static unsigned own_warp() { return details::thread_rank_in_block() / 32; }
  static unsigned first_warp() { return details::thread_rank_in_block() / Size * warps; }

  // At the barrier of this tile alone. Returns how many predicates are true.
  static unsigned wait(bool predicate, Line line) {
    constexpr unsigned of_smaller_tiles = 32 - 2048 / Size;  // 16 tiles of 64 threads, 8 of 128, …
    const unsigned number = 16 + of_smaller_tiles + details::thread_rank_in_block() / Size;
    return trifold::cpu::wait_at_named_barrier(trifold::cpu::Wait::named_barrier, number, Size, predicate, line);
  }

  template <class T>
  static void give(unsigned warp, const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(details::WarpValue),
                  "the threads of a tile exchange values of up to 32 bytes");
    std::memcpy(details::values_of_warps() + warp, &value, sizeof value);
  }
  template <class T>
  static T taken(unsigned warp) {
    T value;
    std::memcpy(&value, details::values_of_warps() + warp, sizeof value);
    return value;
  }

  unsigned rank_, count_;
};

}  // namespace cooperative_groups
