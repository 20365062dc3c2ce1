// mbarrier: barriers in shared memory that count arrivals and bytes.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/ptx/memory.h>
#include <trifold/cpu/ptx/registers.h>

#include <cstdint>

namespace trifold::ptx {

// The memory of a barrier, also in another block: the operations report if that is not allowed.
template <class... M, class R>
__forceinline__ void* barrier_at(Address<R> address) {
  if constexpr (of_shared<M...>)
    return pointer<uint64_t, modifier::shared_cluster_>(address);
  else
    return pointer<uint64_t>(address);
}

template <class... M>
inline constexpr bool own_only = !has<modifier::shared_cluster_, M...>;

template <class... M>
inline constexpr bool is_arrival = has<modifier::arrive_, M...> || has<modifier::arrive_drop_, M...>;
template <class... M>
inline constexpr bool is_wait = has<modifier::test_wait_, M...> || has<modifier::try_wait_, M...>;

// init, and changes of the number of bytes that a phase expects.
template <class T, class... M, class R, class A>
  requires(!is_arrival<M...>)
__forceinline__ void mbarrier_(Address<R> address, A a) {
  void* const barrier = barrier_at<M...>(address);
  if constexpr (has<modifier::init_, M...>)
    cpu::init_mbarrier(barrier, get<uint32_t>(a), address.line);
  else if constexpr (has<modifier::expect_tx_, M...>)
    cpu::expect_at_mbarrier(barrier, get<uint32_t>(a), own_only<M...>, address.line);
  else
    cpu::complete_at_mbarrier(barrier, get<uint32_t>(a), own_only<M...>, address.line);
}
template <class T, class... M, class R>
__forceinline__ void mbarrier_(Address<R> address) {
  cpu::invalidate_mbarrier(barrier_at<M...>(address), address.line);
}

template <class T, class... M, class D, class R, class A>
  requires is_arrival<M...>
__forceinline__ void mbarrier_(D& d, Address<R> address, A a) {
  constexpr bool expects = has<modifier::expect_tx_, M...>;
  const auto number = get<uint32_t>(a);
  const cpu::MBarrierArrival arrival{.count = expects ? 1 : number,
                                     .bytes = expects ? number : 0,
                                     .expects = expects,
                                     .drops = has<modifier::arrive_drop_, M...>,
                                     .must_not_complete = has<modifier::noComplete_, M...>,
                                     .relaxed = has<modifier::relaxed_, M...>,
                                     .of_cluster = has<modifier::cluster_, M...>,
                                     .own_only = own_only<M...>};
  put(d, cpu::arrive_at_mbarrier(barrier_at<M...>(address), arrival, address.line));
}
template <class T, class... M, class D, class R>
  requires is_arrival<M...>
__forceinline__ void mbarrier_(D& d, Address<R> address) {
  mbarrier_<T, M...>(d, address, constant(1));
}

// The schedule decides when a try_wait times out.
template <class T, class... M, class D, class R, class A, class... Hint>
  requires is_wait<M...>
__forceinline__ void mbarrier_(D& ended, Address<R> address, A of, Hint...) {
  constexpr bool by_parity = has<modifier::parity_, M...>;
  uint64_t number = 0;
  if constexpr (by_parity)
    number = get<uint32_t>(of);
  else
    number = get<uint64_t>(of);
  const cpu::MBarrierPhase phase{
      .of = number,
      .by_parity = by_parity,
      .patience = has<modifier::try_wait_, M...> ? cpu::Patience::tries : cpu::Patience::none,
      .of_cluster = has<modifier::cluster_, M...>};
  put(ended, cpu::wait_at_mbarrier(barrier_at<M...>(address), phase, address.line));
}

template <class T, class Count, class D, class A>
  requires cpu::same_as<Count, modifier::pending_count_>
__forceinline__ void mbarrier_(D& d, A state) {
  put(d, static_cast<uint32_t>(get<uint64_t>(state) >> 32));
}

}  // namespace trifold::ptx
