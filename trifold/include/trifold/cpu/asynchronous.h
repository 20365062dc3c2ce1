// Operations that run concurrently with the thread that starts them: cp.async, cp.async.bulk, st.async and similar
// ones.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/instructions.h>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace trifold::cpu {

constexpr bool is_of_copies(Instruction instruction) {
  return instruction == Instruction::cp_async || instruction == Instruction::memcpy_async;
}

struct Asynchronous {
  Instruction instruction;
  void* to;
  const void* from;             // null: the source is `value`
  size_t bytes;                 // to write
  size_t alignment;             // of both addresses
  size_t unit = 1;              // its bytes must be a multiple of this
  size_t shared_alignment = 1;  // of the address in shared memory
  size_t zeros = 0;             // this many of its last bytes are zeros, which are not read
  // For a reduction: combines this many bytes with those in memory.
  void (*combine)(char* to, const char* from, size_t bytes) = nullptr;
  // A barrier in shared memory of the target's block that counts the bytes; null: the operation belongs to the thread's
  // open group.
  void* barrier = nullptr;
  // A mask of the ranks of the blocks that receive the bytes, at the same offset of their shared memory; 0: only the
  // target.
  uint32_t ranks = 0;
  // Whether the target is shared memory, and the source.
  bool to_shared = true, from_shared = false;
  alignas(16) char value[16] = {};
};

void start(const Asynchronous& operation, Line line);
// The running thread's next operation may read whole vectors of 16 bytes at its begin and end; it does not use the
// bytes that it may not read.
void allow_neighbours();
// A cp.async that reads this much of the source, or a part of cuda::memcpy_async. (A separate function, because in a
// checked build, filling a struct takes longer than the copy.)
void start_copy(void* to, const void* from, size_t bytes, size_t read_bytes, Line line,
                Instruction instruction = Instruction::cp_async);
void commit_group(GroupKind kind, Line line);
// Waits for all groups but the last ones; reads_only: until they have read their sources.
void wait_for_groups(GroupKind kind, unsigned pending, bool reads_only, Line line);
// The barrier in shared memory gets an arrival when the thread's cp.async so far are complete; counted: in addition to
// the expected ones.
void arrive_after_copies(void* barrier, bool counted, Line line);
// A proxy fence for the spaces whose bits are set, those of engine::Space.
void fence_proxy(unsigned spaces);
inline constexpr unsigned global_proxy = 1, shared_proxy = 2;
// Prefetches memory into the cache.
void prefetch_bulk(const void* from, size_t bytes, Line line);

}  // namespace trifold::cpu
#pragma GCC visibility pop
