// Asynchronous copies, stores and reductions: cp.async with its groups, cp.async.bulk, cp.reduce.async.bulk, st.async
// and red.async.
#pragma once

#include <trifold/cpu/asynchronous.h>
#include <trifold/cpu/ptx/memory.h>
#include <trifold/cpu/ptx/registers.h>

#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

namespace trifold::ptx {

using cpu::GroupKind;
using cpu::Instruction;

template <class... M>
inline constexpr bool is_bulk = has<modifier::bulk_, M...>;
template <class... M>
using TargetSpace = std::conditional_t<has<modifier::shared_cta_, M...> && !has<modifier::shared_cluster_, M...>,
                                       modifier::shared_cta_, modifier::shared_cluster_>;

// ------------------------------------------------------------------------------------------------- cp.async

// The last operand is the number of bytes to read, which zeros follow, or a predicate: nothing is read.
template <class... M, class To, class From, class Size, class Read>
  requires(!is_bulk<M...>)
__forceinline__ void cp_(Address<To> to, Address<From> from, Size size, Read read) {
  const auto bytes = get<uint32_t>(size);
  if (bytes != 16 && (has<modifier::cg_, M...> || (bytes != 4 && bytes != 8)))
    cpu::stop_launch("cp.async of a size that it has not: .ca copies 4, 8 or 16 bytes, and .cg 16,", to.line);
  uint32_t read_bytes = 0;
  if constexpr (cpu::same_as<Read, bool>)
    read_bytes = read ? 0 : bytes;
  else
    read_bytes = get<uint32_t>(read);
  cpu::start_copy(pointer<char, modifier::shared_cta_>(to), pointer<const char>(from), bytes, read_bytes, to.line);
}
template <class... M, class To, class From, class Size>
  requires(!is_bulk<M...>)
__forceinline__ void cp_(Address<To> to, Address<From> from, Size size) {
  cp_<M...>(to, from, size, size);
}

template <class... M>
inline constexpr GroupKind group_kind = is_bulk<M...> ? GroupKind::bulk : GroupKind::copies;

template <class... M>
__forceinline__ void cp_(cpu::Line line = {}) {
  cpu::commit_group(group_kind<M...>, line);
  if constexpr (has<modifier::wait_all_, M...>) cpu::wait_for_groups(group_kind<M...>, 0, false, line);
}
template <class... M, class Count>
  requires has<modifier::wait_group_, M...>
__forceinline__ void cp_(Count count, cpu::Line line = {}) {
  cpu::wait_for_groups(group_kind<M...>, get<uint32_t>(count), has<modifier::read_, M...>, line);
}

template <class T, class... M, class R>
  requires has<modifier::mbarrier_, M...>
__forceinline__ void cp_(Address<R> barrier) {
  using Space = std::conditional_t<of_shared<M...>, modifier::shared_cta_, modifier::global_>;
  cpu::arrive_after_copies(pointer<char, Space>(barrier), !has<modifier::noinc_, M...>, barrier.line);
}

// ------------------------------------------------------------------------------------------------- bulk copies

// A reduction of elements: each is a separate atomic.
template <class T, class... M>
void combine(char* to, const char* from, size_t bytes) {
  using U = Updated<T, M...>;
  for (size_t at = 0; at < bytes; at += sizeof(U)) {
    U value;
    std::memcpy(&value, from + at, sizeof value);
    cpu::update<cpu::Scope::device>(reinterpret_cast<U*>(to + at),
                                    [value](U old) { return updated<U, M...>(old, value); });
  }
}
using Combine = void (*)(char* to, const char* from, size_t bytes);

// To shared memory, counted by a barrier.
template <class... M, class To, class From, class Size, class Barrier>
__forceinline__ void copy_counted(Instruction instruction, Combine made, Address<To> to, Address<From> from, Size size,
                                  Address<Barrier> barrier, uint32_t ranks) {
  constexpr bool from_global = has<modifier::global_, M...>;
  using Source = std::conditional_t<from_global, modifier::global_, modifier::shared_cta_>;
  cpu::start({.instruction = instruction,
              .to = pointer<char, TargetSpace<M...>>(to),
              .from = pointer<const char, Source>(from),
              .bytes = get<uint32_t>(size),
              .alignment = 16,
              .unit = 16,
              .combine = made,
              .barrier = pointer<char, TargetSpace<M...>>(barrier),
              .ranks = ranks,
              .from_shared = !from_global},
             to.line);
}
template <class... M, class To, class From, class Size, class Barrier>
  requires(is_bulk<M...> && !has<modifier::reduce_, M...>)
__forceinline__ void cp_(Address<To> to, Address<From> from, Size size, Address<Barrier> barrier) {
  copy_counted<M...>(Instruction::cp_async_bulk, nullptr, to, from, size, barrier, 0);
}
// To each block of the cluster whose bit in the mask is set.
template <class... M, class To, class From, class Size, class Barrier, class Mask>
  requires(has<modifier::multicast_cluster_, M...>)
__forceinline__ void cp_(Address<To> to, Address<From> from, Size size, Address<Barrier> barrier, Mask mask) {
  copy_counted<M...>(Instruction::cp_async_bulk, nullptr, to, from, size, barrier, get<uint16_t>(mask));
}

// From shared memory to global memory, in a group.
template <class To, class From, class Size>
__forceinline__ void copy_grouped(Instruction instruction, Combine made, Address<To> to, Address<From> from,
                                  Size size) {
  cpu::start({.instruction = instruction,
              .to = pointer<char>(to),
              .from = pointer<const char, modifier::shared_cta_>(from),
              .bytes = get<uint32_t>(size),
              .alignment = 16,
              .unit = 16,
              .combine = made,
              .to_shared = false,
              .from_shared = true},
             to.line);
}
template <class... M, class To, class From, class Size>
  requires(has<modifier::bulk_group_, M...> && !has<modifier::reduce_, M...>)
__forceinline__ void cp_(Address<To> to, Address<From> from, Size size) {
  copy_grouped(Instruction::cp_async_bulk, nullptr, to, from, size);
}

template <class T, class Reduce, class... M, class To, class From, class Size>
  requires cpu::same_as<Reduce, modifier::reduce_>
__forceinline__ void cp_(Address<To> to, Address<From> from, Size size) {
  copy_grouped(Instruction::cp_reduce_async_bulk, combine<T, M...>, to, from, size);
}
template <class T, class Reduce, class... M, class To, class From, class Size, class Barrier>
  requires cpu::same_as<Reduce, modifier::reduce_>
__forceinline__ void cp_(Address<To> to, Address<From> from, Size size, Address<Barrier> barrier) {
  copy_counted<M...>(Instruction::cp_reduce_async_bulk, combine<T, M...>, to, from, size, barrier, 0);
}

template <class... M, class From, class Size>
  requires has<modifier::prefetch_, M...>
__forceinline__ void cp_(Address<From> from, Size size) {
  cpu::prefetch_bulk(pointer<const char>(from), get<uint32_t>(size), from.line);
}

// ------------------------------------------------------------------------------------------------- stores

template <class To, class Barrier, class W, size_t count>
__forceinline__ void store_counted(Instruction instruction, Combine made, Address<To> to, const Words<W, count>& words,
                                   Address<Barrier> barrier) {
  cpu::Asynchronous store{.instruction = instruction,
                          .to = pointer<char, modifier::shared_cluster_>(to),
                          .from = nullptr,
                          .bytes = sizeof words,
                          .alignment = sizeof words,
                          .combine = made,
                          .barrier = pointer<char, modifier::shared_cluster_>(barrier)};
  std::memcpy(store.value, &words, sizeof words);
  cpu::start(store, to.line);
}

template <class T, class... M, class... A, class R, class Barrier>
__forceinline__ void st_(Address<R> to, std::tuple<A...> from, Address<Barrier> barrier) {
  using W = cpu::Word<sizeof(T)>;
  const auto words = std::apply([](auto... each) { return Words<W, sizeof...(A)>{{word_of<W, T>(each)...}}; }, from);
  store_counted(Instruction::st_async, nullptr, to, words, barrier);
}
template <class T, class... M, class A, class R, class Barrier>
__forceinline__ void st_(Address<R> to, A from, Address<Barrier> barrier) {
  st_<T, M...>(to, std::tuple<A>(from), barrier);
}
template <class T, class... M, class A, class R, class Barrier>
__forceinline__ void red_(Address<R> to, A from, Address<Barrier> barrier) {
  using W = cpu::Word<sizeof(T)>;
  store_counted(Instruction::red_async, combine<T, M...>, to, Words<W, 1>{{word_of<W, T>(from)}}, barrier);
}

}  // namespace trifold::ptx
