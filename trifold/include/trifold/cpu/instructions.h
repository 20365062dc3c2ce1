// The kinds of asynchronous operations, for kernels (asynchronous.h) and for the engine.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
namespace trifold::cpu {

enum class Instruction : uint8_t {
  cp_async,
  cp_async_bulk,
  cp_reduce_async_bulk,
  cp_async_bulk_tensor,
  cp_reduce_async_bulk_tensor,
  st_async,
  red_async,
  memcpy_async,  // cuda::memcpy_async: cp.async or cp.async.bulk, whichever it chooses
};

// The kind of a thread's groups of operations: its cp.async, or its bulk operations.
enum class GroupKind : uint8_t { copies, bulk };

}  // namespace trifold::cpu
#pragma GCC visibility pop
