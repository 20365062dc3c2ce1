// Operations that go on beside the thread that starts them: cp.async, cp.async.bulk, st.async and their like.
#pragma once

#include <trifold/cpu.h>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace trifold::host {

// Numbers of engine::Instruction.
enum class Instruction : uint8_t {
  cp_async,
  cp_async_bulk,
  cp_reduce_async_bulk,
  cp_async_bulk_tensor,
  cp_reduce_async_bulk_tensor,
  st_async,
  red_async,
  memcpy_async,
};
constexpr bool is_of_copies(Instruction instruction) {
  return instruction == Instruction::cp_async || instruction == Instruction::memcpy_async;
}

// What a thread's groups are of, with the numbers of engine::GroupKind: its cp.async, or its bulk operations.
enum class GroupKind : uint8_t { copies, bulk };

struct Asynchronous {
  Instruction instruction;
  void* to;
  const void* from;             // null: it has `value`
  size_t bytes;                 // that it writes
  size_t alignment;             // of both addresses
  size_t unit = 1;              // its bytes are a multiple of so many
  size_t shared_alignment = 1;  // of the address in shared memory
  size_t zeros = 0;             // so many of its last bytes are zeros, for which nothing is read
  // A reduction: what it makes of so many bytes.
  void (*combine)(char* to, const char* from, size_t bytes) = nullptr;
  // In shared memory of the target's block, a barrier that counts the bytes; null: it is of the thread's open group.
  void* barrier = nullptr;
  // Of the ranks of the blocks that each get it, at the same places of their shared memory; 0: it is for the target.
  uint32_t ranks = 0;
  // Whether the target is shared memory, and the source.
  bool to_shared = true, from_shared = false;
  alignas(16) char value[16] = {};
};

void start(const Asynchronous& operation, Line line);
// The running thread's next operation makes no use of what it reads, in its first and its last 16 bytes, outside of
// what it may read.
void allow_neighbours();
// A cp.async, which reads so much of the source. (A function of its own: in a checked build, filling a struct takes
// longer than the copy.) Or a part of cuda::memcpy_async.
void start_copy(void* to, const void* from, size_t bytes, size_t read_bytes, Line line,
                Instruction instruction = Instruction::cp_async);
void commit_group(GroupKind kind, Line line);
// For all groups but the last ones; reads_only: until they have read their sources.
void wait_for_groups(GroupKind kind, unsigned pending, bool reads_only, Line line);
// A barrier in shared memory gets an arrival when the thread's cp.async so far are complete; counted: one more than it
// waits for.
void arrive_after_copies(void* barrier, bool counted, Line line);
// Of the spaces whose bits are set, those of engine::Space.
void fence_proxy(unsigned spaces);
inline constexpr unsigned global_proxy = 1, shared_proxy = 2;
// Asks for memory to be in the cache.
void prefetch_bulk(const void* from, size_t bytes, Line line);

}  // namespace trifold::host
#pragma GCC visibility pop
