// Loads and stores with a hint for the GPU's caches, which are plain accesses here; and hints for the compiler.
#pragma once

#include <trifold/cpu/qualifiers.h>

#include <type_traits>

// Memory that is read through the read-only cache must not be written in the same launch. Plain loads race with such a
// write unless they are ordered.
#define TRIFOLD_LOAD(name)                \
  template <class T>                      \
  __forceinline__ T name(const T* from) { \
    return *from;                         \
  }
TRIFOLD_LOAD(__ldg)
TRIFOLD_LOAD(__ldca)
TRIFOLD_LOAD(__ldcg)
TRIFOLD_LOAD(__ldcs)
TRIFOLD_LOAD(__ldlu)
TRIFOLD_LOAD(__ldcv)
#undef TRIFOLD_LOAD

#define TRIFOLD_STORE(name)                                              \
  template <class T>                                                     \
  __forceinline__ void name(T* to, const trifold::cpu::Same<T>& value) { \
    *to = value;                                                         \
  }
TRIFOLD_STORE(__stwb)
TRIFOLD_STORE(__stcg)
TRIFOLD_STORE(__stcs)
TRIFOLD_STORE(__stwt)
#undef TRIFOLD_STORE

#define __builtin_assume(condition) ((condition) ? void() : __builtin_unreachable())
