// cuda::memcpy_async with a barrier (libcu++, "cuda::memcpy_async"), and how the threads of a group share a copy.
#pragma once

#include <trifold/cpu/asynchronous.h>
#include <trifold/cpu/cuda_barrier.h>

#include <cstddef>
#include <cstdint>

namespace cuda {

// A size that is a multiple of the alignment of both addresses.
template <size_t alignment>
struct aligned_size_t {
  static constexpr size_t align = alignment;
  explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
  constexpr operator size_t() const { return value; }
  size_t value;
};

namespace details {

using trifold::cpu::Instruction;

// A single thread, as a group.
struct Alone {
  static constexpr unsigned thread_rank() { return 0; }
  static constexpr unsigned size() { return 1; }
};

// Each member copies pieces as wide as the addresses allow; pieces narrower than 4 bytes are copied synchronously.
template <class Group>
void start_copies(const Group& group, void* to, const void* from, size_t bytes, Line line,
                  Instruction instruction = Instruction::cp_async) {
  const auto odd = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  const size_t piece = odd % 16 == 0 ? 16 : odd % 8 == 0 ? 8 : odd % 4 == 0 ? 4 : 1;
  for (size_t at = group.thread_rank() * piece; at < bytes; at += group.size() * piece) {
    char* const target = static_cast<char*>(to) + at;
    const char* const source = static_cast<const char*>(from) + at;
    if (piece == 1)
      *target = *source;
    else
      trifold::cpu::start_copy(target, source, piece, piece, line, instruction);
  }
}

}  // namespace details

// The barrier's current phase ends only after they are complete.
inline void memcpy_async(void* to, const void* from, size_t bytes, barrier<thread_scope_block>& at, Line line = {}) {
  details::start_copies(details::Alone(), to, from, bytes, line, details::Instruction::memcpy_async);
  trifold::cpu::arrive_after_copies(native_handle_of(at), true, line);
}
template <class Group>
void memcpy_async(const Group& group, void* to, const void* from, size_t bytes, barrier<thread_scope_block>& at,
                  Line line = {}) {
  details::start_copies(group, to, from, bytes, line, details::Instruction::memcpy_async);
  trifold::cpu::arrive_after_copies(native_handle_of(at), true, line);
}

namespace device {

// A bulk copy, whose bytes the barrier's current phase counts: barrier_expect_tx or barrier_arrive_tx announces them.
template <class T, size_t alignment>
void memcpy_async_tx(T* to, const T* from, aligned_size_t<alignment> bytes, barrier<thread_scope_block>& at,
                     Line line = {}) {
  static_assert(alignment >= 16, "memcpy_async_tx copies multiples of 16 bytes");
  trifold::cpu::start({.instruction = details::Instruction::cp_async_bulk,
                       .to = to,
                       .from = from,
                       .bytes = bytes,
                       .alignment = 16,
                       .unit = 16,
                       .barrier = native_handle_of(at)},
                      line);
}

}  // namespace device

}  // namespace cuda
