// Atomics, for the types that CUDA has. Always inlined, so that in a checked port the access is at a line of the
// kernel.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/bits.h>
#include <trifold/cpu/float16.h>
#include <trifold/cpu/warp.h>

#include <type_traits>

namespace trifold::cpu {

// Replaces *p by f(*p), as one atomic; returns the old value.
template <Scope scope, class T, class F>
__forceinline__ T update(T* p, F f) {
  if constexpr (checked) {
    const auto made = [](const void* context, uint64_t old) {
      return Made{to_bits<T>((*static_cast<const F*>(context))(from_bits<T>(old))), true};
    };
    return from_bits<T>(checked_update(p, sizeof(T), scope, made, &f));
  }
  auto* const word = reinterpret_cast<Word<sizeof(T)>*>(p);
  auto old = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    const auto made = static_cast<Word<sizeof(T)>>(to_bits<T>(f(from_bits<T>(old))));
    if (__atomic_compare_exchange_n(word, &old, made, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      if (made == old) looked();
      return from_bits<T>(old);
    }
  }
}

template <class T>
concept adds_atomically =
    one_of<T, int, unsigned, unsigned long long, float, double, __half, __half2, __nv_bfloat16, __nv_bfloat162>;
template <class T>
concept subtracts_atomically = one_of<T, int, unsigned>;
template <class T>
concept counts_atomically = same_as<T, unsigned>;
template <class T>
concept compares_atomically = one_of<T, int, unsigned, long long, unsigned long long>;
template <class T>
concept has_atomic_bits = one_of<T, int, unsigned, unsigned long long>;
template <class T>
concept exchanges_atomically = has_atomic_bits<T> || same_as<T, float>;
template <class T>
concept swaps_atomically = has_atomic_bits<T> || same_as<T, unsigned short>;

template <Scope scope, class T>
__forceinline__ T compare_and_swap(T* p, T expected, T value) {
  if constexpr (checked) {
    const T given[] = {expected, value};
    const auto made = [](const void* context, uint64_t old) {
      const T* const swapped = static_cast<const T*>(context);
      return Made{to_bits(swapped[1]), old == to_bits(swapped[0])};
    };
    const uint64_t compared = to_bits(expected);
    return from_bits<T>(checked_update(p, sizeof(T), scope, made, given, &compared));
  }
  auto old = static_cast<Word<sizeof(T)>>(expected);
  if (!__atomic_compare_exchange_n(reinterpret_cast<Word<sizeof(T)>*>(p), &old, static_cast<Word<sizeof(T)>>(value),
                                   false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    looked();
  return static_cast<T>(old);
}

}  // namespace trifold::cpu

// Each has a form for block scope and one for system scope. They behave the same here; the checks distinguish them.
#define TRIFOLD_ATOMIC_FORM(name, scope, types, expression)                                                            \
  template <trifold::cpu::types T>                                                                                     \
  __forceinline__ T name(T* p, trifold::cpu::Same<T> value) {                                                          \
    return trifold::cpu::update<trifold::cpu::Scope::scope>(p, [value](T old) { return static_cast<T>(expression); }); \
  }
#define TRIFOLD_ATOMIC(name, types, expression)               \
  TRIFOLD_ATOMIC_FORM(name, device, types, expression)        \
  TRIFOLD_ATOMIC_FORM(name##_block, block, types, expression) \
  TRIFOLD_ATOMIC_FORM(name##_system, system, types, expression)

TRIFOLD_ATOMIC(atomicAdd, adds_atomically, old + value)
TRIFOLD_ATOMIC(atomicSub, subtracts_atomically, old - value)
TRIFOLD_ATOMIC(atomicMin, compares_atomically, value < old ? value : old)
TRIFOLD_ATOMIC(atomicMax, compares_atomically, value > old ? value : old)
TRIFOLD_ATOMIC(atomicAnd, has_atomic_bits, old& value)
TRIFOLD_ATOMIC(atomicOr, has_atomic_bits, old | value)
TRIFOLD_ATOMIC(atomicXor, has_atomic_bits, old ^ value)
TRIFOLD_ATOMIC(atomicExch, exchanges_atomically, (static_cast<void>(old), value))
// Count up to `value` and restart at 0; and down to 0 and restart at `value`.
TRIFOLD_ATOMIC(atomicInc, counts_atomically, old >= value ? 0 : old + 1)
TRIFOLD_ATOMIC(atomicDec, counts_atomically, old == 0 || old > value ? value : old - 1)
#undef TRIFOLD_ATOMIC
#undef TRIFOLD_ATOMIC_FORM

#define TRIFOLD_SWAP(name, scope)                                                             \
  template <trifold::cpu::swaps_atomically T>                                                 \
  __forceinline__ T name(T* p, trifold::cpu::Same<T> expected, trifold::cpu::Same<T> value) { \
    return trifold::cpu::compare_and_swap<trifold::cpu::Scope::scope, T>(p, expected, value); \
  }
TRIFOLD_SWAP(atomicCAS, device)
TRIFOLD_SWAP(atomicCAS_block, block)
TRIFOLD_SWAP(atomicCAS_system, system)
#undef TRIFOLD_SWAP

// Each element is a separate atomic.
__forceinline__ float2 atomicAdd(float2* p, float2 value) {
  return {atomicAdd(&p->x, value.x), atomicAdd(&p->y, value.y)};
}
__forceinline__ float4 atomicAdd(float4* p, float4 value) {
  return {atomicAdd(&p->x, value.x), atomicAdd(&p->y, value.y), atomicAdd(&p->z, value.z), atomicAdd(&p->w, value.w)};
}
