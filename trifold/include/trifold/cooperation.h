// What the threads of a block and the lanes of a warp do together, for kernels that g++ compiles: barriers, shuffles,
// votes, matches, fences, atomics. Under nvcc CUDA has all of these.
#pragma once

#include <trifold/host.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace trifold::host {

// A value that a shuffle or a match exchanges, as bits.
template <class T>
uint64_t to_bits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a warp exchanges values of up to 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
T shuffle(Wait operation, unsigned mask, T value, unsigned lane, int width, Line line) {
  // PTX's operand c of shfl.sync: which lanes form a segment, and where it ends.
  const unsigned clamp = (32u - static_cast<unsigned>(width)) << 8 | (operation == Wait::shuffle_up ? 0u : 0x1fu);
  return from_bits<T>(meet_warp(operation, mask, false, to_bits(value), lane, clamp, line).value);
}

template <size_t bytes>
using Word =
    std::conditional_t<bytes == 1, uint8_t,
                       std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, uint64_t>>>;

// Replaces *p by f(*p), as one atomic; returns what was there. Inlined, as what calls it is: the address of the access
// is then one of the kernel's, and a finding's line the kernel's line.
template <class T, class F>
[[gnu::always_inline]] inline T update(T* p, F f) {
  using Bits = Word<sizeof(T)>;
  auto* const word = reinterpret_cast<Bits*>(p);
  Bits old = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    const Bits made = static_cast<Bits>(to_bits<T>(f(from_bits<T>(old))));
    if (__atomic_compare_exchange_n(word, &old, made, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      if (made == old) looked();
      return from_bits<T>(old);
    }
  }
}

}  // namespace trifold::host

// ---------------------------------------------------------------------------------------------------- the block

inline void __syncthreads(trifold::host::Line line = {}) {
  trifold::host::wait_at_barrier(line);
}
inline int __syncthreads_count(int predicate, trifold::host::Line line = {}) {
  return static_cast<int>(trifold::host::wait_at_barrier(trifold::host::Wait::barrier_count, predicate != 0, line));
}
inline int __syncthreads_and(int predicate, trifold::host::Line line = {}) {
  return static_cast<int>(trifold::host::wait_at_barrier(trifold::host::Wait::barrier_and, predicate != 0, line));
}
inline int __syncthreads_or(int predicate, trifold::host::Line line = {}) {
  return static_cast<int>(trifold::host::wait_at_barrier(trifold::host::Wait::barrier_or, predicate != 0, line));
}

inline void __threadfence() {
  trifold::host::fence(trifold::host::Fence::device);
}
inline void __threadfence_block() {
  trifold::host::fence(trifold::host::Fence::block);
}
inline void __threadfence_system() {
  trifold::host::fence(trifold::host::Fence::system);
}

// Time does not pass here; other threads run.
inline void __nanosleep(unsigned, trifold::host::Line line = {}) {
  trifold::host::pause(line);
}

// ---------------------------------------------------------------------------------------------------- the warp

inline void __syncwarp(unsigned mask = 0xffffffffu, trifold::host::Line line = {}) {
  trifold::host::meet_warp(trifold::host::Wait::sync_warp, mask, false, 0, 0, 0, line);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, trifold::host::Line line = {}) {
  return trifold::host::shuffle(trifold::host::Wait::shuffle, mask, value, static_cast<unsigned>(lane), width, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, trifold::host::Line line = {}) {
  return trifold::host::shuffle(trifold::host::Wait::shuffle_up, mask, value, delta, width, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, trifold::host::Line line = {}) {
  return trifold::host::shuffle(trifold::host::Wait::shuffle_down, mask, value, delta, width, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, trifold::host::Line line = {}) {
  return trifold::host::shuffle(trifold::host::Wait::shuffle_xor, mask, value, static_cast<unsigned>(bits), width,
                                line);
}

inline int __all_sync(unsigned mask, int predicate, trifold::host::Line line = {}) {
  return trifold::host::meet_warp(trifold::host::Wait::vote_all, mask, predicate != 0, 0, 0, 0, line).predicate;
}
inline int __any_sync(unsigned mask, int predicate, trifold::host::Line line = {}) {
  return trifold::host::meet_warp(trifold::host::Wait::vote_any, mask, predicate != 0, 0, 0, 0, line).predicate;
}
inline int __uni_sync(unsigned mask, int predicate, trifold::host::Line line = {}) {
  return trifold::host::meet_warp(trifold::host::Wait::vote_equal, mask, predicate != 0, 0, 0, 0, line).predicate;
}
inline unsigned __ballot_sync(unsigned mask, int predicate, trifold::host::Line line = {}) {
  const auto answer = trifold::host::meet_warp(trifold::host::Wait::ballot, mask, predicate != 0, 0, 0, 0, line);
  return static_cast<unsigned>(answer.value);
}
inline unsigned __activemask(trifold::host::Line line = {}) {
  return static_cast<unsigned>(
      trifold::host::meet_warp(trifold::host::Wait::active_mask, 0, false, 0, 0, 0, line).value);
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, trifold::host::Line line = {}) {
  const uint64_t bits = trifold::host::to_bits(value);
  return static_cast<unsigned>(
      trifold::host::meet_warp(trifold::host::Wait::match_any, mask, false, bits, 0, 0, line).value);
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* all, trifold::host::Line line = {}) {
  const uint64_t bits = trifold::host::to_bits(value);
  const auto answer = trifold::host::meet_warp(trifold::host::Wait::match_all, mask, false, bits, 0, 0, line);
  *all = answer.predicate ? 1 : 0;
  return static_cast<unsigned>(answer.value);
}

// ---------------------------------------------------------------------------------------------------- atomics

template <class T>
[[gnu::always_inline]] inline T atomicAdd(T* p, std::type_identity_t<T> value) {
  return trifold::host::update(p, [&](T old) { return T(old + value); });
}
template <class T>
[[gnu::always_inline]] inline T atomicSub(T* p, std::type_identity_t<T> value) {
  return trifold::host::update(p, [&](T old) { return T(old - value); });
}
template <class T>
[[gnu::always_inline]] inline T atomicMin(T* p, std::type_identity_t<T> value) {
  return trifold::host::update(p, [&](T old) { return std::min(old, value); });
}
template <class T>
[[gnu::always_inline]] inline T atomicMax(T* p, std::type_identity_t<T> value) {
  return trifold::host::update(p, [&](T old) { return std::max(old, value); });
}
template <class T>
[[gnu::always_inline]] inline T atomicAnd(T* p, std::type_identity_t<T> value) {
  return trifold::host::update(p, [&](T old) { return T(old & value); });
}
template <class T>
[[gnu::always_inline]] inline T atomicOr(T* p, std::type_identity_t<T> value) {
  return trifold::host::update(p, [&](T old) { return T(old | value); });
}
template <class T>
[[gnu::always_inline]] inline T atomicXor(T* p, std::type_identity_t<T> value) {
  return trifold::host::update(p, [&](T old) { return T(old ^ value); });
}
template <class T>
[[gnu::always_inline]] inline T atomicExch(T* p, std::type_identity_t<T> value) {
  return trifold::host::update(p, [&](T) { return value; });
}
// Counts up to `limit`, then from 0 again; and down, from `limit` again.
[[gnu::always_inline]] inline unsigned atomicInc(unsigned* p, unsigned limit) {
  return trifold::host::update(p, [&](unsigned old) { return old >= limit ? 0u : old + 1; });
}
[[gnu::always_inline]] inline unsigned atomicDec(unsigned* p, unsigned limit) {
  return trifold::host::update(p, [&](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
template <class T>
[[gnu::always_inline]] inline T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  using Bits = trifold::host::Word<sizeof(T)>;
  auto old = static_cast<Bits>(trifold::host::to_bits(expected));
  const auto made = static_cast<Bits>(trifold::host::to_bits(value));
  if (!__atomic_compare_exchange_n(reinterpret_cast<Bits*>(p), &old, made, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    trifold::host::looked();
  return trifold::host::from_bits<T>(old);
}
