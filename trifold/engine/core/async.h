// Asynchronous operations that are under way: their bytes move when the schedule says so, in parts, beside the threads.
//
// One reads, and writes what it has read, 128 bytes at a time; then it signals to whoever waits for it: a group of its
// thread's, or a barrier in shared memory that counts the bytes. In the natural order it is late: its parts move when
// no thread of the cluster can run, those first that read. A seed draws for each whether it is done at its start, late,
// or meanwhile, one part of any of them after a step of a thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trifold::engine {

struct MBarrier;
struct Thread;
enum class Instruction : uint8_t;  // operation_clocks.h

// What of a thread's a wait is for: its copies by cp.async, or its bulk operations.
enum class GroupKind : uint8_t { copies, bulk };

// Operations that a thread has committed together, or is about to.
struct AsyncGroup {
  uint32_t reading = 0, writing = 0;  // how many of them have still to read, and to write
  std::vector<uint32_t> rows;         // the Checker's numbers of them
  bool shares_row = false;            // the next one of its instruction shares the last number
  Instruction instruction{};          // of the last one

  bool is_over(bool reads_only) const { return reading == 0 && (reads_only || writing == 0); }
};

// Those of a thread of one kind that it has not waited for, the oldest first; the last one is not committed yet.
struct AsyncGroups {
  std::vector<AsyncGroup> groups{1};
  uint32_t first = 0;  // the number of the first one
  uint32_t read = 0;   // those before this one have been waited for as far as they read

  AsyncGroup& open() { return groups.back(); }
  uint32_t open_number() const { return first + static_cast<uint32_t>(groups.size()) - 1; }
  AsyncGroup& operator[](uint32_t number) { return groups[number - first]; }
};

// An arrival at a barrier, once the copies are complete that its thread has started before.
struct LateArrival {
  MBarrier* barrier;
  uint16_t site;
  uint32_t started;  // the thread's copies until then, and how many of them are under way
  uint32_t under_way;
  std::vector<uint32_t> rows;
};

struct GroupsOfThread {
  std::array<AsyncGroups, 2> of_kind;  // by GroupKind
  uint32_t started = 0;                // copies by cp.async, and how many of them are under way
  uint32_t under_way = 0;
  std::vector<LateArrival> arrivals;
};

// What elements of memory become, in place of copied ones.
using Combine = void (*)(char* to, const char* from, size_t bytes);

struct AsyncOperation {
  static constexpr uint32_t part_bytes = 128;

  Thread* issuer = nullptr;
  char* to = nullptr;
  const char* from = nullptr;  // null: `value`
  uint32_t bytes = 0;          // that it writes
  bool moves = true;           // else a mistake keeps it from that, and it only signals
  uint32_t read_bytes = 0;     // of the source: zeros follow
  Combine combine = nullptr;
  alignas(16) std::array<char, 16> value{};
  MBarrier* barrier = nullptr;  // that counts its bytes; null: it is one of a group
  GroupKind kind = GroupKind::copies;
  uint32_t group = 0;   // of the issuer's of this kind, its number
  uint32_t number = 0;  // of the issuer's copies by cp.async, from 1 on
  uint32_t row = 0;     // the Checker's
  uint16_t site = 0;
  bool reads_apart = false;  // its reading can be waited for, and is over before it writes
  bool meanwhile = false;
  uint32_t parts_done = 0;          // of reading, and then of writing
  uint32_t first_part = 0;          // after which come the others, in a circle
  std::unique_ptr<char[]> holding;  // what it has read

  uint32_t parts() const { return (bytes + part_bytes - 1) / part_bytes; }
  bool is_over() const { return parts_done >= parts(); }
  // Each moves the next part and returns its bytes: from the source to the target, to where it is held, from there.
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

// Operations in the order of their start. (A std::deque asks for memory with every second one.)
class AsyncQueue {
 public:
  bool empty() const { return begin_ == operations_.size(); }
  size_t size() const { return operations_.size() - begin_; }
  AsyncOperation& operator[](size_t place) { return operations_[begin_ + place]; }
  void push(AsyncOperation&& operation) { operations_.push_back(std::move(operation)); }
  // The first one takes the place of this one.
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

// Those of a cluster that are under way, the oldest first.
struct AsyncOperations {
  AsyncQueue moving;   // those that read, or read and write at once
  AsyncQueue writing;  // those that have read what they are to write

  bool empty() const { return moving.empty() && writing.empty(); }
};

}  // namespace trifold::engine
