// Asynchronous operations in flight: their bytes move in parts, at times that the schedule chooses, interleaved with
// the threads.
//
// An operation reads, and writes what it has read, 128 bytes at a time; then it signals completion: to a group of its
// thread, or to a barrier in shared memory that counts the bytes. In the natural order it is late: its parts move when
// no thread of the cluster can run, and operations that read move first. A seed chooses for each whether it completes
// at its start, late, or meanwhile, a part of a random operation after a step of a thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "../../include/trifold/cpu/instructions.h"

namespace trifold::engine {

struct MBarrier;
struct Thread;
using cpu::GroupKind;
using cpu::Instruction;

// Operations that a thread has committed together, or is about to commit.
struct AsyncGroup {
  uint32_t reading = 0, writing = 0;  // operations that have yet to read, and to write
  std::vector<uint32_t> rows;         // their numbers in the Checker
  bool shares_row = false;            // the next operation of the same instruction shares the last number
  Instruction instruction{};          // of the last operation

  bool is_over(bool reads_only) const { return reading == 0 && (reads_only || writing == 0); }
};

// A thread's groups of one kind that it has not waited for, oldest first; the last one is not committed yet.
struct AsyncGroups {
  std::vector<AsyncGroup> groups{1};
  uint32_t first = 0;  // number of the first group
  uint32_t read = 0;   // groups before this number have been waited for as far as they read

  AsyncGroup& open() { return groups.back(); }
  uint32_t open_number() const { return first + static_cast<uint32_t>(groups.size()) - 1; }
  AsyncGroup& operator[](uint32_t number) { return groups[number - first]; }
};

// An arrival at a barrier, due when the copies that its thread started earlier have completed.
struct LateArrival {
  MBarrier* barrier;
  uint16_t site;
  uint32_t started;  // the thread's copies so far, and how many of them are in flight
  uint32_t under_way;
  std::vector<uint32_t> rows;
};

struct GroupsOfThread {
  std::array<AsyncGroups, 2> of_kind;  // by GroupKind
  uint32_t started = 0;                // copies by cp.async, and how many of them are in flight
  uint32_t under_way = 0;
  std::vector<LateArrival> arrivals;
};

// Combines elements in memory with copied ones, for reductions.
using Combine = void (*)(char* to, const char* from, size_t bytes);

struct AsyncOperation {
  static constexpr uint32_t part_bytes = 128;

  Thread* issuer = nullptr;
  char* to = nullptr;
  const char* from = nullptr;  // null: `value`
  uint32_t bytes = 0;          // to write
  bool moves = true;           // false: an error prevents it, and it only signals
  uint32_t read_bytes = 0;     // of the source; zeros follow
  Combine combine = nullptr;
  alignas(16) std::array<char, 16> value{};
  MBarrier* barrier = nullptr;  // the barrier that counts its bytes; null: it belongs to a group
  GroupKind kind = GroupKind::copies;
  uint32_t group = 0;   // number of its group, among the issuer's of this kind
  uint32_t number = 0;  // number among the issuer's copies by cp.async, from 1 on
  uint32_t row = 0;     // its number in the Checker
  uint16_t site = 0;
  bool reads_apart = false;  // its reading can be waited for, and ends before it writes
  bool meanwhile = false;
  uint32_t parts_done = 0;          // of reading, then of writing
  uint32_t first_part = 0;          // the others follow cyclically
  std::unique_ptr<char[]> holding;  // the bytes read so far

  uint32_t parts() const { return (bytes + part_bytes - 1) / part_bytes; }
  bool is_over() const { return parts_done >= parts(); }
  // Each moves the next part and returns its size: from source to target, from source to `holding`, from there to
  // target.
  uint32_t copy_part();
  uint32_t read_part();
  uint32_t write_part();

 private:
  struct Part {
    uint32_t begin, bytes;
  };
  Part next_part();
  void read(Part part, char* into) const;
  void write(Part part, const char* source) const;
};

// Operations in the order of their start. (A std::deque allocates for every second one.)
class AsyncQueue {
 public:
  bool empty() const { return begin_ == operations_.size(); }
  size_t size() const { return operations_.size() - begin_; }
  AsyncOperation& operator[](size_t place) { return operations_[begin_ + place]; }
  void push(AsyncOperation&& operation) { operations_.push_back(std::move(operation)); }
  // Moves the first one to this place.
  void remove(size_t place) {
    if (place != 0) std::swap((*this)[place], (*this)[0]);
    ++begin_;
    if (begin_ != operations_.size() && (begin_ < 64 || begin_ < operations_.size() / 2)) return;
    operations_.erase(operations_.begin(), operations_.begin() + static_cast<ptrdiff_t>(begin_));
    begin_ = 0;
  }

 private:
  std::vector<AsyncOperation> operations_;
  size_t begin_ = 0;
};

// The operations of a cluster in flight, oldest first.
struct AsyncOperations {
  AsyncQueue moving;   // those that read, or read and write at once
  AsyncQueue writing;  // those that have read, and have yet to write

  bool empty() const { return moving.empty() && writing.empty(); }
};

}  // namespace trifold::engine
