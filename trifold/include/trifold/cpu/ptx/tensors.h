// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor. (PTX ISA 9.0, "Data Movement and Conversion Instructions")
#pragma once

#include <trifold/cpu/ptx/copies.h>
#include <trifold/cpu/tensor_copies.h>

#include <array>
#include <cstdint>
#include <tuple>

namespace trifold::ptx {

template <class... C>
std::array<int32_t, sizeof...(C)> coordinates(const std::tuple<C...>& given) {
  return std::apply([](auto... each) { return std::array<int32_t, sizeof...(C)>{get<int32_t>(each)...}; }, given);
}

template <class... M, class To, class Map, class... C, class Barrier>
void load_tensor(Address<To> to, Address<Map> map, const std::tuple<C...>& at, Address<Barrier> barrier,
                 uint32_t ranks) {
  const auto place = coordinates(at);
  cpu::start_tensor_copy({.map = pointer<const char>(map),
                          .at = place.data(),
                          .dimensions = sizeof...(C),
                          .shared = pointer<char, TargetSpace<M...>>(to),
                          .to_shared = true,
                          .barrier = pointer<char, TargetSpace<M...>>(barrier),
                          .ranks = ranks},
                         to.line);
}
template <class... M, class To, class Map, class... C, class Barrier>
  requires has<modifier::tensor_, M...>
void cp_(Address<To> to, Address<Map> map, std::tuple<C...> at, Address<Barrier> barrier) {
  load_tensor<M...>(to, map, at, barrier, 0);
}
template <class... M, class To, class Map, class... C, class Barrier, class Mask>
  requires has<modifier::tensor_, M...>
void cp_(Address<To> to, Address<Map> map, std::tuple<C...> at, Address<Barrier> barrier, Mask mask) {
  load_tensor<M...>(to, map, at, barrier, get<uint16_t>(mask));
}

// Finds the operation of a reduction among the modifiers.
template <class M>
void reduce_tensor(const cpu::TensorCopy& copy, cpu::Line line) {
  namespace words = modifier;
  if constexpr (has<M, words::add_, words::min_, words::max_, words::and_, words::or_, words::xor_>)
    cpu::start_tensor_reduction<M>(copy, line);
}
template <class... M, class Map, class... C, class From>
  requires has<modifier::tensor_, M...>
void cp_(Address<Map> map, std::tuple<C...> at, Address<From> from) {
  const auto place = coordinates(at);
  const cpu::TensorCopy copy{.map = pointer<const char>(map),
                             .at = place.data(),
                             .dimensions = sizeof...(C),
                             .shared = pointer<char, modifier::shared_cta_>(from),
                             .to_shared = false};
  if constexpr (has<modifier::reduce_, M...>)
    (reduce_tensor<M>(copy, map.line), ...);
  else
    cpu::start_tensor_copy(copy, map.line);
}

// A prefetch has no effect on results.
template <class... M, class Map, class... C>
  requires has<modifier::tensor_, M...>
void cp_(Address<Map>, std::tuple<C...>) {}

}  // namespace trifold::ptx
