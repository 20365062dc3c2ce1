// A fast approximate check of a kernel's accesses. It finds every race and every uninitialised read, with false
// positives: a kernel that it suspects is run again with all checks (trifold/simulator/compiled), which consider the
// ordering by warps, fences and atomics, and describe what they find. Here only barriers order accesses. Operations of
// a warp are accepted if all of its lanes do them, at the same lines in the same order.
//
// One OS thread runs the blocks in order. Each interval between barriers of each block has its own increasing number,
// `now`, so that nothing needs to be cleared between blocks and launches: an access belongs to this launch, to this
// block or to this interval if its number is at least the first one of it.
#pragma once

#include <trifold/cuda.cuh>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <type_traits>

namespace trifold::screen {

// The state of an element: the intervals of the last write and the last read, and the threads of the block that made
// them.
struct alignas(16) Cell {
  uint32_t written, read;
  uint16_t writer, reader;
};

inline constexpr uint16_t by_several = 0x4000, by_other_blocks = 0x8000;                                  // readers
inline constexpr uint16_t by_atomics = 0x4000, after_plain_writes = 0x8000, after_other_blocks = 0x2000;  // writers
inline constexpr uint16_t after_reads = 0x1000, after_reads_of_interval = 0x0800;  // writers by atomics
inline constexpr uint32_t unwritten = UINT32_MAX, last_interval = UINT32_MAX / 2;

// Of a global array that the kernel writes.
struct Array {
  uintptr_t begin;
  size_t bytes, element_bytes;
  Cell* cells;
};

struct Watched {
  Cell* cells = nullptr;
  size_t count = 0;
  bool marked = false;
};

struct State {
  uint32_t launch = 0, block = 0, now = 0, last = 0, thread = 0;
  uint64_t running_block = 0;
  bool has_waited = false;  // a thread of the running block has waited
  uint32_t ended = 0, first_ended = 0;
  unsigned count = 0;
  Array arrays[32] = {};
  Watched watched[32] = {};
  uint32_t waits[1024] = {};
  // a hash of the lines of barriers, and of operations of its warp, that each thread has reached
  uint64_t paths[1024] = {};
  bool has_met = false;  // a thread of the running block has synchronised with its warp
  uint64_t warp_paths[1024] = {};
  uint32_t ended_of_warp[32] = {}, first_of_warp[32] = {};
  Cell shared_words[1 << 16] = {}, shared_bytes[1 << 18] = {};
};
inline State state;

[[noreturn, gnu::noinline, gnu::cold]] inline void suspect() {
  throw std::runtime_error("the screen suspects an access");
}

// -------------------------------------------------------------------------------------------------- accesses

// If `read` is `now`, no thread has written since, and any may read.
template <bool shared>
__forceinline__ void note_read(Cell& cell) {
  State& s = state;
  if (cell.read == s.now) [[likely]] {
    if ((cell.reader & by_several) == 0 && (cell.reader & ~by_other_blocks) != s.thread)
      cell.reader = by_several | (cell.reader & by_other_blocks);
    return;
  }
  // In shared memory, what another block wrote counts as unwritten.
  if (shared || cell.written >= s.launch) {
    if (cell.written < s.block || cell.written > s.now) [[unlikely]]
      suspect();
    if (cell.written == s.now) {
      if (cell.writer != s.thread) suspect();
      return;
    }
    if ((cell.writer & after_other_blocks) != 0) suspect();
  }
  const bool others = !shared && cell.read >= s.launch && (cell.read < s.block || (cell.reader & by_other_blocks) != 0);
  cell.read = s.now;
  cell.reader = static_cast<uint16_t>(s.thread) | (others ? by_other_blocks : 0);
}

template <bool shared>
__forceinline__ void require_no_reader(const Cell& cell) {
  const State& s = state;
  if (cell.read < s.launch) return;
  if (!shared && (cell.read < s.block || (cell.reader & by_other_blocks) != 0)) [[unlikely]]
    suspect();
  if (cell.read == s.now && (cell.reader & ~by_other_blocks) != s.thread) [[unlikely]]
    suspect();
}

template <bool shared>
__forceinline__ void note_write(Cell& cell) {
  State& s = state;
  if (cell.written >= (shared ? s.block : s.launch) && cell.written != unwritten) {
    const bool others = cell.written == s.now ? cell.writer != s.thread : (cell.writer & after_other_blocks) != 0;
    if (cell.written < s.block || others) [[unlikely]]
      suspect();
  }
  require_no_reader<shared>(cell);
  cell.written = s.now;
  cell.writer = static_cast<uint16_t>(s.thread);
  cell.read = 0;
}

template <bool shared>
__forceinline__ void note_atomic(Cell& cell) {
  State& s = state;
  require_no_reader<shared>(cell);
  const uint32_t first = shared ? s.block : s.launch;
  const bool known = cell.written >= first;
  if ((!known && shared) || cell.written == unwritten) suspect();  // an uninitialised read
  uint16_t history = 0;
  if (known) {
    const bool plain = (cell.writer & by_atomics) == 0, of_other_block = cell.written < s.block;
    history = cell.writer & (after_plain_writes | after_other_blocks | after_reads);
    if (plain) history = after_plain_writes;
    if (plain && cell.written == s.now && cell.writer != s.thread) suspect();
    if (!plain && cell.written == s.now && (cell.writer & after_reads_of_interval) != 0) suspect();
    if (of_other_block && (history & (after_plain_writes | after_reads)) != 0) suspect();
    if (of_other_block) history |= after_other_blocks;
  }
  if (cell.read >= first) history |= after_reads;
  if (cell.read == s.now) history |= after_reads_of_interval;
  cell.written = s.now;
  cell.writer = by_atomics | history;
  cell.read = 0;
}

template <bool shared, char access>
__forceinline__ void note_in(Cell& cell) {
  if constexpr (access == 'r' || access == 'u') note_read<shared>(cell);
  if constexpr (access == 'w' || access == 'u') note_write<shared>(cell);
  if constexpr (access == 'a') note_atomic<shared>(cell);
}

template <char space, char access, class T>
__forceinline__ void note(T* place) {
  if constexpr (access == 'v' || space == 'l' || space == 'c') {
    return;
  } else if constexpr (space == 's') {
    const auto address = reinterpret_cast<uintptr_t>(place);
    if constexpr (sizeof(T) >= 4) {
      note_in<true, access>(state.shared_words[(address >> 2) & 0xFFFF]);
    } else {
      note_in<true, access>(state.shared_bytes[address & 0x3FFFF]);
    }
  } else if constexpr (space == 'p' || !std::is_const_v<T>) {  // an array that the kernel only reads has no races
    const auto address = reinterpret_cast<uintptr_t>(place);
    for (unsigned i = 0; i < state.count; ++i) {
      const Array& array = state.arrays[i];
      const size_t distance = address - array.begin;
      if (distance < array.bytes) return note_in<false, access>(array.cells[distance / sizeof(T)]);
    }
    if constexpr (space != 'p') suspect();  // a function's parameter may be an array that is only read
  }
}

// -------------------------------------------------------------------------------------------------- threads

__forceinline__ uint32_t linear(const uint3& index, const dim3& extent) {
  return index.x + extent.x * (index.y + extent.y * index.z);
}

// Threads start in the natural order, (0, 0, 0) first.
__forceinline__ void begin_thread() {
  State& s = state;
  s.thread = linear(threadIdx, blockDim);
  if (s.thread == 0) {
    ++s.running_block;
    s.block = ++s.last;
    if (s.has_waited) {
      const size_t threads = size_t{blockDim.x} * blockDim.y * blockDim.z;
      std::fill_n(s.waits, threads, 0);
      std::fill_n(s.paths, threads, 0);
      s.has_waited = false;
    }
    if (s.has_met) {
      std::fill(std::begin(s.warp_paths), std::end(s.warp_paths), 0);
      std::fill(std::begin(s.ended_of_warp), std::end(s.ended_of_warp), 0);
      s.has_met = false;
    }
    s.ended = 0;
  }
  s.now = s.block;
}

inline uint64_t extended(uint64_t path, int line) {
  return (path + static_cast<uint64_t>(line)) * 0x9e3779b97f4a7c15;
}

// The number of barriers that the running thread has passed.
inline int interval() {
  return state.has_waited ? static_cast<int>(state.waits[linear(threadIdx, blockDim)]) : 0;
}

inline void barrier(int line) {
  State& s = state;
  const uint32_t thread = linear(threadIdx, blockDim);
  const uint64_t block = s.running_block;
  if (!s.has_waited && s.ended != 0) suspect();
  s.has_waited = true;
  s.paths[thread] = extended(s.paths[thread], line);
  __syncthreads();
  if (s.running_block != block || s.last > last_interval) suspect();
  s.thread = thread;
  s.now = s.block + ++s.waits[thread];
  s.last = std::max(s.last, s.now);
}

// The running thread takes part in an operation of its warp.
template <class Operation>
auto in_warp(unsigned mask, int line, const Operation& operation) {
  State& s = state;
  const uint32_t thread = linear(threadIdx, blockDim);
  const uint64_t block = s.running_block;
  const bool whole = mask == 0xFFFFFFFF && blockDim.x * blockDim.y * blockDim.z % 32 == 0;
  if (!whole || (!s.has_met && s.ended != 0)) suspect();
  s.has_met = true;
  s.warp_paths[thread] = extended(s.warp_paths[thread], line);
  const auto result = operation();
  if (s.running_block != block) suspect();
  s.thread = thread;
  s.now = s.block + (s.has_waited ? s.waits[thread] : 0);
  return result;
}

// All lanes of a warp have reached the same operations.
inline void end_lane(uint32_t thread) {
  State& s = state;
  const uint32_t warp = thread / 32;
  if (s.ended_of_warp[warp]++ == 0) {
    s.first_of_warp[warp] = thread;
  } else if (s.warp_paths[thread] != s.warp_paths[s.first_of_warp[warp]]) {
    suspect();
  }
}

// All threads of a block have reached the same barriers.
__forceinline__ void end_thread() {
  State& s = state;
  ++s.ended;
  if (s.has_met) end_lane(linear(threadIdx, blockDim));
  if (!s.has_waited) return;
  const uint32_t thread = linear(threadIdx, blockDim);
  if (s.ended == 1) {
    s.first_ended = thread;
  } else if (s.paths[thread] != s.paths[s.first_ended] || s.waits[thread] != s.waits[s.first_ended]) {
    suspect();
  }
}

// -------------------------------------------------------------------------------------------------- launches

// An argument: an array's bytes, and for each element whether it is uninitialised; null: all are initialised.
struct Given {
  uint64_t begin, bytes, element_bytes, is_written_to;
  const unsigned char* unwritten;
};

inline bool overlap(const Given& a, const Given& b) {
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

inline void forget_all() {
  State& s = state;
  for (Watched& each : s.watched) {
    free(each.cells);
    each = {};
  }
  std::fill(std::begin(s.shared_words), std::end(s.shared_words), Cell{});
  std::fill(std::begin(s.shared_bytes), std::end(s.shared_bytes), Cell{});
  s.last = 0;
}

// False: the screen cannot check these arrays.
inline bool begin_launch(const Given* given, int count) {
  State& s = state;
  if (s.last > last_interval / 2) forget_all();
  s.launch = ++s.last;
  s.has_waited = s.has_met = true;
  s.count = 0;
  for (const Given* one = given; one < given + count; ++one) {
    if (one->is_written_to == 0) {
      if (one->unwritten != nullptr) return false;
      continue;
    }
    bool known = false;
    for (const Given* other = given; other < given + count; ++other) {
      if (other == one || !overlap(*one, *other)) continue;
      const bool same = other->begin == one->begin && other->bytes == one->bytes &&
                        other->element_bytes == one->element_bytes && other->is_written_to != 0;
      if (!same) return false;
      known = known || other < one;
    }
    if (known) continue;
    if (s.count == std::size(s.arrays)) return false;
    Watched& own = s.watched[s.count];
    const size_t cells = one->bytes / one->element_bytes;
    if (own.count < cells || own.marked) {
      free(own.cells);
      own = {static_cast<Cell*>(calloc(cells, sizeof(Cell))), cells, false};
      if (own.cells == nullptr) {
        own.count = 0;
        return false;
      }
    }
    if (one->unwritten != nullptr) {
      own.marked = true;
      for (size_t i = 0; i < cells; ++i)
        if (one->unwritten[i] != 0) own.cells[i].written = unwritten;
    }
    s.arrays[s.count++] = {one->begin, one->bytes, one->element_bytes, own.cells};
  }
  return true;
}

}  // namespace trifold::screen

#define __syncthreads() trifold::screen::barrier(__LINE__)
#define TRIFOLD_IN_WARP(operation, mask, ...) \
  trifold::screen::in_warp(mask, __LINE__, [&] { return operation(mask, __VA_ARGS__); })
#define __shfl_sync(...) TRIFOLD_IN_WARP(__shfl_sync, __VA_ARGS__)
#define __shfl_up_sync(...) TRIFOLD_IN_WARP(__shfl_up_sync, __VA_ARGS__)
#define __shfl_down_sync(...) TRIFOLD_IN_WARP(__shfl_down_sync, __VA_ARGS__)
#define __shfl_xor_sync(...) TRIFOLD_IN_WARP(__shfl_xor_sync, __VA_ARGS__)
#define __ballot_sync(...) TRIFOLD_IN_WARP(__ballot_sync, __VA_ARGS__)
#define __all_sync(...) TRIFOLD_IN_WARP(__all_sync, __VA_ARGS__)
#define __any_sync(...) TRIFOLD_IN_WARP(__any_sync, __VA_ARGS__)
