// Arrays with the simulator's semantics: a negative index counts from the end, one out of bounds ends the launch, and
// with TRIFOLD_SCREEN so do accesses that may be a race or an uninitialised read. Used by kernels drafted to run in
// place of their prototype (trifold/simulator/compiled).
#pragma once

#include <trifold/cuda.cuh>

#include <cstdint>
#include <stdexcept>
#include <type_traits>

#ifdef TRIFOLD_SCREEN
#include <trifold/cpu/screen.h>
#endif

namespace trifold {

// An index along one dimension of an array, with that dimension's length and stride, in elements.
struct IndexAlong {
  int64_t index, length, stride;
};

// An index that cannot be negative; from_either_end() accepts any.
struct IndexFromFront : IndexAlong {};
template <class Index>
__device__ __forceinline__ auto from_front(Index index, int64_t length, int64_t stride) {
  const IndexAlong along{static_cast<int64_t>(index), length, stride};
  if constexpr (std::is_same_v<Index, uint64_t>) {
    return along;
  } else {
    return IndexFromFront{along};
  }
}
template <class Index>
__device__ __forceinline__ IndexAlong from_either_end(Index index, int64_t length, int64_t stride) {
  const auto i = static_cast<int64_t>(index);
  return {i < 0 ? i + length : i, length, stride};
}

// An array's name in the kernel, and the line of the call that passes it.
struct ArrayName {
  const char *text, *file, *function;
  int line;

  constexpr ArrayName(const char* text, const char* file = __builtin_FILE(),
                      const char* function = __builtin_FUNCTION(), int line = __builtin_LINE())
      : text(text), file(file), function(function), line(line) {}
};

// The out-of-bounds access that ended the launch.
struct AccessOutside {
  char space, access;
  ArrayName array;
  uint3 thread, block;
  int interval;  // barriers that the thread has passed; -1: unknown
  int dimensions;
  int64_t indices[8], lengths[8];
};
inline AccessOutside outside{' ', ' ', {""}, {}, {}, 0, 0, {}, {}};

template <class... At>
[[noreturn, gnu::noinline, gnu::cold]] void refuse_access(uint3 thread, char space, char access, ArrayName array,
                                                          At... at) {
#ifdef TRIFOLD_SCREEN
  const int interval = screen::interval();
#else
  const int interval = -1;
#endif
  outside = {space, access, array, thread, blockIdx, interval, sizeof...(At), {at.index...}, {at.length...}};
  throw std::out_of_range("an index is out of bounds");
}

// The address of an element. space: 'g', 's', 'l' or 'c' for global, shared, local or constant memory, 'p' in a device
// function whose array argument may be in any. access: 'r', 'w', 'u' (reads and writes), 'a' (atomic), or 'v' if the
// element is not accessed yet.
template <char space, char access, class T, class... At>
__device__ __forceinline__ T* element(T* array, ArrayName name, At... at) {
  if (!(... && (static_cast<uint64_t>(at.index) < static_cast<uint64_t>(at.length)))) [[unlikely]]
    refuse_access(threadIdx, space, access, name, at...);
  T* const place = array + (... + (at.index * at.stride));
#ifdef TRIFOLD_SCREEN
  screen::note<space, access>(place);
#endif
  return place;
}

// A record of an array, of which a field is accessed; parameters as for element().
template <char space, char access, class T>
__device__ __forceinline__ T& noted(T& record) {
#ifdef TRIFOLD_SCREEN
  screen::note<space, access>(&record);
#endif
  return record;
}

// ---------------------------------------------------------------------------------------------- blocks by regions

// A kernel that runs a whole block, region by region (trifold/draft/regions.py), is an overload with this parameter.
struct ByRegions {};

// Signed, so that compilers merge this with a surrounding condition such as `i < n`; with unsigned numbers they often
// do not.
__forceinline__ bool is_inside(IndexFromFront at) {
  return at.index < at.length;
}
__forceinline__ bool is_inside(IndexAlong at) {
  return static_cast<uint64_t>(at.index) < static_cast<uint64_t>(at.length);
}

// element() for the thread of the current iteration of a region.
template <char space, char access, class T, class... At>
__forceinline__ T* element_of(uint3 thread, T* array, ArrayName name, At... at) {
  if (!(... && is_inside(at))) [[unlikely]] {
    name.function = "";  // the kernel itself, of which this is a lambda
    refuse_access(thread, space, access, name, at...);
  }
  return array + (... + (at.index * at.stride));
}

// The same variable, with the address of a thread-local one computed here instead of in each iteration of a loop.
template <class T>
__forceinline__ T& found_once(T& variable) {
  T* address = &variable;
  asm("" : "+r"(address));
  return *address;
}

// Calls run(threadIdx, number) for each thread of the block, in order.
template <bool told, class Run>
__forceinline__ void for_each_thread(dim3 block, const Run& run) {
  uint3& running = found_once(threadIdx);
  unsigned number = 0;
  for (unsigned z = 0; z < block.z; ++z)
    for (unsigned y = 0; y < block.y; ++y)
      for (unsigned x = 0; x < block.x; ++x) {
        const uint3 thread{x, y, z};
        if constexpr (told) running = thread;
        run(thread, number++);
      }
}

}  // namespace trifold
