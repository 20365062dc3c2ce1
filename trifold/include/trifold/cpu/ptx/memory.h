// Loads, stores, atomics and fences. Each access is a plain or volatile C++ access or an atomic of the dialect, so that
// a checked build sees it with its line and scope.
//
// An address of shared memory is a 32-bit one, in a register of 32 or 64 bits, or a 64-bit pointer.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/addresses.h>
#include <trifold/cpu/asynchronous.h>
#include <trifold/cpu/atomics.h>
#include <trifold/cpu/ptx/registers.h>

#include <atomic>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace trifold::ptx {

// `[register + offset]`, and the instruction's line.
template <class R>
struct Address {
  R base;
  int64_t offset;
  cpu::Line line;
};
template <class R>
__forceinline__ Address<R> at(R base, int64_t offset, cpu::Line line = {}) {
  return {base, offset, line};
}

// Whether an instruction accesses shared memory only.
template <class... M>
inline constexpr bool of_shared =
    has<modifier::shared_, M...> || has<modifier::shared_cta_, M...> || has<modifier::shared_cluster_, M...>;

// Whether it is a 32-bit address of shared memory; few pointers are so small.
inline bool is_in_window(uint64_t address, cpu::Line line) {
  return address >> 32 == 0 && cpu::is_in_window(static_cast<uint32_t>(address), line);
}

// Resolves an address, for all instructions.
template <class W, class... M, class R>
__forceinline__ W* pointer(Address<R> address) {
  static_assert(cpu::same_as<R, uint64_t> || cpu::same_as<R, uint32_t>, "an address has 32 or 64 bits");
  const uint64_t at = static_cast<uint64_t>(address.base) + static_cast<uint64_t>(address.offset);
  if constexpr (of_shared<M...>) {
    constexpr bool own_only = !has<modifier::shared_cluster_, M...>;
    if (sizeof(R) == 4 || is_in_window(at, address.line))
      return static_cast<W*>(cpu::shared_memory(static_cast<uint32_t>(at), own_only, address.line));
  } else {
    static_assert(
        sizeof(R) == 8,
        "an address of 32 bits is one of shared memory, for instructions with .shared: pass the pointer, with "
        "the constraint l");
  }
  return reinterpret_cast<W*>(at);
}

template <class T, class... M, class D, class A>
__forceinline__ void cvta_(D& d, A a, cpu::Line line = {}) {
  uint64_t address = get<T>(a);
  if constexpr (of_shared<M...>) {
    constexpr bool to = has<modifier::to_, M...>;
    if (to && !is_in_window(address, line))
      address = cpu::shared_address(reinterpret_cast<const void*>(address), line);
    else if (!to && is_in_window(address, line))
      address = reinterpret_cast<uint64_t>(cpu::shared_memory(static_cast<uint32_t>(address), false, line));
  }
  put(d, address);
}
template <class Space, class D, class A>
__forceinline__ void isspacep_(D& d, A a, cpu::Line line = {}) {
  const auto* const address = reinterpret_cast<const void*>(get<uint64_t>(a));
  if constexpr (cpu::same_as<Space, modifier::global_>)
    put(d, __isGlobal(address, line) != 0);
  else if constexpr (cpu::same_as<Space, modifier::local_>)
    put(d, cpu::is_local(address));
  else
    put(d, cpu::is_shared(address, has<modifier::shared_cluster_, Space>, line));
}

// For shared memory of the cluster's blocks.
template <class T, class... M, class D, class A, class B>
__forceinline__ void mapa_(D& d, A a, B rank, cpu::Line line = {}) {
  static_assert(sizeof(T) == 8 || of_shared<M...>, "mapa of 32 bits is mapa.shared::cluster.u32");
  const T address = get<T>(a);
  if (sizeof(T) == 4 || (of_shared<M...> && is_in_window(address, line)))
    put(d, T{cpu::map_shared_address(static_cast<uint32_t>(address), get<uint32_t>(rank), line)});
  else
    put(d, static_cast<T>(reinterpret_cast<uint64_t>(
               cpu::map_shared(reinterpret_cast<const void*>(uint64_t{address}), get<uint32_t>(rank), line))));
}
template <class T, class... M, class D, class A>
__forceinline__ void getctarank_(D& d, A a, cpu::Line line = {}) {
  static_assert(sizeof(T) == 8 || of_shared<M...>, "getctarank of 32 bits is getctarank.shared::cluster.u32");
  const T address = get<T>(a);
  const bool in_window = sizeof(T) == 4 || (of_shared<M...> && is_in_window(address, line));
  put(d, uint32_t{in_window ? cpu::rank_of_shared_address(static_cast<uint32_t>(address), line)
                            : cpu::rank_of_shared(reinterpret_cast<const void*>(uint64_t{address}), line)});
}

// The data of an access: words of any type, aligned to their total size.
template <class W, size_t count>
struct [[gnu::may_alias]] alignas(count * sizeof(W)) Words {
  W word[count];
};

template <class... M>
inline constexpr cpu::Scope scope_of = has<modifier::sys_, M...>       ? cpu::Scope::system
                                       : has<modifier::cta_, M...>     ? cpu::Scope::block
                                       : has<modifier::cluster_, M...> ? cpu::Scope::cluster
                                                                       : cpu::Scope::device;

template <class... M>
inline constexpr size_t count_of = has<modifier::v4_, M...>   ? 4
                                   : has<modifier::v2_, M...> ? 2
                                                              : 1;
template <class... M>
inline constexpr bool acquires = has<modifier::acquire_, M...> || has<modifier::acq_rel_, M...>;
template <class... M>
inline constexpr bool releases = has<modifier::release_, M...> || has<modifier::acq_rel_, M...>;

// An operation that releases is a fence followed by a relaxed one; one that acquires is followed by a fence.
template <class... M>
__forceinline__ void fence_before() {
  if constexpr (!releases<M...>) return;
  if constexpr (cpu::checked)
    cpu::fence(scope_of<M...>);
  else
    std::atomic_thread_fence(std::memory_order_release);
}
template <class... M>
__forceinline__ void fence_after() {
  if constexpr (acquires<M...> && !cpu::checked) std::atomic_thread_fence(std::memory_order_acquire);
}

template <class W, class... M>
__forceinline__ W load_word(const W* from) {
  W word = 0;
  if constexpr (has<modifier::volatile_, M...>) {
    word = reinterpret_cast<const volatile Words<W, 1>*>(from)->word[0];
  } else if constexpr (cpu::checked) {
    return static_cast<W>(cpu::checked_load(from, sizeof(W), scope_of<M...>));
  } else {
    word = __atomic_load_n(from, __ATOMIC_RELAXED);
  }
  if constexpr (!cpu::checked) cpu::looked();  // its thread may be waiting for another one to write
  return word;
}
template <class W, class... M>
__forceinline__ void store_word(W* to, W word) {
  if constexpr (has<modifier::volatile_, M...>)
    reinterpret_cast<volatile Words<W, 1>*>(to)->word[0] = word;
  else if constexpr (cpu::checked)
    cpu::checked_store(to, sizeof(W), scope_of<M...>, word);
  else
    __atomic_store_n(to, word, __ATOMIC_RELAXED);
}

// Whether each word is a separate access that cannot be torn.
template <class... M>
inline constexpr bool strong = has<modifier::volatile_, M...> || has<modifier::relaxed_, M...> ||
                               has<modifier::acquire_, M...> || has<modifier::release_, M...>;

template <class T, class... M, class... D, class R>
__forceinline__ void ld_(std::tuple<D...> to, Address<R> address) {
  constexpr size_t count = count_of<M...>;
  using W = cpu::Word<sizeof(T)>;
  Words<W, count> moved;
  if constexpr (strong<M...>) {
    for (size_t i = 0; i < count; ++i) moved.word[i] = load_word<W, M...>(pointer<const W, M...>(address) + i);
    fence_after<M...>();
  } else {
    moved = *pointer<const Words<W, count>, M...>(address);
  }
  size_t i = 0;
  std::apply([&](auto&... each) { (put_wide(each, cpu::bit_cast<T>(moved.word[i++])), ...); }, to);
}
template <class T, class... M, class... D, class R>
__forceinline__ void ldu_(std::tuple<D...> to, Address<R> address) {
  ld_<T, M...>(to, address);
}

template <class W, class T, class A>
__forceinline__ W word_of(A a) {
  return cpu::bit_cast<W>(get_low<T>(a));
}
template <class T, class... M, class... A, class R>
__forceinline__ void st_(Address<R> address, std::tuple<A...> from) {
  constexpr size_t count = sizeof...(A);
  using W = cpu::Word<sizeof(T)>;
  const auto moved = std::apply([](auto... each) { return Words<W, count>{{word_of<W, T>(each)...}}; }, from);
  if constexpr (strong<M...>) {
    fence_before<M...>();
    for (size_t i = 0; i < count; ++i) store_word<W, M...>(pointer<W, M...>(address) + i, moved.word[i]);
  } else {
    *pointer<Words<W, count>, M...>(address) = moved;
  }
}
template <class T, class... M, class A, class R>
__forceinline__ void st_(Address<R> address, A from) {
  st_<T, M...>(address, std::tuple<A>(from));
}

// An atomic's new value.
template <class T, class... M>
__forceinline__ T updated(T old, T value) {
  if constexpr (has<modifier::exch_, M...>)
    return value;
  else if constexpr (has<modifier::add_, M...>)
    return static_cast<T>(old + value);
  else if constexpr (has<modifier::and_, M...>)
    return old & value;
  else if constexpr (has<modifier::or_, M...>)
    return old | value;
  else if constexpr (has<modifier::xor_, M...>)
    return old ^ value;
  else if constexpr (has<modifier::min_, M...>)
    return value < old ? value : old;
  else if constexpr (has<modifier::max_, M...>)
    return value > old ? value : old;
  else if constexpr (has<modifier::inc_, M...>)
    return old >= value ? 0 : old + 1;
  else
    return old == 0 || old > value ? value : old - 1;  // dec
}
// Sums of signed integers wrap.
template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, cpu::Identity<T>>::type;
template <class T, class... M>
using Updated = std::conditional_t<has<modifier::add_, M...>, Wrapping<T>, T>;

template <class T, class... M, class D, class R, class A>
__forceinline__ void atom_(D& d, Address<R> address, A a) {
  using U = Updated<T, M...>;
  const U value = get<U>(a);
  fence_before<M...>();
  const U old =
      cpu::update<scope_of<M...>>(pointer<U, M...>(address), [value](U x) { return updated<U, M...>(x, value); });
  fence_after<M...>();
  put(d, old);
}
template <class T, class... M, class D, class R, class A, class B>
__forceinline__ void atom_(D& d, Address<R> address, A expected, B value) {
  fence_before<M...>();
  const T old = cpu::compare_and_swap<scope_of<M...>, T>(pointer<T, M...>(address), get<T>(expected), get<T>(value));
  fence_after<M...>();
  put(d, old);
}
// With .v2 and .v4, each element is a separate atomic.
template <class T, class... M, class... D, class R, class... A, size_t... i>
__forceinline__ void atom_elements(std::tuple<D...> to, Address<R> address, std::tuple<A...> from,
                                   std::index_sequence<i...>) {
  (atom_<T, M...>(std::get<i>(to), at(address.base, address.offset + static_cast<int64_t>(i * sizeof(T)), address.line),
                  std::get<i>(from)),
   ...);
}
template <class T, class... M, class... D, class R, class... A>
__forceinline__ void atom_(std::tuple<D...> to, Address<R> address, std::tuple<A...> from) {
  atom_elements<T, M...>(to, address, from, std::index_sequence_for<D...>());
}
template <class T, class... M, class R, class A>
__forceinline__ void red_(Address<R> address, A a) {
  atom_<T, M...>(sink, address, a);
}
template <class T, class... M, class R, class... A>
__forceinline__ void red_(Address<R> address, std::tuple<A...> from) {
  int64_t offset = address.offset - static_cast<int64_t>(sizeof(T));
  std::apply([&](auto... each) { (red_<T, M...>(at(address.base, offset += sizeof(T), address.line), each), ...); },
             from);
}

// Between the generic and the async proxy, for the memory that the modifiers select; there are no aliased addresses.
template <class... M>
__forceinline__ void fence_proxy() {
  constexpr unsigned spaces = has<modifier::global_, M...> ? cpu::global_proxy
                              : of_shared<M...>            ? cpu::shared_proxy
                                                           : cpu::global_proxy | cpu::shared_proxy;
  if constexpr (has<modifier::async_, M...>) cpu::fence_proxy(spaces);
}
template <class... M>
__forceinline__ void fence_(cpu::Line line = {}) {
  if constexpr (has<modifier::proxy_, M...>)
    fence_proxy<M...>();
  else if constexpr (has<modifier::mbarrier_init_, M...>)
    cpu::fence_mbarrier_inits(line);
  else
    cpu::fence(scope_of<M...>);
}
template <class Of>
__forceinline__ void membar_() {
  cpu::fence(scope_of<Of>);  // .gl is the device
}

// Hints for caches.
template <class... M, class R>
__forceinline__ void prefetch_(Address<R>) {}
template <class... M, class R>
__forceinline__ void prefetchu_(Address<R>) {}
template <class... M, class R, class Size>
__forceinline__ void applypriority_(Address<R>, Size) {}
// The bytes are undefined until they are written.
template <class... M, class R, class Size>
__forceinline__ void discard_(Address<R> address, Size size) {
  if constexpr (cpu::checked) cpu::checked_discard(pointer<char, M...>(address), get<uint32_t>(size));
}
template <class T, class... M, class D>
__forceinline__ void createpolicy_(D& d) {
  put(d, T{0});
}

}  // namespace trifold::ptx
